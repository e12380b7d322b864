/* The clock's state: what a chip's resources, its SMs, their warps and its launches have booked so far. */
#ifndef SIM_CLOCK_STATE_H
#define SIM_CLOCK_STATE_H

#include "chip.h"
#include "machine/machine.h"
#include "path.h"
#include "tensor/wgmma_time.h"

#define SM_PARTS      4             /* HW: sub-partitions of an SM; warp w runs on w % 4 */
#define WINDOW        (128 * TICKS) /* less than the shortest way to L2 and than the start of a CTA */
#define HALF_LINE     64    /* HW (measured, H100: row_part_cycles): the least that L2 takes from memory */
#define SECTOR        32    /* HW: the least that L2 gives */
#define WIDEST_BLOCK  256   /* the most that L2 takes from memory at a time (PTX ISA, L2::256B) */
#define PLACES        64    /* CTAs of an SM whose ends are remembered: at least sm_ctas */
#define MAX_LAUNCHES  4096  /* launches that the report lists */
#define SLICES        32768 /* windows remembered of each resource that all SMs share: 2 ms */
#define SM_PAIR       2     /* HW: SMs of a TPC, which share their port to L2 */
#define COMPLETIONS   64    /* copies of an SM that are remembered for its fences */
#define STORE_WINDOWS 64    /* windows of an SM's stores that are remembered for its fences */
#define READ_BARRIERS 6     /* HW: scoreboard barriers of a warp (sm_70 and later; CuAssembler's notes) */
#define SM_SLICES     1024  /* windows remembered of an SM: more than two launches overlap */

enum pipe { PIPE_ALU, PIPE_FMA, PIPE_SPECIAL, PIPES };

/* The cost class of an instruction, in insn->timing. */
enum clock_family {
    FAMILY_NONE, /* not classified yet */
    FAMILY_FREE, /* no machine instruction: a move, a constant */
    FAMILY_ALU,
    FAMILY_ADD, /* on ALU or FMA, whichever is free */
    FAMILY_FMA,
    FAMILY_IMAD,
    FAMILY_IMAD_WIDE,
    FAMILY_HALF,
    FAMILY_SPECIAL,
    FAMILY_SPECIAL_FMA, /* a special function and FMAs that correct it */
    FAMILY_LONG,        /* a routine: division */
    FAMILY_SHUFFLE,
    FAMILY_VOTE,
    FAMILY_REDUX,
    FAMILY_BRANCH,
    FAMILY_CLOCK,
    FAMILY_MEMORY,
    FAMILY_SHARED_MATRIX,
    FAMILY_WARP_MMA,
    FAMILY_BARRIER,
    FAMILY_WARP_SYNC,
    FAMILY_SET_REGISTERS,
    FAMILY_CLUSTER_ARRIVE,
    FAMILY_CLUSTER_WAIT,
    FAMILY_MBARRIER_ARRIVE,
    FAMILY_MBARRIER_RELEASE, /* an arrival with release semantics at cluster scope */
    FAMILY_MBARRIER_TEST,
    FAMILY_FENCE_CTA,
    FAMILY_FENCE_GPU,
    FAMILY_FENCE_ASYNC,
    FAMILY_FENCE_ASYNC_SHARED,
    FAMILY_COPY,
    FAMILY_TENSOR,
    FAMILY_TENSOR_WAIT, /* wgmma.wait_group */
    FAMILY_TENSOR_LOAD,
    FAMILY_GRID_LAUNCH,
    FAMILY_GRID_WAIT,
    FAMILY_PREFETCH, /* prefetch of lines to L2 */
    FAMILY_ISSUE,    /* an issue slot and nothing else */
    FAMILIES
};

/* A unit that does one thing at a time. */
struct server {
    ticks free, busy; /* busy: in all */
};

