/* The machine's state below a launch (launch.h), and what instructions ask of it.  A worker thread owns a
 * cluster while it runs; nothing here is shared. */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include <string.h>

#include "launch.h"
#include "ptx/ir.h"
#include "sim.h"

#define MAX_CALL_DEPTH     24
#define MAX_CLUSTER        16
#define MAX_WARPS          32
#define ALL_LANES          0xffffffffu
#define SHARED_RESERVED    1024 /* HW: the first KB of a CTA's shared window belongs to the system (sm_90 on) */
#define RANK_SHIFT         24   /* a shared address: CTA rank in the cluster, offset */
#define RANK_MASK          0xffffffu
#define MAX_SHARED         (227 * 1024)
#define MAX_SHARED_SM_120  (99 * 1024)
#define MAX_CLUSTER_SM_120 8
#define NAMED_BARRIERS     16
#define GROUP_OF_LOAD      UINT32_MAX /* what a tcgen05.ld in flight has for a group */
/* In a warp's reg_pending: how many pending operations read and write a register. */
#define PENDING_READ  1
#define PENDING_WRITE 65536
#define MAX_PENDING   (PENDING_WRITE - 1) /* so many operations of a warp are told apart */

/* Windows of the generic address space; global addresses are the host's own. */
#define SHARED_WINDOW ((uint64_t)1 << 56)
#define LOCAL_WINDOW  ((uint64_t)2 << 56)
#define PARAM_WINDOW  ((uint64_t)3 << 56)
#define WINDOW_MASK   ((uint64_t)0xff << 56)

struct cluster;
struct cta;
struct warp;
struct async_op;
struct clockv;
struct timing;
struct warp_time;
struct schedule;

enum wait_kind {
    WAIT_NONE,
    WAIT_BAR,      /* object: named barrier; a: its number; b: generation */
    WAIT_MBARRIER, /* object: the barrier; a: parity or phase */
    WAIT_CLUSTER,  /* b: generation */
    WAIT_CONVERGE, /* for the other lanes of the warp: .aligned or a member mask (a) */
    WAIT_WARP_SYNC,
    WAIT_ASYNC, /* for the warp's own asynchronous operations: ready() says */
    WAIT_KINDS
};

struct run;
struct split;

struct wait {
    enum wait_kind kind;
    uint32_t a, b;
    void *object;
    bool (*ready)(struct warp *warp, const struct split *split);
    const char *what; /* for the deadlock table */
    /* Tells more of a deadlock, in a finding of its own; may be NULL. */
    void (*hung)(const struct warp *warp, const struct split *split);
};

struct frame {
    uint32_t return_pc;
    const struct function *function; /* the caller */
    const struct call_info *call;
};

/* Lanes that share a pc. */
struct split {
    uint32_t mask, pc;
    const struct function *function;
    uint32_t depth;
    uint32_t steps;      /* since it was last chosen */
    uint32_t failed_try; /* 1 + pc of the try_wait that said no just now */
    bool resumed;        /* executing again the instruction it waited in; waited says for what */
    enum wait_kind waited;
    struct wait wait;
    struct frame stack[MAX_CALL_DEPTH];
};

struct warp {
    struct cta *cta;
    uint32_t index;  /* in its CTA */
    uint32_t number; /* in its cluster: its clock's index */
    uint32_t live;   /* lanes that have not ended */
    uint8_t *regs, *preds, *local;
    struct split *splits[LANES];
    uint32_t nsplits;
    struct split *split_store; /* LANES of them */
    uint32_t split_used;
    uint64_t executed;
    uint32_t polled;    /* the cluster's event count at the last fruitless poll */
    bool fruitless;     /* the last poll was */
    uint64_t polled_at; /* instructions executed before it */
    /* wgmma, cp.async and bulk groups: see async/groups.h */
    struct groups *groups;
    /* By row of registers: how many pending operations use it, and wgmma.fence's count when it was written. */
    uint32_t *reg_pending;
    uint32_t *reg_written, fence_epoch;
    struct in_flight { /* wgmma and tcgen05.ld of the warp */
        const struct insn *insn;
        const struct function *function;
        uint32_t group, clock_index, number;
    } *in_flight;
    uint32_t npending, pending_room;
    struct clockv *clock;
    uint32_t cluster_arrivals; /* lanes that have arrived at the cluster barrier and not waited */
    uint32_t cluster_open;     /* those of them that the barrier still counts: it is not complete */
    uint32_t synced_time;      /* the clock's own value when the whole warp synchronised last */
    struct warp_time *time;    /* clock/; NULL: no time is simulated */
    uint32_t unwaited;         /* lanes for which a sibling has executed griddepcontrol.wait */
};

