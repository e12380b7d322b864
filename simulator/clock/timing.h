/* Simulated time: what an instruction, a copy, a barrier and a launch cost on a chip.
 *
 * The layers above say what happens and when it began; the clock books it on the chip's resources and answers
 * with a time.  It knows nothing of values.  All of it is off, and launch->timing NULL, unless sim_options.chip
 * names a chip.  A timed launch runs on one host thread: SMs advance in windows of time, and what they ask of
 * L2 and memory in a window is served in the order of time at its end, so that the order in which the SMs were
 * run does not show. */
#ifndef SIM_CLOCK_TIMING_H
#define SIM_CLOCK_TIMING_H

#include "chip.h"
#include "machine/machine.h"
#include "path.h"
#include "tensor/wgmma.h"

#define SM_PARTS      4             /* HW: sub-partitions of an SM; warp w is in w % 4 */
#define WINDOW        (128 * TICKS) /* shorter than the shortest way to L2 and than the start of a CTA */
#define LINE_BYTES    128
#define HALF_LINE     64    /* HW (measured, H100: row_part_cycles): what comes from memory at the least */
#define SECTOR        32    /* HW: bytes that L2 gives at a time */
#define WIDEST_BLOCK  256   /* bytes that L2 takes from memory at a time (PTX ISA, L2::256B) */
#define PLACES        64    /* no less than sm_ctas */
#define MAX_LAUNCHES  4096  /* that are listed */
#define SLICES        32768 /* windows that are remembered of what all SMs share: 2 ms */
#define SM_PAIR       2     /* HW: SMs of a TPC, which share their way to L2 */
#define COMPLETIONS   64    /* copies that an SM has under way */
#define STORE_WINDOWS 64    /* in which an SM's stores are remembered, for its fences */
#define READ_BARRIERS 6     /* HW: scoreboard barriers of a warp (sm_70 and later; CuAssembler's notes) */
#define SM_SLICES     1024  /* of an SM: more than launches overlap */

enum pipe { PIPE_ALU, PIPE_FMA, PIPE_SPECIAL, PIPES };

/* What an instruction is to the clock; in insn->timing, 0: not classified. */
enum clock_family {
    FAMILY_NONE,
    FAMILY_FREE, /* no machine instruction: a register's other name, a constant */
    FAMILY_ALU,
    FAMILY_ADD, /* on ALU or FMA, whichever is free */
    FAMILY_FMA,
    FAMILY_IMAD,
    FAMILY_IMAD_WIDE,
    FAMILY_HALF,
    FAMILY_SPECIAL,
    FAMILY_SPECIAL_FMA, /* a special instruction and a correction */
    FAMILY_LONG,        /* a called routine: division */
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
    FAMILY_MBARRIER_RELEASE, /* with the order of a cluster */
    FAMILY_MBARRIER_TEST,
    FAMILY_FENCE_CTA,
    FAMILY_FENCE_GPU,
    FAMILY_FENCE_ASYNC,
    FAMILY_FENCE_ASYNC_SHARED,
    FAMILY_COPY,
    FAMILY_TENSOR,
    FAMILY_TENSOR_WAIT, /* for groups of wgmma */
    FAMILY_TENSOR_LOAD,
    FAMILY_GRID_LAUNCH,
    FAMILY_GRID_WAIT,
    FAMILY_PREFETCH, /* of lines to L2 */
    FAMILY_ISSUE,    /* a slot and no more */
    FAMILIES
};

/* Something that does one thing at a time. */
struct server {
    ticks free, busy;
};