struct warp_time {
    ticks began;
    ticks next;                /* the warp may issue from then on */
    ticks chosen;              /* when its next instruction would issue if no other warp were chosen before */
    ticks last;                /* its last issue */
    ticks read[READ_BARRIERS]; /* by scoreboard barrier: when the operands it guards have been read */
    ticks due;                 /* time of the event at which the warp tries to issue */
    ticks started;             /* when all instructions issued so far have their operands */
    ticks operands;            /* when the next instruction's operands are there (time_ready) */
    const struct insn *latest; /* the instruction whose result is there last of those; NULL: all always were */
    struct value {
        ticks ready; /* when it is there */
        const struct insn *from;
        uint8_t pipe;        /* 1 + the pipe that wrote it; 0: none */
    } *values, *pred_values; /* by row of registers, and behind these of predicates */
    uint32_t rows, nvalues;
    bool blocked; /* all splits wait */
    bool partly;  /* a split waits, and another split of the warp can still run */
    bool early;   /* at an MMA that other warps of its warpgroup have not reached */
    enum wait_kind wait;
    ticks slept;             /* when the wait began */
    ticks arrived;           /* when its arrival at a named or cluster barrier has had its turn */
    ticks copy_held;         /* no mbarrier instruction before then, behind a copy */
    ticks stored;            /* when its stores to shared memory have had their turns */
    uint64_t touched_fenced; /* sm_time.touched at its last fence */
    ticks fence_takes;       /* how long its fence takes if nothing delays it */
    ticks fenced;            /* when the fence before the next instruction has its turn; 0: no fence */
    ticks fence_began;
    uint64_t round;           /* index of the SM's fence round that the warp joined */
    uint32_t prepared;        /* 1 + index of the instruction whose fence has begun; 0: none */
    ticks released;           /* when that fence ends, apart from the copies that it waits for */
    uint64_t copies_fenced;   /* sm_time.copies at its last fence */
    bool fenced_copies;       /* the SM issued copies since the warp's fence before */
    bool fence_waits;         /* the fence also waits for copies under way */
    ticks waited[WAIT_KINDS]; /* time waited so far, by reason; WAIT_NONE: for operands, slots and pipes */
    struct path path;
};

/* A resource that all SMs share, with what each launch took of it in each window: an overlapping later launch
 * gets the rest. */
struct shared_resource {
    struct server server; /* for the running launch */
    struct slice {
        uint64_t window, launch;
        ticks before, taken; /* by earlier launches, by the running one */
    } slices[SLICES];
};

/* Time that launches took in a window of the units that an SM's CTAs share: issue slots and pipes of each
 * sub-partition, shared memory, tensor cores. */
enum { SHARE_SLOTS, SHARE_PIPES, SHARE_MMA = SHARE_PIPES + PIPES, PART_SHARES };
enum { SHARE_SHARED = SM_PARTS * PART_SHARES, SHARE_TENSOR, SHARES };
struct sm_slice {
    uint64_t window, launch;
    uint16_t before[SHARES], taken[SHARES]; /* ticks */
};

/* An SM's fences that are under way together, and those that wait for them as the next round. */
struct fence_rounds {
    uint64_t number;              /* number of the round under way */
    ticks began, over, next_over; /* as far as known */
    /* The SM's counts when the round's first fence began, and when the last waiting one began. */
    struct before_fence {
        uint64_t touched, copies;
    } behind, next_behind;
    uint32_t parts; /* sub-partitions with a fence in the round, a bit each */
    bool waited;    /* there is a next round */
};

struct sm_time {
    struct fence_rounds fences;
    struct part {
        ticks issue, issued; /* when the issue slot is free; ticks that it was used */
        ticks dispatch;      /* when arithmetic may issue again beside an MMA with A in registers */
        struct warp *last;   /* the warp that issued last */
        struct server pipe[PIPES], mma, tmem;
    } part[SM_PARTS];
    struct server shared, lsu, async_copies, tensor, copy_engine, load_port, store_port, remote, barrier,
        load_lines;
    uint64_t parameters;      /* lines of the launch's parameters that the SM holds, a bit each */
    uint64_t parameters_kept; /* those it held before a dependent launch replaced them */
    ticks parameters_from;    /* when the first line is there */
    uint64_t turn;            /* in the order of turns at L2 or HBM: bytes up to the end of its last part */
    ticks parts_seen;         /* when its stores of partial sectors are visible */
    ticks far_answered;       /* when the data that its copies asked of HBM is there */
    ticks far_until;          /* when HBM has served its requests */
    ticks last_gone;          /* end of its last CTA of this launch */
    /* The SM's last copies from memory: when their requests had left, and when their data was there. */
    struct completion {
        ticks sent, done;
    } completions[COMPLETIONS];
    uint64_t ncompletions;
    uint64_t copies;      /* issued so far */
    ticks stored_here;    /* when the stores to its shared memory have had their turns */
    ticks fence;          /* end of its last fence.proxy.async */
    uint64_t touched;     /* loads and stores of global memory issued so far */
    ticks arrivals_out;   /* when the last arrival through the cluster window has left */
    ticks stores_out;     /* when the warps' stores have left, at the SM's rate */
    struct stores_taken { /* by window: when L2 has taken the stores up to then */
        uint64_t window;
        ticks done;
    } taken[STORE_WINDOWS];
    const void *tensor_user; /* the warpgroup with the last MMA, named by its first warp */
    struct mma_queue mmas;
    /* What precedes is of one launch; what follows stays. */
    uint64_t split;          /* bytes of L1 that are shared memory now */
    struct sm_slice *slices; /* SM_SLICES */
    ticks reads_ahead;       /* shared-memory time that running MMAs have read of B ahead */
    uint64_t *l1;            /* tags */
    uint32_t l1_lines;
    /* CTAs that are still here when a dependent launch starts. */
    struct tenant {
        ticks until;
        uint32_t shared_bytes, threads, registers;
    } tenants[2 * MAX_WARPS];
    uint32_t ntenants, nolder; /* nolder: of earlier launches, which come first */
};