struct named_barrier {
    uint32_t arrived, expected, generation; /* expected 0: every live thread of the CTA */
    struct clockv *gathered, *released;
    bool all, any, result_all, result_any; /* bar.red */
    uint32_t count, result_count;
};

/* What lets the next launch start, as far as a CTA is concerned (PTX ISA, griddepcontrol). */
enum start_of_next {
    START_AT_END, /* no thread has said griddepcontrol.launch_dependents */
    START_WAITED, /* all that said so had waited for the previous launch */
    START_EARLY,
};

struct cta {
    struct cluster *cluster;
    uint32_t rank, index[3];
    uint8_t *shared;
    uint32_t shared_bytes; /* with the reserved part */
    uint32_t dynamic_at;
    struct warp *warps;
    uint32_t nwarps, nthreads, live_threads;
    struct named_barrier bars[NAMED_BARRIERS];
    struct mbarriers *mbarriers;
    struct shadow *shadow;
    struct remote_uses *remote; /* by other CTAs of the cluster; NULL without checks, or without others */
    struct warpgroup *warpgroups;
    uint32_t registers[MAX_WARPS / 4]; /* setmaxnreg, by warpgroup; 0: it has not said */
    void *tensor;                      /* TMEM and what else tcgen05 keeps: isa/tcgen05 */
    /* clock/: its SM, when it let dependent launches start (0: not yet), whether its end was seen. */
    uint32_t sm;
    uint64_t triggered;
    enum start_of_next start_of_next;
    bool waited; /* griddepcontrol.wait, in any thread */
};

struct cluster {
    struct worker *worker;
    struct launch *launch;
    uint64_t number;
    uint32_t index[3];
    struct cta *ctas;
    uint32_t nctas;
    /* barrier.cluster */
    uint32_t cluster_arrived, cluster_generation;
    struct clockv *cluster_gathered, *cluster_released;
    /* asynchronous operations not yet complete, oldest first */
    struct async_op *ops_first, *ops_last;
    struct async_op *unissued; /* made and not yet handed over */
    uint32_t nops;
    uint64_t op_number;
    uint64_t random;
    uint32_t events;                         /* grows with everything that may end a wait */
    uint32_t nclock_indices, clock_capacity; /* of vector clocks */
    uint32_t most_clock_indices;             /* of any cluster so far that was in this place */
    uint32_t dependency_index, flag_index;   /* of griddepcontrol.wait, and of flags of earlier launches */
    uint32_t heard_index;                    /* of what was heard of other clusters: hazard/global/races.h */
    struct heard *heard;
    uint32_t *execution_indices, nexecution_indices; /* hazard.h, new_execution_indices */
    struct clockv *clock_free, *clock_all;
    struct map_changes *map_changes; /* async/map_change.c */
    struct sync_table *sync;         /* clocks of locations used by strong accesses */
    uint32_t idle;                   /* rounds of polling and nothing else */
    uint64_t others;                 /* the launch's rounds that did more, at the last of these */
    uint32_t given_way;              /* how often it has, after an atomic on global memory */
    bool gives_way;                  /* now */
    const struct warp *last_ran;     /* NULL: none yet */
    uint32_t island, seen_events;    /* clock/: where it is; events when its waiting warps were looked at */
    bool left;                       /* clock/: its warps have ended */
    uint64_t barrier_over;           /* clock/: when the last of its barriers let warps go on */
    bool failed;
};

/* What a store is about to write, for the checks: sets the bytes of 16 that it writes at an offset of a CTA. */
struct new_values {
    void (*fill)(const struct run *run, const struct new_values *values, const struct cta *cta, uint32_t offset,
                 uint8_t bytes[16]);
};

/* What an executing instruction sees. */
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
    const struct new_values *values; /* NULL: it is no plain store to shared memory */
    /* Whether the running plain store to global memory leaves the bytes as they are; NULL: it is none. */
    bool (*leaves_memory)(const struct run *run);
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

/* An integer operand's lane, whatever its row's width; 32-bit rows zero-extend. */
/* Those of the lanes that an instruction's guard lets through; preds: of its function. */
static inline uint32_t guarded_lanes(const uint8_t *preds, const struct insn *insn, uint32_t lanes) {
    uint32_t bits = UINT32_MAX;
    if (insn->guard != 0) {
        memcpy(&bits, preds + insn->guard_off, sizeof bits);
        bits = insn->guard == 1 ? bits : ~bits;
    }
    return lanes & bits;
}

static inline uint64_t lane_u64(const struct run *run, struct operand operand, int lane) {
    const uint8_t *at = row(run, operand);
    uint64_t wide = 0;
    memcpy(&wide, at + lane * (operand.wide ? 8 : 4), operand.wide ? 8 : 4);
    return wide;
}