struct warp_time {
    ticks began;
    ticks next;                /* it may issue from then on */
    ticks chosen;              /* when its next instruction is chosen, if no other warp's is before */
    ticks last;                /* when it issued last */
    ticks read[READ_BARRIERS]; /* by barrier of its scoreboard: when the operands behind it have been read */
    ticks due;                 /* of its event, at which it looks whether it may */
    ticks started;             /* when the last of what was issued so far has its operands */
    ticks operands;            /* of the next instruction, as time_ready has found them */
    ticks *ready;              /* by row of registers */
    ticks *ready_preds;
    uint32_t rows, pred_words;
    uint8_t *pipe;        /* by row: 1 + the pipe that wrote it */
    bool blocked, partly; /* partly: it will look again, and one of its splits waits */
    bool early;           /* at an MMA that others of its warpgroup have not reached */
    enum wait_kind wait;
    ticks slept;             /* when it began to wait */
    ticks arrived;           /* at a named barrier: its own turn */
    ticks copy_held;         /* no mbarrier instruction before that */
    ticks lane_asked;        /* when the last lane of its bulk prefetch has asked */
    ticks stored;            /* when its stores to shared memory have had their turns */
    uint64_t touched_fenced; /* of its SM's, at its last fence */
    ticks fence_takes;       /* what the fence takes if it waits for nothing */
    ticks fenced;            /* when the fence before the next instruction has its turn; 0: there is none */
    ticks fence_began;
    uint64_t round;           /* of its SM's fences, that it is of */
    uint32_t prepared;        /* 1 + the instruction that what stands before it is for; 0: none */
    ticks released;           /* when that is done, but for what the fence waits for */
    uint64_t copies_fenced;   /* of its SM, at its last fence */
    bool fenced_copies;       /* there were some since the fence before */
    bool fence_waits;         /* for those that are under way too */
    ticks waited[WAIT_KINDS]; /* of its life, by what for; WAIT_NONE: for operands, slots and pipes */
    struct path path;
    ticks loads_until; /* when the last of its loads of global memory was there */
};

/* What all SMs share; each of its windows remembers what launches took, for those that overlap them. */
struct common {
    struct server server; /* of this launch */
    struct slice {
        uint64_t window, launch;
        ticks before, taken; /* by the launches before, and by this one */
    } slices[SLICES];
};

/* The same of what CTAs of an SM share: each sub-partition's slots and pipes, shared memory, tensor cores. */
enum { SHARE_SLOTS, SHARE_PIPES, SHARE_MMA = SHARE_PIPES + PIPES, PART_SHARES };
enum { SHARE_SHARED = SM_PARTS * PART_SHARES, SHARE_TENSOR, SHARES };
struct sm_slice {
    uint64_t window, launch;
    uint16_t before[SHARES], taken[SHARES]; /* ticks */
};

/* The fences of an SM that are under way together, and those that wait for them. */
struct fence_rounds {
    uint64_t number;              /* of those under way */
    ticks began, over, next_over; /* as far as is known */
    /* Of the SM, what was before its first one, and before the last of those that wait. */
    struct before_fence {
        uint64_t touched, copies;
    } behind, next_behind;
    uint32_t parts; /* sub-partitions that have one, a bit each */
    bool waited;    /* others wait */
};

struct sm_time {
    struct fence_rounds fences;
    struct part {
        ticks issue, issued; /* when the slot is free; ticks that it was used */
        ticks dispatch;      /* when, beside an MMA, what computes may issue again */
        struct warp *last;   /* that issued */
        struct server pipe[PIPES], mma, tmem;
    } part[SM_PARTS];
    struct server shared, lsu, async_copies, tensor, copy_engine, load_port, store_port, remote, barrier,
        load_lines;
    struct sm_slice *slices;  /* SM_SLICES */
    ticks reads_ahead;        /* of shared memory, that running MMAs have read of B */
    uint64_t parameters;      /* lines of the launch's that it has, a bit each */
    uint64_t parameters_kept; /* of them, those that it had before a dependent launch began */
    ticks parameters_from;    /* when the first of them is there */
    uint64_t split;           /* bytes of it that are shared memory for now */
    uint64_t turn;            /* the bytes after which its last part has its turn */
    ticks parts_seen;         /* when its stores of parts of sectors are */
    ticks far_answered;       /* when what its copies have asked of HBM is there */
    ticks far_until;          /* when what it has asked of HBM has had its turn */
    ticks last_gone;          /* of its CTAs of this launch */
    /* Of its last copies from memory: when they had left the SM, and when they were there. */
    struct completion {
        ticks sent, done;
    } completions[COMPLETIONS];
    uint64_t ncompletions, copies; /* copies: those that have been issued */
    ticks stored_here;             /* when the stores to its shared memory so far have had their turns */
    ticks fence;                   /* when its last one for asynchronous operations is over */
    uint64_t touched;              /* loads and stores of global memory that have been issued */
    ticks arrivals_out;            /* when the last arrival through the cluster's window has left */
    ticks stores_out;              /* when the warps' stores so far have left, at the SM's rate */
    struct stores_taken {          /* by window, when L2 has taken the stores until then */
        uint64_t window;
        ticks done;
    } taken[STORE_WINDOWS];
    /* The warpgroup of the last MMA, the first two that had one, and whether there is a third. */
    const void *tensor_user, *tensor_groups[2];
    bool tensor_three;
    struct mma_queue mmas;
    uint64_t *l1; /* tags */
    uint32_t l1_lines;
    /* CTAs of the launch before that are still here when a dependent launch starts. */
    struct tenant {
        ticks until;
        uint32_t shared_bytes, threads, registers;
    } tenants[2 * MAX_WARPS];
    uint32_t ntenants, nolder; /* nolder: those of the launch before come first */
};

