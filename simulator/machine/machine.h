/* The state of a cluster, its CTAs and its warps, and the functions that instructions call on it.  A cluster
 * belongs to one worker thread while it runs, so nothing here is shared; launch.h has what is. */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include <string.h>

#include "launch.h"
#include "ptx/ir.h"
#include "ptx/list.h"
#include "sim.h"

#define MAX_CLUSTER        16
#define MAX_WARPS          32
#define ALL_LANES          0xffffffffu
#define SHARED_RESERVED    1024 /* HW: the first KB of a CTA's shared window belongs to the system (sm_90 on) */
#define SHARED_SCRATCH     288  /* its end, for groups of several warps: cooperative_groups/details/memory.h */
#define RANK_SHIFT         24   /* a shared address is CTA rank << RANK_SHIFT | offset */
#define RANK_MASK          0xffffffu
#define MAX_SHARED         (227 * 1024)
#define MAX_SHARED_SM_120  (99 * 1024)
#define MAX_CLUSTER_SM_120 8
#define NAMED_BARRIERS     16
#define GROUP_OF_LOAD      UINT32_MAX /* `group` of a tcgen05.ld in flight, which has none */
/* warp->reg_pending adds one of these for each pending operation that reads or writes a register. */
#define PENDING_READ  1
#define PENDING_WRITE 65536
#define MAX_PENDING   (PENDING_WRITE - 1) /* most operations of a warp in flight */

/* Windows of the generic address space; a global address is a host address. */
#define SHARED_WINDOW ((uint64_t)1 << 56)
#define LOCAL_WINDOW  ((uint64_t)2 << 56)
#define PARAM_WINDOW  ((uint64_t)3 << 56)
#define WINDOW_MASK   ((uint64_t)0xff << 56)

struct cluster;
struct cta;
struct warp;
struct async_op;
struct vector_clock;
struct timing;
struct warp_time;
struct schedule;

enum wait_kind {
    WAIT_NONE,
    WAIT_BAR,      /* object: named barrier; a: its number; b: generation */
    WAIT_MBARRIER, /* object: the mbarrier; a: parity or phase */
    WAIT_CLUSTER,  /* b: generation */
    WAIT_CONVERGE, /* other lanes of the warp have to arrive, at an instruction with .aligned or a mask (a) */
    WAIT_WARP_SYNC,
    WAIT_ASYNC, /* the warp's own asynchronous operations; ready() tells when they are done */
    WAIT_KINDS
};

struct run;
struct split;

struct wait {
    enum wait_kind kind;
    uint32_t a, b;
    void *object;
    bool (*ready)(struct warp *warp, const struct split *split);
    const char *what; /* text for the deadlock table */
    /* Explains a deadlock in a further finding; may be NULL. */
    void (*hung)(const struct warp *warp, const struct split *split);
};

struct frame {
    uint32_t return_pc;
    uint32_t local_base; /* the caller's */
    /* Offset in local memory of the registers that the callee had in its outer activation; CALL_SAVED_NOTHING:
     * it has none. */
    uint32_t saved;
    const struct function *function; /* the caller */
    const struct call_info *call;
};
#define CALL_SAVED_NOTHING UINT32_MAX

/* Lanes that share a pc. */
struct split {
    uint32_t mask, pc;
    const struct function *function;
    uint32_t depth;
    uint32_t steps;      /* instructions since it was last chosen */
    uint32_t failed_try; /* 1 + pc of the try_wait that has just returned false; 0: none */
    bool worked;         /* it has executed more than branches since its lanes parted from others */
    bool resumed;        /* it executes again the instruction in which it waited, for `waited` */
    enum wait_kind waited;
    struct wait wait;
    uint32_t local_base,
        local_top;       /* the function's frame in local memory; the end of frames of recursive calls */
    struct frame *stack; /* room for launch->call_depth */
};

/* The last write of a register for wgmma.fence: the fence's epoch and, in the low bits, by what. */
enum register_write { BY_OTHERS, BY_COPY, BY_CONSTANT, WRITE_BITS = 2 };
enum { PARTIES = 8, COPIES_SEEN = 32 };
enum { FENCED = 1, BARRED = 2 }; /* a fence; a barrier of the CTA or the cluster */