/* Kinds of requests for bytes: L2 and HBM serve a tensor map's boxes and warps slower than whole blocks. */
enum asker { ASKED_BY_BLOCK, ASKED_BY_BOX, ASKED_BY_WARP };

/* A request of an SM to L2 or HBM, served at the end of the SM's window in order of time. */
struct request {
    ticks at, unloaded; /* when it was asked; how long it takes on an idle chip */
    uint64_t number;
    uint64_t bytes, missed; /* missed: from or to HBM */
    uint64_t shared, given; /* a box's bytes that L2 is giving other SMs too; of those, none to its own TPC */
    uint64_t in_l2;         /* a warp's store: what L2 takes of it, in bytes; 0: `bytes` */
    ticks near, far;        /* how long it waits for L2 and for HBM */
    uint32_t sm;
    bool store, parts;           /* parts: the store writes some sectors partly */
    uint8_t nothers;             /* other SMs that a multicast load goes to ... */
    uint16_t other[MAX_CLUSTER]; /* ... and which */
    enum asker asker;            /* the kind of a load */
    bool by_block;               /* a warp's load that takes blocks of 256 bytes from HBM */
    uint32_t lines;              /* a box's rows, longer ones counted once for each line */
    struct async_op *op;         /* NULL: a warp's load, whose registers it makes ready */
    struct path *path;           /* the operation's, or NULL */
    uint8_t stage;               /* the stage of the operation that this completes */
    ticks after;                 /* a store: how long after that last_stage is reached; 0: no such stage */
    uint8_t last_stage;
    const struct cta *cta;
    struct warp *warp;
    const struct insn *insn;
    uint32_t row_base;
};

/* A time at which a warp continues or an operation takes effect, or a part of a request that waits for its
 * turn. */
struct event {
    ticks at;        /* of a part: bytes that are served before it */
    uint64_t number; /* orders equal times; of a part: the request's */
    struct warp *warp;
    struct async_op *op;
    uint8_t stage; /* or which part */
};

struct agenda { /* a heap, earliest first */
    struct event *events;
    uint32_t count, room;
};

/* The SMs of a cluster's place: they share only L2 and HBM with others, so they advance by themselves. */
struct island {
    struct agenda agenda;
    uint32_t first_sm, sms;
    uint32_t resident;       /* clusters */
    ticks gone[PLACES];      /* ends of the last PLACES clusters, by their number */
    uint64_t started, ended; /* clusters */
    ticks next_start;        /* HW: an SM starts its CTAs one after another */
    struct path path;        /* path of the warp that ended last */
};