/* Who asks for bytes: L2 and HBM give less to rows of a tensor map, and to warps, than to whole blocks. */
enum asker { ASKED_BY_BLOCK, ASKED_BY_BOX, ASKED_BY_WARP };

/* What an SM asks of the memory behind it: served at the end of its window. */
struct request {
    ticks at, unloaded; /* when it was asked, and how long it takes on an idle chip */
    uint64_t number;
    uint64_t bytes, missed; /* missed: those that come from, or go to, HBM */
    uint64_t shared, given; /* of a box: those that L2 is giving another at that time, and none of its pair */
    uint64_t in_l2;         /* of a warp's store: what L2 takes of it, as bytes; 0: its bytes */
    ticks near, far;        /* how long it waits for L2 and for HBM */
    uint32_t past;          /* of a box: rows past the end */
    uint32_t sm;
    bool store, parts;           /* parts: of a warp's store: there are sectors that it writes in part */
    uint8_t nothers;             /* other SMs that a load goes to (multicast) ... */
    uint16_t other[MAX_CLUSTER]; /* ... and which */
    enum asker asker;            /* of a load */
    bool by_block;               /* of a warp's load: HBM is asked for blocks of 256 bytes */
    uint32_t lines;              /* of a box: rows, those longer than a line several times */
    struct async_op *op;         /* or the rows to set ready */
    struct path *path;           /* of the operation; NULL: none */
    uint8_t stage;               /* of the operation that this completes */
    ticks after;                 /* a store: last_stage is reached so long after that; 0: no other stage */
    uint8_t last_stage;
    const struct cta *cta;
    struct warp *warp;
    const struct insn *insn;
    uint32_t row_base;
};

/* A time at which a warp goes on or an operation takes effect. */
struct event {
    ticks at;
    uint64_t number;
    struct warp *warp;
    struct async_op *op;
    uint8_t stage;
};

/* SMs that share nothing with others but what is behind L2's port: those of a cluster. */
struct island {
    struct event *events; /* a heap, earliest first */
    uint32_t count, room;
    uint32_t first_sm, sms;
    uint32_t resident; /* clusters */
    /* When the last PLACES clusters were gone, by their number; and how many started and ended. */
    ticks gone[PLACES];
    uint64_t started, ended;
    ticks next_start; /* HW: an SM starts its CTAs one after another */
    struct path path; /* of the warp that ended last */
};