struct warp {
    struct cta *cta;
    uint32_t index;  /* in its CTA */
    uint32_t number; /* in its cluster, and its index in vector clocks */
    uint32_t live;   /* lanes that have not ended */
    uint8_t *regs, *preds, *local;
    struct split *splits[LANES];
    uint32_t nsplits;
    struct split *split_store; /* an array of LANES splits, of which `split_used` are in use */
    struct frame *frames;      /* their stacks */
    uint32_t split_used;
    uint64_t executed;
    uint32_t polled;       /* cluster->events at the last fruitless poll */
    bool fruitless;        /* the last poll changed nothing */
    uint64_t polled_at;    /* `executed` at the last poll */
    uint64_t state;        /* a hash of its state at an earlier round of polling */
    bool repeats;          /* it has come back to that state */
    struct groups *groups; /* groups of wgmma, cp.async and bulk copies (async/groups.h) */
    /* Indexed by row of registers: pending operations that use it (PENDING_READ, PENDING_WRITE), and
     * `fence_epoch` when it was written last. */
    uint32_t *reg_pending;
    uint32_t *reg_written, fence_epoch; /* fence_epoch counts wgmma.fence */
    bool fence_used;                    /* a wgmma has been issued since the last one */
    struct in_flight {                  /* wgmma and tcgen05.ld that have not completed */
        const struct insn *insn;
        const struct function *function;
        uint32_t group, clock_index, number;
    } *in_flight;
    uint32_t npending, pending_room;
    struct vector_clock *clock;
    uint32_t cluster_arrivals; /* lanes that have arrived at the cluster barrier and not waited yet */
    uint32_t cluster_open;     /* the lanes among them whose barrier is not complete */
    uint32_t synced_time;      /* the warp's own time when all its lanes synchronised last */
    uint32_t whole_time;       /* the same without __syncwarp of some lanes: */
    struct synced {            /* those of the last ones, and the time */
        uint32_t lanes, time;
    } parties[PARTIES];
    uint32_t nparties;
    /* Clock index of its cp.async groups, 0: none waited for; the warp's time at the wait for the last ones. */
    uint32_t copies_index, copies_seen[COPIES_SEEN];
    const struct insn *maxnreg; /* its last setmaxnreg, and how many it has executed */
    uint32_t maxnregs;
    /* What all lanes did up to this time of the warp precedes what these lanes do: they have seen the phase of
     * an mbarrier at which the whole warp had arrived. */
    uint32_t awaited_time, awaited_by;
    /* Since the last store of any lane: FENCED, BARRED.  A volatile store is then a signal. */
    uint8_t settled;
    uint32_t fenced_time;   /* its own time at its last releasing fence */
    struct warp_time *time; /* clock/; NULL: no time is simulated */
    uint32_t unwaited;      /* lanes without a griddepcontrol.wait while another lane has executed it */
};

struct named_barrier {
    uint32_t arrived, expected, generation; /* expected 0: every live thread of the CTA */
    struct vector_clock *gathered, *released;
    bool all, any, result_all, result_any; /* for bar.red */
    bool in_parts;                         /* only some lanes of a warp arrived at once */
    uint32_t whole;                        /* a bit for each warp that counts with all of its lanes */
    uint32_t count, result_count;
};

/* When a CTA lets the next launch start (PTX ISA, griddepcontrol). */
enum start_of_next {
    START_AT_END, /* no thread has executed griddepcontrol.launch_dependents */
    START_WAITED, /* every thread that has executed it had waited for the previous launch */
    START_EARLY,  /* some thread executed it without having waited */
};

struct cta {
    struct cluster *cluster;
    uint32_t rank, index[3];
    uint8_t *shared;
    uint32_t shared_bytes; /* includes the reserved part */
    uint32_t dynamic_at;
    struct warp *warps;
    uint32_t nwarps, nthreads, live_threads;
    struct named_barrier bars[NAMED_BARRIERS];
    struct mbarriers *mbarriers;
    struct shadow *shadow;
    struct remote_uses *remote; /* uses by other CTAs of the cluster; NULL without checks or other CTAs */
    struct warpgroup *warpgroups;
    uint32_t registers[MAX_WARPS / 4]; /* by warpgroup: what its last setmaxnreg set; 0: none yet */
    void *tensor;                      /* tensor memory and other tcgen05 state (isa/tcgen05) */
    uint32_t sm;                       /* clock/: its SM */
    uint64_t triggered;                /* clock/: when it let dependent launches start; 0: not yet */
    enum start_of_next start_of_next;
    bool waited; /* some thread has executed griddepcontrol.wait */
};

