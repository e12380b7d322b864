/* Asynchronous operations: queued at issue, performed in three steps at times that the launch's mode chooses.
 *
 *   read      copies the source (global or shared memory, registers, TMEM) into the operation
 *   write     writes the result to its destination
 *   complete  signals: bytes to an mbarrier, an arrival, or the end of a group's member
 *
 * Make an operation with async_new, fill it in, then hand it over with async_issue or discard it with
 * async_drop.  Operations with the same non-NULL `queue` run in the order of issue, all others in any. */
#ifndef SIM_ASYNC_H
#define SIM_ASYNC_H

#include "hazard/hazard.h"
#include "machine/machine.h"

struct async_kind {
    const char *name;
    void (*read)(struct async_op *op); /* each step may be NULL: nothing to do */
    void (*write)(struct async_op *op);
    void (*complete)(struct async_op *op);
    void (*poison)(struct async_op *op);      /* fills the destination with a trap pattern at issue */
    bool (*ready)(const struct async_op *op); /* true: it may start; NULL: at once */
    /* With simulated time: schedules the operation's stages; NULL: it is done at once. */
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
    uint8_t due;   /* stage that is due; `stage` follows in its queue's order */
    uint8_t *data; /* the source's contents after the read step */
    void *payload;
    uint32_t scheduled; /* 1 + its index in launch->schedule's list; 0: not listed */
    bool prompt;        /* performed at once, whatever the mode */
    /* With simulated time: when it was issued, and the chain of causes up to then (clock/path.h). */
    uint64_t issued;
    uint64_t turn; /* its turn at the SM's tensor cores, which may delay it; 0: none */
    struct path *path;
};

#define POISON_BYTE 0xad

struct async_op *async_new(struct run *run, const struct async_kind *kind, int lane, size_t payload_bytes,
                           size_t data_bytes);
void async_issue(struct run *run, struct async_op *op);
/* Issues an operation whose payload is a copy of this one. */
void async_start(struct run *run, const struct async_kind *kind, int lane, const void *payload, size_t bytes,
                 size_t data_bytes, const void *queue);
void async_drop(struct async_op *op);
/* Performs steps of one operation that the mode chooses; false if none can proceed. */
bool async_progress(struct cluster *cluster);
void async_clear(struct cluster *cluster);
/* With simulated time: `stage` is due now. It is performed once earlier operations of its queue are done. */
void async_due(struct timing *timing, struct async_op *op, uint8_t stage);

/* ---- mbarriers (async/mbarrier.c) ---- */

/* A warp's last successful wait: the phase that the barrier was in, and the warp's clock value then. */
struct last_wait {
    const struct insn *insn; /* NULL: none */
    uint32_t phase, time;
};

struct mbarrier {
    bool valid;
    uint32_t offset;
    uint32_t expected, pending, phase; /* phase: number of completed phases */
    int64_t tx;
    uint32_t clock_index;
    uint32_t init_warp, init_time;
    int init_lane;
    const struct insn *init_insn, *last_insn;
    struct vector_clock *gathered, *released;
    struct cta *cta;
    uint32_t first_phase;
    const struct insn *remote_arrival; /* a releasing arrival from another CTA in this phase; NULL: none */
    const struct insn *previous_remote_arrival; /* in the previous phase */
    bool awaits_async;                          /* this phase also waits for asynchronous operations */
    struct last_wait last_waits[MAX_WARPS];     /* indexed by warp of the CTA */
};

void mbarriers_make(struct cta *cta); /* sets cta->mbarriers */
void mbarriers_reset(struct mbarriers *barriers);
void mbarriers_free(struct mbarriers *barriers);
/* fence.proxy.async: everything that the running warp has acquired, initialised mbarriers included, becomes
 * visible to the async proxy. */
void fence_proxy_async(struct run *run);
void mbarriers_at_end(struct cluster *cluster, struct cta *cta);
/* The initialised barrier at a shared address; NULL after a report. `own_only`: it must be in the running CTA.
 * `async`: an asynchronous operation will signal it. */