struct timing {
    struct chip chip;
    char *machine_code; /* the folder that tells what ptxas made of modules; NULL: none */
    const struct sim *sim;
    struct allocation found; /* of the address before, as it was at the launch's begin */
    struct sm_time *sm;
    struct common *l2_load, *l2_store, *hbm;
    ticks l2_loads_until; /* when L2 has given what has been asked of it */
    uint64_t far_bytes;   /* asked of HBM, and not served yet */
    uint32_t ahead;       /* lines touched that were in L2 ahead of who asked for them */
    struct past_end {     /* rows past a tensor's end that wait for L2: how many at a time, and until when */
        uint64_t rows;    /* TICKS of each */
        ticks at, until;
    } past_end;
    bool parameters_far; /* this one's are no longer in L2 */
    ticks hbm_late;      /* what a request of this window waits for HBM at the least, by its load */
    struct line {
        uint64_t tag;
        ticks filled, asked; /* asked: by whom L2 is giving it to, ... */
        uint64_t asker;      /* ... which is that request */
        uint64_t pairs;      /* of SMs that it has been given since, a bit each (of 64, some share one) */
        bool prefetched;     /* and no load has taken it since */
        uint8_t halves;      /* that are there, a bit each */
    } *l2;                   /* by line */
    uint64_t l2_lines;
    struct request *requests;
    uint32_t nrequests, requests_room;
    struct turns { /* a heap: whose part of a request is next */
        struct turn {
            uint64_t key;
            uint32_t request, part;
        } *heap;
        uint32_t count, room;
    } turns;
    struct island *islands;
    uint32_t nislands;
    uint64_t number; /* of events and requests */
    ticks now;       /* of the event that is running */
    /* launches: their number, and the first MAX_LAUNCHES of them */
    uint64_t launches;
    struct timed_launch {
        const char *kernel;
        uint64_t ctas;
        ticks start, end; /* its first CTA's start, its last one's end */
        ticks alone;      /* what of that is after the end of the launch before */
        /* Ticks that each resource was taken: on all SMs together, and on the SM where it was most. */
        ticks busy[SIM_RESOURCES], busiest[SIM_RESOURCES];
        /* What warps of each place in their CTA waited for, and how long they lived. */
        ticks waited[MAX_WARPS][WAIT_KINDS], lived[MAX_WARPS];
        struct path path; /* of the warp that ended last */
    } *launch, running;
    const struct path *cause; /* of what is waking warps now */
    struct path operation;    /* of the operation that does */
    struct timeline *timeline;
    ticks host;             /* when the next call of the host can be at the device */
    ticks before_end;       /* of the launch before */
    ticks before_triggered; /* all of its CTAs */
    ticks before_gone;      /* the last of them, whatever memory has not answered yet */
    ticks before_ending;    /* from the first of their ends ... */
    ticks before_counted;   /* ... until all have been heard of */
    ticks kernel;           /* of the launch before, from its first CTA's start to the last one's end */
    ticks begin, first_start, triggered, end; /* of this launch */
    ticks dispatched;                         /* when the next CTA can start */
    ticks first_end, last_end;                /* of a CTA of this launch */
    uint64_t ended;                           /* CTAs */
    uint64_t ntriggered;                      /* CTAs */
    ticks counted;           /* when the last of its CTAs' triggers and ends so far has been heard of */
    ticks counted_with_ends; /* the same, as long as triggers that came before it have not */
    ticks replaced;          /* when a dependent launch's parameters take the place of its own */
    uint32_t room;           /* clusters an island holds */
    /* of the instruction that is running */
    struct footprint footprint;
    uint64_t wavefronts; /* counted before it */
    ticks issued;
    uint32_t generation; /* of the cluster's barrier, before it */
    ticks signalled;     /* its arrival is seen so much later */
    bool no_memory;
    uint64_t shared;   /* bytes of the touches so far that L2 is giving another ... */
    uint64_t given;    /* ... and those of them that it is giving none of the same pair of SMs */
    uint32_t toucher;  /* the SM that touches lines now */
    bool tensor_works; /* there was an MMA */
};

static inline ticks later(ticks a, ticks b) {
    return a > b ? a : b;
}

/* Takes the server for so long, from then on or from when it is free; when that begins. */
static inline ticks booked(struct server *server, ticks at, ticks length) {
    ticks start = later(server->free, at);
    server->free = start + length;
    server->busy += length;
    return start;
}