struct cluster {
    struct worker *worker;
    struct launch *launch;
    uint64_t number;
    uint32_t index[3];
    struct cta *ctas;
    uint32_t nctas;
    bool checks; /* those of the launch, unless only its first CTAs are checked */
    /* barrier.cluster */
    uint32_t cluster_arrived, cluster_generation;
    struct vector_clock *cluster_gathered, *cluster_released;
    /* asynchronous operations not yet complete, oldest first */
    struct async_op *ops_first, *ops_last;
    struct async_op *unissued; /* created, but not handed to async_issue yet */
    uint32_t nops;
    uint64_t op_number;
    uint64_t random;
    uint32_t events;                         /* incremented by everything that may end a wait */
    uint32_t nclock_indices, clock_capacity; /* indices of vector clocks: handed out, available */
    uint32_t most_clock_indices;             /* maximum over all clusters that have used this struct */
    /* Indices of vector clocks for griddepcontrol.wait, for flags set by earlier launches, and for the notes
     * about other clusters (hazard/releases.h). */
    uint32_t dependency_index, flag_index, heard_index;
    struct heard *heard;
    uint32_t *execution_indices, nexecution_indices; /* new_execution_indices in hazard/hazard.h */
    struct vector_clock *clock_free, *clock_all;
    struct map_changes *map_changes; /* async/map_change.c */
    struct sync_table *sync;         /* clocks of flags used by strong accesses (hazard/locations.c) */
    uint32_t idle;                   /* consecutive rounds with nothing but polling */
    uint32_t compared;               /* in how many of these rounds its warps' states were compared */
    uint32_t changes;                /* later comparisons, since its last progress, that showed a change */
    uint64_t others;                 /* launch->rounds in the last of these rounds */
    uint32_t given_way;              /* how often it has let a later cluster run first, after a global atomic */
    bool gives_way;                  /* it does so now */
    const struct warp *last_ran;     /* NULL: none yet */
    uint32_t island, seen_events; /* clock/: its island; `events` when its waiting warps were last examined */
    bool left;                    /* clock/: its warps have ended */
    uint64_t barrier_over;        /* clock/: when its last barrier released its warps */
    bool failed;
};

/* The values of a store that is about to happen, for the checks: `fill` overwrites those of the 16 bytes at an
 * offset of a CTA that the store writes. */
struct new_values {
    void (*fill)(const struct run *run, const struct new_values *values, const struct cta *cta, uint32_t offset,
                 uint8_t bytes[16]);
};

/* The context of an executing instruction. */
struct run {
    uint8_t *base[BASES];
    struct warp *warp;
    struct split *split;
    struct cta *cta;
    struct cluster *cluster;
    struct launch *launch;
    struct worker *worker;
    const struct insn *insn;
    uint32_t mask;                   /* lanes that execute it */
    const struct new_values *values; /* values of a plain store to shared memory; else NULL */
    /* For a plain store to global memory, else NULL: true if memory already has the stored values in those of
     * 128 bytes that are in the mask. */
    bool (*leaves_memory)(const struct run *run, uint64_t address, const uint64_t mask[2]);
};

static inline void *row(const struct run *run, struct operand operand) {
    return run->base[operand.base] + operand.off;
}

static inline uint32_t pred(const struct run *run, struct operand operand) {
    uint32_t bits;
    memcpy(&bits, run->base[BASE_PREDS] + operand.off, sizeof bits);
    return operand.negated ? ~bits : bits;
}

static inline void set_pred(const struct run *run, struct operand operand, uint32_t mask, uint32_t bits) {
    uint32_t before;
    memcpy(&before, run->base[BASE_PREDS] + operand.off, sizeof before);
    before = (before & ~mask) | (bits & mask);
    memcpy(run->base[BASE_PREDS] + operand.off, &before, sizeof before);
}

/* The lanes that the guard of an instruction lets through; preds: the predicates of its function. */
static inline uint32_t guarded_lanes(const uint8_t *preds, const struct insn *insn, uint32_t lanes) {
    uint32_t bits = UINT32_MAX;
    if (insn->guard != 0) {
        memcpy(&bits, preds + insn->guard_off, sizeof bits);
        bits = insn->guard == 1 ? bits : ~bits;
    }
    return lanes & bits;
}

