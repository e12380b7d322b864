/* Asynchronous operations: queued at issue, performed in three steps whenever the launch's mode says.
 *
 *   read      takes the source (global or shared memory, registers, TMEM) into the operation
 *   write     puts the result in its place
 *   complete  signals: bytes to an mbarrier, an arrival, a group's count
 *
 * An operation is made with async_new, filled, and handed over with async_issue or given up with async_drop.
 * Operations that share a non-NULL `queue` run one after another in the order of issue; all others are
 * unordered. */
#ifndef SIM_ASYNC_H
#define SIM_ASYNC_H

#include "hazard/hazard.h"
#include "machine/machine.h"

struct async_kind {
    const char *name;
    void (*read)(struct async_op *op); /* NULL: nothing to do */
    void (*write)(struct async_op *op);
    void (*complete)(struct async_op *op);
    void (*poison)(struct async_op *op);      /* fills the destination with a trap pattern at issue */
    bool (*ready)(const struct async_op *op); /* may it start? */
    /* Tells the clock when its stages are reached; NULL: at once. */
    void (*timed)(struct run *run, struct async_op *op);
};

enum async_stage { ASYNC_ISSUED, ASYNC_READ, ASYNC_WRITTEN, ASYNC_DONE };

struct async_op {
    const struct async_kind *kind;
    struct async_op *next, *previous;
    struct cluster *cluster;
    struct cta *cta;
    struct warp *warp;
    int lane;
    const struct insn *insn;
    uint64_t number;
    const void *queue;
    enum async_stage stage;
    uint8_t due;   /* the stage that its time has come for; more than `stage` where others are in the way */
    uint8_t *data; /* what read has taken */
    void *payload;
    uint32_t scheduled; /* 1 + its place in launch->schedule's list; 0: not in it */
    bool prompt;        /* takes effect at once, whatever the mode */
    /* With simulated time: when it was issued, and what had led to that. */
    uint64_t issued;
    uint64_t turn; /* at its SM's tensor cores, which may put it off; 0: it waits for none */
    struct path *path;
};

#define POISON_BYTE 0xad

struct async_op *async_new(struct run *run, const struct async_kind *kind, int lane, size_t payload_bytes,
                           size_t data_bytes);
void async_issue(struct run *run, struct async_op *op);
void async_drop(struct async_op *op);
/* One step of one operation, chosen by the mode; false where none can move. */
bool async_progress(struct cluster *cluster);
void async_clear(struct cluster *cluster);
/* With simulated time: the operation reaches a stage now, as far as those before it in its queue let it. */
void async_due(struct timing *timing, struct async_op *op, uint8_t stage);
/* A finding of an operation, at the instruction that issued it. */
void async_report(const struct async_op *op, enum sim_verdict verdict, const char *kind, const char *format,
                  ...) __attribute__((format(printf, 4, 5)));

/* ---- mbarriers (async/mbarrier.c) ---- */

/* A warp's last wait that found its phase complete: what the barrier's phase had to be, and when that was. */
struct looked {
    const struct insn *insn; /* NULL: none */
    uint32_t phase, time;
};

struct mbarrier {
    bool valid;
    uint32_t offset;
    uint32_t expected, pending, phase; /* phase: how many are complete */
    int64_t tx;
    uint32_t clock_index;
    uint32_t init_warp, init_time;
    const struct insn *init_insn, *last_insn;
    struct vector_clock *gathered, *released;
    struct cta *cta;
    uint32_t first_phase;
    const struct insn *from_afar;     /* a releasing arrival of another CTA: in this phase; NULL: none */
    const struct insn *was_from_afar; /* in the last one */
    bool awaits_async;                /* this phase: more than threads' arrivals */
    struct looked looked[MAX_WARPS];  /* by warp of the CTA */
};