static inline struct sm_time *sm_of(const struct cta *cta) {
    return &cta->cluster->launch->timing->sm[cta->sm];
}

/* Thousandths of GHz.  HW (measured, H200: working_clock_ghz): the chip's clock falls while tensor cores work,
 * on one SM or on all, a quarter of the time or all of it; here from the first MMA on, for all that the program
 * is told of time. */
static inline uint64_t time_clock(const struct timing *timing) {
    return timing->tensor_works ? timing->chip.sm_clock_tensor : timing->chip.sm_clock;
}

/* HW: L2 and HBM have clocks of their own, which stay when that of the SMs falls. */
static inline ticks time_outside(const struct timing *timing, ticks length) {
    return length * time_clock(timing) / timing->chip.sm_clock;
}

/* ---- set-up (clock/timing.c) ---- */

/* machine_code: sim_options' folder, or NULL.  NULL: `message` says why. */
struct timing *timing_make(const char *chip, const char *machine_code, char *message, size_t room);
void timing_free(struct timing *timing);
void warp_time_make(struct warp *warp, struct worker *worker);
void warp_time_start(struct warp *warp, ticks at);
void warp_time_free(struct warp *warp);

/* ---- instructions (clock/instructions/families.c, operands.c, issue.c, executed.c) ---- */

/* Says of each instruction what it is to the clock.  False: `message` says why, and is empty where memory is
 * exhausted. */
bool timing_classify(struct module *module, const struct timing *timing, char *message, size_t room);
/* clock/instructions/assembler.c: and what ptxas makes of a function's instructions together.  False: no
 * memory. */
bool timing_assemble(struct module *module, const struct function *function);
/* When the warp's next instruction can issue, as far as it is known; NEVER: an answer of memory is to come. */
ticks time_ready(const struct warp *warp, const struct split *split);
/* When the next instruction's operands are there; what only computes takes its slot before. */
ticks time_operands(const struct warp *warp, const struct split *split);
/* Before and after it is executed, at a time that time_ready gave. */
void time_issue(struct run *run, const struct insn *insn);
void time_executed(struct run *run, const struct insn *insn, enum next next);
/* An instruction whose guard leaves all lanes out takes its slot and waits for no more than its place. */
/* Whether the split's next instruction stores to global memory. */
bool time_stores(const struct warp *warp, const struct split *split);
bool time_left_out(const struct warp *warp, const struct split *split, const struct insn *insn);
void time_skipped(struct run *run, const struct insn *insn);
/* The running instruction arrives at an mbarrier of that CTA. */
void time_arrival(struct run *run, const struct cta *to);
/* What a clock register shows the running warp. */
uint64_t time_clock_register(const struct timing *timing, unsigned kind);
/* When a warp that waited goes on, told at `at`. */
ticks time_wake(struct timing *timing, struct warp *warp, ticks at);

/* ---- launches that overlap (clock/overlap.c) ---- */

/* Books what all SMs share, for so long where no launch before took of it; when that ends. */
ticks time_common(const struct timing *timing, struct common *common, ticks at, ticks length);
/* The same of bytes at a rate; how long they wait for their turn. */
ticks time_queued(const struct timing *timing, struct common *common, ticks at, uint64_t rate, uint64_t bytes);
/* What HBM's load before that time adds to its latency. */
ticks time_loaded(const struct timing *timing, ticks at);
/* Notes what is taken of an SM's share from then on; how long it takes beside launches before. */
ticks time_beside(const struct timing *timing, struct sm_time *sm, unsigned share, ticks at, ticks length);

/* ---- L2 (clock/l2.c); places are addresses as the caches see them, the same in every run ---- */

uint64_t time_placed(struct timing *timing, uint64_t address);
/* Touches the lines of a range in L2; bytes that were not there.  *later: when the last of them that another
 * has asked for is there. */
uint64_t time_touch(struct timing *timing, uint64_t address, uint64_t bytes, bool store, ticks *later);
/* The same of a row of a box or of a lane's copy, where L2 takes blocks of that many bytes from HBM; bytes that
 * come from there. */