/* An integer operand of a lane, of either width; 32-bit values are zero-extended. */
static inline uint64_t lane_u64(const struct run *run, struct operand operand, int lane) {
    const uint8_t *at = row(run, operand);
    uint64_t wide = 0;
    memcpy(&wide, at + lane * (operand.wide ? 8 : 4), operand.wide ? 8 : 4);
    return wide;
}

/* The low bits of the value if the register has 32. */
static inline void set_lane(const struct run *run, struct operand operand, int lane, uint64_t value) {
    memcpy((uint8_t *)row(run, operand) + lane * (operand.wide ? 8 : 4), &value, operand.wide ? 8 : 4);
}

static inline void count_mma(struct run *run, int m, int n, int k) {
    run->worker->counters.tensor_instructions++;
    run->worker->counters.tensor_macs += (uint64_t)m * (uint64_t)n * (uint64_t)k;
}

/* The entry of a register in reg_pending. */
static inline uint32_t *pending_row(struct warp *warp, const struct function *function,
                                    struct operand operand) {
    const uint32_t *reg_base = warp->cta->cluster->launch->reg_base;
    return &warp->reg_pending[(reg_base[function->index] + operand.off) / ROW32];
}

static inline uint32_t lane_u32(const struct run *run, struct operand operand, int lane) {
    return ((const uint32_t *)row(run, operand))[lane];
}

/* An address of an instruction with several address operands; `offsets` holds the constant added to each. */
static inline uint64_t operand_address(const struct run *run, const struct insn *insn, const int64_t *offsets,
                                       int at, int lane) {
    return lane_u64(run, insn->op[at], lane) + (uint64_t)offsets[at];
}

/* Iterates over the lanes of a mask; the body starts with `int lane = LANE(rest);`. */
#define FOR_LANES(rest, mask) for (uint32_t rest = (mask); rest != 0; rest &= rest - 1)
#define LANE(rest)            __builtin_ctz(rest)

/* The lanes of a mask in which an operand has a value. */
static inline uint32_t lanes_with(const struct run *run, struct operand operand, uint32_t mask,
                                  uint64_t value) {
    uint32_t same = 0;
    FOR_LANES(rest, mask) {
        same |= (uint32_t)(lane_u64(run, operand, LANE(rest)) == value) << LANE(rest);
    }
    return same;
}

/* Executes a statement for every lane l of a mask; vectorised for a whole warp. */
#define LANEWISE(mask, ...)                                                                                    \
    do {                                                                                                       \
        if ((mask) == ALL_LANES) {                                                                             \
            _Pragma("GCC ivdep") for (int l = 0; l < LANES; l++) {                                             \
                __VA_ARGS__;                                                                                   \
            }                                                                                                  \
        } else {                                                                                               \
            FOR_LANES(rest_, mask) {                                                                           \
                int l = LANE(rest_);                                                                           \
                __VA_ARGS__;                                                                                   \
            }                                                                                                  \
        }                                                                                                      \
    } while (0)

/* True if the bytes of each lane follow those of the lane before. */
#define IN_A_ROW(type, at, bytes)                                                                              \
    __extension__({                                                                                            \
        type apart_ = 0;                                                                                       \
        for (uint32_t l_ = 0; l_ < LANES; l_++) {                                                              \
            apart_ |= (type)(at)[l_] - (type)(at)[0] - l_ * (bytes);                                           \
        }                                                                                                      \
        apart_ == 0;                                                                                           \
    })

/* The coordinates of the element `number` of a box, x fastest. */
static inline void unfold(uint64_t number, const uint32_t box[3], uint32_t at[3]) {
    at[0] = (uint32_t)(number % box[0]);
    at[1] = (uint32_t)(number / box[0] % box[1]);
    at[2] = (uint32_t)(number / box[0] / box[1]);
}

/* ---- the heap (machine/alloc.c) ---- */

/* Allocates memory for a run.  Never NULL: if the heap is exhausted, jumps to worker->unwind, the run ends and
 * sim_launch returns SIM_NO_MEMORY.  The block has to be reachable from a structure that cluster_free frees. */