void mbarriers_make(struct cta *cta); /* sets cta->mbarriers */
void mbarriers_reset(struct mbarriers *barriers);
void mbarriers_free(struct mbarriers *barriers);
/* fence.proxy.async: what the running warp has acquired, initialised mbarriers too, becomes visible to the
 * async proxy. */
void fence_proxy_async(struct run *run);
void mbarriers_at_end(struct cluster *cluster, struct cta *cta);
/* The barrier at a shared address, which has to be initialised; NULL after a report.  `async`: an
 * asynchronous operation will signal it. */
struct mbarrier *mbarrier_at(struct run *run, uint64_t address, int lane, bool own_only, bool async);
enum next mbarrier_init(struct run *run, uint64_t address, uint32_t count, int lane);
enum next mbarrier_inval(struct run *run, uint64_t address, int lane);
void mbarrier_arrive(struct run *run, struct mbarrier *barrier, uint32_t count, bool publish);
void mbarrier_expect_tx(struct run *run, struct mbarrier *barrier, int64_t bytes);
/* mbarrier.complete_tx, and what an operation does at its end. */
void mbarrier_take_tx(struct cluster *cluster, struct mbarrier *barrier, int64_t bytes);
/* From an asynchronous operation issued in barrier phase `phase`. */
void mbarrier_complete_tx(const struct async_op *op, struct mbarrier *barrier, uint32_t phase, int64_t bytes);
/* An arrival by an asynchronous operation (tcgen05.commit, cp.async.mbarrier.arrive); clock NULL: none. */
void mbarrier_async_arrive(const struct async_op *op, struct mbarrier *barrier,
                           const struct vector_clock *clock);
void mbarrier_describe(char *to, size_t room, const struct warp *warp, const struct split *split);
/* ---- waits that may miss a phase (async/phase.c) ---- */

/* The running warp tests for the phase before `phase`, the barrier's own or the next one. */
void phase_tested(struct run *run, struct mbarrier *barrier, uint32_t phase, bool by_parity);
/* A phase is over; called before its clock is passed on. */
void phase_completes(const struct mbarrier *barrier);
/* Whether `count` arrivals now end the phase in every schedule: all others, of threads alone, came first. */
bool phase_ends_here(const struct run *run, const struct mbarrier *barrier, uint32_t count);
/* An asynchronous operation that is issued now will bring this phase of the barrier bytes. */
void phase_needs(struct run *run, struct mbarrier *barrier);

/* The epoch of an operation that will complete on this phase of the barrier. */
struct epoch mbarrier_epoch(const struct run *run, const struct mbarrier *barrier);

/* ---- groups: cp.async, bulk stores and wgmma (async/groups.c) ---- */

enum group_family { GROUP_CP_ASYNC, GROUP_BULK, GROUP_WGMMA, GROUP_FAMILIES };

struct groups;
struct groups *groups_make(struct worker *worker);
void groups_free(struct groups *groups);
void groups_reset(struct warp *warp);
/* The clock index of a family's completions; value: the group that the next commit closes. */
struct epoch group_epoch(struct run *run, enum group_family family, bool read);
void group_add(struct run *run, enum group_family family);
/* Called by the operations as they get on. */
void group_advance(struct async_op *op, enum group_family family, uint32_t group, enum async_stage stage);
/* Read and complete at once. */
void group_finish(struct warp *warp, enum group_family family, uint32_t group);
uint32_t group_current(const struct warp *warp, enum group_family family);
void groups_at_end(struct run *run);

/* ---- global memory (async/global_access.c) ---- */

/* Notes an access of global memory and checks it against those of other launches; flags: ACCESS_WRITE,
 * ACCESS_ATOMIC.  Before the access itself. */
void touch_global(struct run *run, uint64_t address, uint64_t bytes, int lane, unsigned flags);
/* The same for lanes of a warp that access `bytes` each. */
void touch_global_lanes(struct run *run, const uint64_t addresses[LANES], uint32_t mask, uint32_t bytes,
                        unsigned flags);

#endif