struct mbarrier *mbarrier_at(struct run *run, uint64_t address, int lane, bool own_only, bool async);
/* Reports ordinary accesses to an mbarrier of a CTA: it is opaque. */
void mbarrier_untouched(struct run *run, const struct cta *cta, const uint32_t offsets[LANES], uint32_t mask,
                        uint32_t bytes, bool write);
enum next mbarrier_init(struct run *run, uint64_t address, uint32_t count, int lane);
enum next mbarrier_inval(struct run *run, uint64_t address, int lane);
void mbarrier_arrive(struct run *run, struct mbarrier *barrier, uint32_t count, bool publish);
void mbarrier_expect_tx(struct run *run, struct mbarrier *barrier, int64_t bytes);
/* Takes bytes off the tx-count: mbarrier.complete_tx, or the end of an operation. */
void mbarrier_take_tx(struct cluster *cluster, struct mbarrier *barrier, int64_t bytes);
/* The completion of an asynchronous operation that was issued in phase `phase` of the barrier. */
void mbarrier_complete_tx(const struct async_op *op, struct mbarrier *barrier, uint32_t phase, int64_t bytes);
/* An arrival by an asynchronous operation (tcgen05.commit, cp.async.mbarrier.arrive). clock: what it releases;
 * NULL: nothing. */
void mbarrier_async_arrive(const struct async_op *op, struct mbarrier *barrier,
                           const struct vector_clock *clock);
void mbarrier_describe(char *to, size_t room, const struct warp *warp, const struct split *split);

/* ---- waits that may miss a phase (async/phase.c) ---- */

/* The running warp tests whether the phase before `phase` is complete; `phase` is the barrier's current phase
 * or the next. */
void phase_tested(struct run *run, struct mbarrier *barrier, uint32_t phase, bool by_parity);
/* The barrier's phase ends; called before waiters receive its clock. */
void phase_completes(const struct mbarrier *barrier);
/* True if these `count` arrivals end the phase in every schedule: all other arrivals are by threads and
 * happened before. */
bool phase_ends_here(const struct run *run, const struct mbarrier *barrier, uint32_t count);
/* An asynchronous operation issued now will complete bytes on this phase of the barrier. */
void phase_needs(struct run *run, struct mbarrier *barrier);

/* Epoch of an operation that completes on the barrier's current phase: over once a clock has acquired that
 * phase. */
struct epoch mbarrier_epoch(const struct run *run, const struct mbarrier *barrier);

/* ---- groups: cp.async, bulk stores and wgmma (async/groups.c) ---- */

enum group_family { GROUP_CP_ASYNC, GROUP_BULK, GROUP_WGMMA, GROUP_FAMILIES };

struct groups;
struct groups *groups_make(struct worker *worker);
void groups_free(struct groups *groups);
void groups_reset(struct warp *warp);
/* Epoch of an operation in the family's open group, the one that the next commit closes. `read`: over once its
 * source has been read. */
struct epoch group_epoch(struct run *run, enum group_family family, bool read);
void group_add(struct run *run, enum group_family family);
/* An operation of the group has been read (ASYNC_READ) or is done (ASYNC_DONE). */
void group_advance(struct async_op *op, enum group_family family, uint32_t group, enum async_stage stage);
/* A wgmma of the group is done. */
void group_finish(struct warp *warp, enum group_family family, uint32_t group);
uint32_t group_current(const struct warp *warp, enum group_family family);
void groups_at_end(struct run *run);

/* ---- global memory (async/global_access.c) ---- */

/* Records an access to global memory and checks it against other launches and threads; call it before the
 * access. flags: ACCESS_WRITE, ACCESS_ATOMIC. */
void touch_global(struct run *run, uint64_t address, uint64_t bytes, int lane, unsigned flags);
/* touch_global for lanes of a warp, `bytes` each. */
void touch_global_lanes(struct run *run, const uint64_t addresses[LANES], uint32_t mask, uint32_t bytes,
                        unsigned flags);

#endif