void *run_take(struct worker *worker, size_t count, size_t size); /* zeroed */
void *run_take_aligned(struct worker *worker, size_t alignment, size_t bytes);
/* As LIST_GROW; the new room is zeroed. */
void run_grow(struct worker *worker, void *list, size_t count, uint32_t *room, size_t size);
#define RUN_GROW(worker, list, count, room) run_grow(worker, (void *)&(list), count, &(room), sizeof *(list))
/* Ends the launch with SIM_NO_MEMORY at the next turn of each worker. */
void launch_no_memory(struct launch *launch);

/* ---- findings (machine/findings.c) ---- */

/* Records a finding at the running instruction.  An error ends the launch: `return sim_report(...)`. */
enum next sim_report(struct run *run, enum sim_verdict verdict, const char *kind, int lane, const char *format,
                     ...) __attribute__((format(printf, 5, 6)));
/* sim_report with the instruction of the other access; never ends the launch. */
enum next sim_report_pair(struct run *run, enum sim_verdict verdict, const char *kind, int lane,
                          const struct insn *other, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Records a finding at any instruction, or none. */
void sim_note(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct cta *cta,
              int warp, int lane, const struct insn *insn, const struct insn *other, const char *format, ...)
    __attribute__((format(printf, 9, 10)));
/* sim_note with a byte of shared memory, at `offset` in the CTA's window. */
void sim_note_at(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct cta *cta,
                 int warp, int lane, int64_t offset, const struct insn *insn, const struct insn *other,
                 const char *message);
/* sim_note with a byte of global memory, at `offset` in the allocation. */
void sim_note_global(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct cta *cta,
                     int warp, int lane, const struct allocation *allocation, uint64_t offset,
                     const struct insn *insn, const struct insn *other, const char *message);
/* An access by another launch. */
struct other_access {
    const struct module *module; /* NULL: a copy */
    const char *kernel;
    uint32_t launch;
    const struct insn *insn;
};
void sim_note_launches(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct cta *cta,
                       int warp, int lane, const struct allocation *allocation, uint64_t offset,
                       const struct insn *insn, const struct other_access *other, const char *message);

/* ---- splits, waits, operations in flight (machine/split.c), random choices (machine/random.c) ---- */

/* Suspends the running split, which executes its instruction again after the wait: `return wait_for(...)`. */
enum next wait_for(struct run *run, struct wait wait);
/* Makes a new split of some lanes of the running split; the caller removes them from that one. */
struct split *add_split(struct run *run, uint32_t mask, uint32_t pc);
/* An entry for one more operation that the running warp has in flight. */
struct in_flight *pending_new(struct run *run);
/* Removes splits[at] from the warp. */
void drop_split(struct warp *warp, uint32_t at);
/* The next 64 random bits; the initial state is the seed. */
uint64_t next_random(uint64_t *state);

/* Claims an unstarted cluster, to launch it or (`cancel`) to steal its work.  A stolen cluster is the last of
 * the grid, and never one that the chip holds from the start.  False if there is none. */
bool claim_cluster(struct launch *launch, bool cancel, uint64_t *number);

/* ---- memory (machine/address.c) ---- */

/* The bytes at a global address; reports and returns NULL if they are not all in one allocation. */
uint8_t *global_memory(struct run *run, uint64_t address, uint64_t bytes, int lane, bool write);
/* Splits a shared address into CTA and offset, and checks bounds and alignment; NULL after a report. */
struct cta *shared_cta(struct run *run, uint64_t address, uint32_t bytes, uint32_t align, int lane,
                       bool own_only, uint32_t *offset);
/* The bytes at a generic address; sets *cta and *offset if it is in shared memory, else *cta = NULL. */
uint8_t *generic_memory(struct run *run, uint64_t address, uint32_t bytes, int lane, bool write,
                        struct cta **cta, uint32_t *offset);
/* The allocation that contains a whole range, or NULL. */
const struct allocation *allocation_of(const struct sim *sim, struct worker *worker, uint64_t address,
                                       uint64_t bytes);
bool find_range(const struct sim *sim, struct worker *worker, uint64_t address, uint64_t bytes);
/* The last allocation that starts at or before an address, or NULL. */
const struct allocation *allocation_before(const struct sim *sim, uint64_t address);

#endif