/* Of a register: how many pending operations of the warp use it. */
static inline uint32_t *pending_row(struct warp *warp, const struct function *function,
                                    struct operand operand) {
    const uint32_t *reg_base = warp->cta->cluster->launch->reg_base;
    return &warp->reg_pending[(reg_base[function->index] + operand.off) / ROW32];
}

static inline uint32_t lane_u32(const struct run *run, struct operand operand, int lane) {
    return ((const uint32_t *)row(run, operand))[lane];
}

/* An address of an instruction that has several: the constants added to them are in a list. */
static inline uint64_t operand_address(const struct run *run, const struct insn *insn, const int64_t *offsets,
                                       int at, int lane) {
    return lane_u64(run, insn->op[at], lane) + (uint64_t)offsets[at];
}

/* Every lane of a mask; the body starts with `int lane = LANE(rest);`. */
#define FOR_LANES(rest, mask) for (uint32_t rest = (mask); rest != 0; rest &= rest - 1)
#define LANE(rest)            __builtin_ctz(rest)

/* A statement for every lane l; whole warps vectorise. */
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

/* ---- the heap (machine/alloc.c) ---- */

/* For what a run needs.  Never NULL: where the heap is exhausted the run ends (worker->unwind), and sim_launch
 * returns SIM_NO_MEMORY.  What is taken has to be known to a structure that cluster_free releases. */
void *run_take(struct worker *worker, size_t count, size_t size); /* zeroed */
void *run_take_aligned(struct worker *worker, size_t alignment, size_t bytes);
/* A list of `room` in the place of one of `count`, the rest zeroed. */
void *run_grow(struct worker *worker, void *taken, size_t count, size_t room, size_t size);
/* Ends the launch as SIM_NO_MEMORY at the workers' next turn. */
void launch_no_memory(struct launch *launch);

/* ---- findings (machine/findings.c) ---- */

/* Records a finding at the running instruction; an error ends the launch: `return sim_report(...)`. */
enum next sim_report(struct run *run, enum sim_verdict verdict, const char *kind, int lane, const char *format,
                     ...) __attribute__((format(printf, 5, 6)));
/* The same with the other access's instruction. */
enum next sim_report_pair(struct run *run, enum sim_verdict verdict, const char *kind, int lane,
                          const struct insn *other, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
void sim_note(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct cta *cta,
              int warp, int lane, const struct insn *insn, const struct insn *other, const char *message);
/* The same of a byte of shared memory, at `offset` in the CTA's window. */
void sim_note_at(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct cta *cta,
                 int warp, int lane, int64_t offset, const struct insn *insn, const struct insn *other,
                 const char *message);
/* The same of a byte of global memory, at `offset` in the allocation. */
void sim_note_global(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct cta *cta,
                     int warp, int lane, const struct allocation *allocation, uint64_t offset,
                     const struct insn *insn, const struct insn *other, const char *message);
/* An access of another launch. */
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

/* Suspends the running split; its instruction is executed again after the wait: `return wait_for(...)`. */
enum next wait_for(struct run *run, struct wait wait);
/* Lanes of the running split, which loses them afterwards, become one of their own, which is returned. */
struct split *add_split(struct run *run, uint32_t mask, uint32_t pc);
/* Room for one more operation that the running warp has in flight. */
struct in_flight *pending_new(struct run *run);
/* Takes splits[at] off the warp. */
void drop_split(struct warp *warp, uint32_t at);
/* The next of 64 random bits; the state is the seed. */
uint64_t next_random(uint64_t *state);

/* A cluster of the grid that has not started, for who starts it, or for who runs its work in its place
 * (`cancel`: the grid's last one, and none of those that the chip holds from the start).  False: there is none.
 */
bool claim_cluster(struct launch *launch, bool cancel, uint64_t *number);

/* ---- memory (machine/address.c) ---- */

/* Bytes at a global address; NULL after a report. */
uint8_t *global_memory(struct run *run, uint64_t address, uint64_t bytes, int lane, bool write);
/* Splits a shared address into CTA and offset, with bounds and alignment; NULL after a report. */
struct cta *shared_cta(struct run *run, uint64_t address, uint32_t bytes, uint32_t align, int lane,
                       bool own_only, uint32_t *offset);
/* Any generic address; *cta and *offset are set where it is shared memory. */
uint8_t *generic_memory(struct run *run, uint64_t address, uint32_t bytes, int lane, bool write,
                        struct cta **cta, uint32_t *offset);
/* The allocation that holds all of a range, NULL without one. */
const struct allocation *allocation_of(const struct sim *sim, struct worker *worker, uint64_t address,
                                       uint64_t bytes);
bool find_range(const struct sim *sim, struct worker *worker, uint64_t address, uint64_t bytes);
/* The allocation that starts last at or before an address, NULL without one. */
const struct allocation *allocation_before(const struct sim *sim, uint64_t address);

#endif