struct timing {
    struct chip chip;
    char *machine_code; /* the folder with machine code of modules; NULL: the clock goes by PTX */
    const struct sim *sim;
    struct allocation found; /* the allocation of the last address, as it was at the launch's begin */
    struct sm_time *sm;
    struct shared_resource l2_load, l2_store, hbm;
    ticks l2_loads_until; /* when L2 has given what was asked of it */
    uint64_t far_bytes;   /* asked of HBM in this window, not served yet */
    uint32_t ahead;       /* touched lines that a prefetch had brought to L2 */
    bool parameters_far;  /* the launch's parameters are no longer in L2 */
    ticks hbm_late;       /* what HBM's load adds to each request of this window */
    struct line {
        uint64_t tag;
        ticks filled, asked; /* when it is in L2; when the request that it is given to asked */
        uint64_t asker;      /* that request's number */
        uint64_t pairs;      /* TPCs that it was given to since, a bit each (of 64: some TPCs share one) */
        bool prefetched;     /* and not loaded since */
        uint8_t halves;      /* that are there, a bit each */
    } *l2;
    uint64_t l2_lines;
    struct request *requests;
    uint32_t nrequests, requests_room;
    struct agenda turns; /* parts of requests, in the order in which they are served */
    struct island *islands;
    uint32_t nislands;
    uint64_t number; /* the next event's or request's */
    ticks now;       /* time of the running event */
    uint64_t launches;
    struct timed_launch {
        const char *kernel;
        uint64_t ctas;
        ticks start, end; /* its first CTA's start, its last CTA's end */
        ticks alone;      /* the part after the end of the launch before */
        /* Ticks that each resource was taken: on all SMs together, and on the SM with most. */
        ticks busy[SIM_RESOURCES], busiest[SIM_RESOURCES];
        /* Indexed by the warp's place in its CTA: time waited for each reason, and time lived. */
        ticks waited[MAX_WARPS][WAIT_KINDS], lived[MAX_WARPS];
        struct path path;                         /* path of the warp that ended last */
        struct sim_costly_line lines[SIM_COSTLY]; /* of that path */
    } launch[MAX_LAUNCHES], running;
    const struct path *cause; /* path of the event that is waking warps now */
    struct path operation;    /* path of the operation that wakes them */
    struct timeline *timeline;
    ticks host;                               /* when the host's next call can be at the device */
    ticks before_end;                         /* the launch before: its end */
    ticks before_triggered;                   /* when all its CTAs had triggered or ended */
    ticks before_ending;                      /* when its first CTA ended */
    ticks before_counted;                     /* when the ends of all its CTAs had been counted */
    ticks kernel;                             /* from its first CTA's start to its last CTA's end */
    ticks begin, first_start, triggered, end; /* this launch's times */
    ticks dispatched;                         /* when the next CTA can start */
    ticks first_end, last_end;                /* ends of this launch's CTAs */
    uint64_t ended, ntriggered;               /* CTAs */
    ticks counted;                            /* when the triggers and ends of CTAs so far have been counted */
    ticks counted_with_ends;                  /* the same while triggers before an end have not been counted */
    ticks replaced;                           /* when a dependent launch's parameters replace this launch's */
    uint32_t room;                            /* clusters that an island holds */
    /* The running instruction. */
    struct footprint footprint;
    uint64_t wavefronts; /* the counter before it */
    ticks issued;
    uint32_t generation; /* the cluster barrier's generation before the instruction */
    ticks signalled;     /* how much later its arrival is seen */
    bool no_memory;
    uint64_t shared;   /* touched bytes that L2 is giving other SMs too ... */
    uint64_t given;    /* ... and of those, none to the same TPC */
    uint32_t toucher;  /* the SM that touches lines */
    bool tensor_works; /* there was an MMA */
};

static inline ticks later(ticks a, ticks b) {
    return a > b ? a : b;
}

/* Takes the server for `length` from `at` or from when it is free; returns when that begins. */
static inline ticks booked(struct server *server, ticks at, ticks length) {
    ticks start = later(server->free, at);
    server->free = start + length;
    server->busy += length;
    return start;
}

static inline struct timing *timing_of(const struct warp *warp) {
    return warp->cta->cluster->launch->timing;
}

static inline struct sm_time *sm_of(const struct cta *cta) {
    return &cta->cluster->launch->timing->sm[cta->sm];
}

/* The SM clock in thousandths of GHz.  HW (measured, H200: working_clock_ghz): it falls while tensor cores
 * work, on one SM or on all, a quarter of the time or all of it; in the model from the first MMA on. */
static inline uint64_t time_clock(const struct timing *timing) {
    return timing->tensor_works ? timing->chip.sm_clock_tensor : timing->chip.sm_clock;
}

/* HW: L2 and HBM have clocks of their own, which do not fall with the SMs'. */
static inline ticks time_outside(const struct timing *timing, ticks length) {
    return length * time_clock(timing) / timing->chip.sm_clock;
}

#endif