uint64_t time_touch_row(struct timing *timing, uint64_t address, uint64_t bytes, uint64_t block, ticks *later);
/* The same of a sector, by its place; TOUCH_AHEAD: of its line, for no register. */
enum touch { TOUCH_LOAD, TOUCH_STORE, TOUCH_AHEAD };
uint64_t time_touch_sector(struct timing *timing, uint64_t place, enum touch how, uint64_t block, ticks *later);
/* The lines of a range come to L2, where they are not: their bytes from HBM. */
uint64_t time_touch_ahead(struct timing *timing, uint64_t address, uint64_t bytes);
/* A block's bytes, by the hint in an instruction's name. */
uint64_t time_fetched(const char *name);
/* What a load takes more where its lines are not next to each other. */
ticks time_rows(const struct timing *timing, const uint64_t *lines, uint32_t count, bool far);
/* The host has filled a range: it is in L2 as far as that holds it, and what was there before is not. */
void time_filled(struct timing *timing, uint64_t address, uint64_t bytes);

/* ---- memory (clock/memory.c, turns.c) ---- */

/* How long each load of the window waits for L2 and for HBM: request->near, ->far.  False: no memory. */
bool time_turns(struct timing *timing);
struct request *time_request(struct timing *timing);
/* When L2 has taken the SM's stores until then, as far as they have been served. */
ticks time_stores_taken(const struct sm_time *sm, ticks at);
/* Serves what has been asked, in the order of time. */
void time_settle(struct timing *timing);
/* Global memory of an instruction; a prefetch to L2 is a load that no register waits for. */
void time_global(struct run *run, const struct insn *insn);
/* When a warp's cp.async, which it issues now, has had its turn at the SM's way to memory. */
ticks time_async_copy(struct run *run, const struct insn *insn, const uint64_t *from, uint32_t mask);

/* ---- words that CTAs share (clock/instructions/fences.c) ---- */

/* Whether the instruction, ready then, tells others a word that orders what is before it: its fence begins, and
 * it is ready later. */
bool time_word(const struct warp *warp, const struct split *split, ticks ready);

/* ---- events (clock/events.c) ---- */

void event_add(struct timing *timing, struct island *island, struct event event);
struct event event_take(struct island *island);
struct island *island_of(const struct timing *timing, const struct cta *cta);
/* An operation reaches a stage then. */
void time_operation(struct timing *timing, struct async_op *op, const struct cta *cta, ticks at, uint8_t stage);

/* ---- copies and tensor cores (clock/units.c) ---- */

/* A copy of the copy engine that starts at the running instruction: when its first byte is asked for.
 * of_memory: not between CTAs, whose copies no fence waits for (measured, H200: remote_copy_bytes_a_cycle). */
ticks time_copy_start(struct run *run, bool of_memory);
/* clock/tensor/tcgen05.c.  m, n: of the whole MMA; scaled: with block scales. */
struct tcgen05_shape {
    uint32_t m, n;
    bool a_in_tmem, pair, scaled;
};
ticks time_tcgen05_mma(struct run *run, const struct tcgen05_shape *shape);
ticks time_tcgen05_copy(struct run *run);
ticks time_tcgen05_access(struct run *run, uint32_t bytes); /* ld, st: bytes of the warp */
ticks time_remote(struct run *run, uint64_t bytes);
ticks time_engine_read(struct run *run, ticks start, uint64_t bytes);

/* ---- launches (clock/launches.c) ---- */

/* False: no memory. */
bool time_launch_begin(struct launch *launch);
/* A place for the next cluster: its island and when its warps start; false: none is free before that time. */
bool time_place(struct launch *launch, ticks before, uint32_t *island, ticks *start);
void time_cluster_end(struct launch *launch, struct cluster *cluster, ticks at);
void time_launch_end(struct launch *launch);
void time_warp_end(struct warp *warp, ticks at);
/* The running CTA lets dependent launches start, as far as it goes. */
void time_triggered(struct run *run);
/* The host has waited for the device. */
void time_host_waits(struct timing *timing);

#endif
