/* Happens-before checks on shared memory, by vector clocks at issue time.
 *
 * A clock has an index for each warp of the cluster (the warp's own time), and one for each thing whose
 * completion a thread observes by waiting: a barrier's phases, a warpgroup's wgmma groups, a warp's bulk and
 * cp.async groups.  A shadow record remembers an access with its epoch: a clock index and a value at it.  A
 * later, conflicting access comes after it if its issuer's clock has reached that value.  A second vector says
 * what the async proxy has been made to see (fence.proxy.async). */
#ifndef SIM_HAZARD_H
#define SIM_HAZARD_H

#include "machine/machine.h"

/* A clock: four vectors of cluster->clock_capacity values and two of a value for each warp. */
struct clockv {
    struct clockv *next; /* of the free list */
    struct clockv *all_next;
    uint32_t *acquired; /* what is ordered before, memory included */
    uint32_t *async;    /* of that, what the async proxy has been made to see */
    /* As acquired, but what a lane signals without a warp-wide synchronisation says nothing of its siblings. */
    uint32_t *per_lane;
    /* What had to happen before, be it through signals that order no memory: relaxed arrivals, strong relaxed
     * accesses, the bytes of a copy. */
    uint32_t *causal;
    /* By warp of the cluster, up to when: its mbarrier.init that a fence.mbarrier_init of its own has followed,
     * which any signal passes on; and what came before a barrier of the CTA or the cluster. */
    uint32_t *inits, *met;
};

static inline uint32_t all_warps(const struct cluster *cluster) {
    return cluster->nctas * cluster->launch->warps;
}

/* Every clock of the cluster becomes free again, and all indices but those of its warps and of
 * griddepcontrol.wait. */
void clocks_reset(struct cluster *cluster);
void clocks_free(struct cluster *cluster);
struct clockv *clock_make(struct cluster *cluster); /* zeros */
size_t clock_bytes(const struct cluster *cluster);  /* of its vectors */
void clock_release(struct cluster *cluster, struct clockv *clock);
void clock_clear(const struct cluster *cluster, struct clockv *clock);
void clock_copy(const struct cluster *cluster, struct clockv *to, const struct clockv *from);
void clock_join(const struct cluster *cluster, struct clockv *to, const struct clockv *from);
/* Of `from`, only that it came first: no memory is ordered. */
void causal_join(const struct cluster *cluster, struct clockv *to, const struct clockv *from);
/* A new index.  Where the cluster has too many, that is reported as incomplete, the run ends, and it is 0. */
uint32_t new_clock_index(struct run *run);
/* The first of `count` new indices, or 0, of completions that signals without release pass on too: execution
 * ordering instructions (PTX ISA, tcgen05.fence). */
uint32_t new_execution_indices(struct run *run, uint32_t count);
/* Of `from`, only those indices: what a relaxed arrival tells. */
void execution_join(const struct cluster *cluster, struct clockv *to, const struct clockv *from);

/* The warp's time moves on: what it did so far has an earlier epoch. */
void warp_tick(struct warp *warp);
/* All lanes of the warp have synchronised. */
void warp_synced(struct run *run);
/* Whether an index is one of the warp's own two: all lanes, a single lane. */
bool is_own_index(const struct warp *warp, uint32_t clock_index);
/* gathered += what the warp has acquired; then its time moves on. */
void clock_publish(struct run *run, struct clockv *gathered);
/* Takes the running warp's own time out of a clock: for signals that do not release its accesses. */
void clock_forget_own(const struct run *run, struct clockv *clock);
void clock_observe(struct run *run, const struct clockv *released);
/* fence.mbarrier_init: covers the running warp's own mbarrier.init only (PTX ISA, membar/fence). */
void clock_fence_inits(struct run *run);
/* The running warp has passed a barrier: all that it has acquired came before one. */
void clock_meet(struct run *run);
/* Everything that a clock has acquired becomes visible to the async proxy. */
void clock_fence_async(const struct cluster *cluster, struct clockv *clock);
/* ---- strong accesses and fences (hazard/locations.c) ---- */

void locations_reset(struct cluster *cluster);
void locations_free(struct sync_table *table);
/* fence.sc, .acq_rel, .acquire, .release: with relaxed accesses after or before it, it releases and acquires
 * (PTX ISA, Memory Consistency Model: release and acquire patterns). */
void clock_fence(struct run *run, bool acquires, bool releases);
/* After it for a fence.sc of more than a CTA, membar.gl among them: other threads' relaxed signals count too.
 */
void clock_fence_sc(struct run *run);
/* A relaxed arrival: gathered += that it came, and what a releasing fence before it covers. */
void relaxed_signal(struct run *run, struct clockv *gathered);
/* The running warp has seen a relaxed signal: what it told counts after an acquiring fence. */
void clock_noticed(struct run *run, const struct clockv *told);
/* A strong load or store (atomic too) at insn's address operand: release and acquire through memory where it
 * is ordered, or relaxed with a fence.  A relaxed one alone only tells what came first, and all locations count
 * as one for that. */
enum sync_order { SYNC_RELAXED, SYNC_ORDERED, SYNC_ORDERED_CTA /* with scope .cta */ };
static inline enum sync_order sync_order(bool ordered, bool of_cta) {
    return !ordered ? SYNC_RELAXED : of_cta ? SYNC_ORDERED_CTA : SYNC_ORDERED;
}
void sync_location(struct run *run, uint32_t mask, enum sync_order order, bool release);
/* The running warp acquires what another CTA released, one of the two with scope .cta, which does not hold the
 * other thread.  `signal`: the other one's instruction; NULL: not known. */
void report_narrow_scope(struct run *run, const struct insn *signal);
/* Whether the cluster has used more flags than are followed, so that what seems a race may be ordered. */
bool flags_lost(const struct cluster *cluster);

/* ---- accesses ---- */

enum access_flags {
    ACCESS_READ = 0,
    ACCESS_WRITE = 1,
    ACCESS_ASYNC = 2,    /* by an asynchronous operation: in the async proxy, but for ACCESS_GENERIC */
    ACCESS_ATOMIC = 4,   /* atomics do not race with each other */
    ACCESS_COPY = 8,     /* later than its issue, but in the generic proxy: cp.async */
    ACCESS_VARIED = 32,  /* a record's: its warp wrote other values there just before */
    ACCESS_GENERIC = 64, /* with ACCESS_ASYNC: in the generic proxy (PTX ISA, st.async) */
    ACCESS_MIXED = 16    /* a lane's row holds what several lanes give: ldmatrix, stmatrix */
};

struct shadow;
void shadow_make(struct cta *cta); /* sets cta->shadow */
void shadow_reset(struct shadow *shadow);
void shadow_free(struct shadow *shadow);

/* A warp's access: offsets of its lanes, `bytes` each. */
void hazard_lanes(struct run *run, struct cta *cta, const uint32_t offsets[LANES], uint32_t mask,
                  uint32_t bytes, unsigned flags);
/* When an access counts as done: where a clock has reached `value` at the index. */
struct epoch {
    uint32_t clock_index, value;
    const struct clockv *clock; /* of the issuer */
    uint32_t warp;              /* of the issuer, cluster wide */
    const struct insn *insn;
};
/* The epoch of the running warp's own accesses by the lanes of a mask. */
struct epoch warp_epoch(const struct run *run, uint32_t mask);
/* ---- other CTAs of the cluster that may end (hazard/shared/lifetime.c) ---- */

struct remote_uses;
void remote_make(
    struct cta *cta); /* sets cta->remote; only with checks, and where a cluster has several CTAs */
void remote_reset(struct cta *cta);
void remote_free(struct remote_uses *remote);
/* The running warp reaches into another CTA of the cluster, until the epoch. */
void remote_note(const struct run *run, const struct cta *target, const struct epoch *epoch);
/* The running warp's last lanes end, and then perhaps its CTA. */
void remote_warp_ends(struct run *run);
void remote_cta_ends(struct run *run);

/* ---- the shadow record ---- */

/* A range, with an epoch at another index than the warp's own: what an asynchronous operation will do. */
enum next hazard_range(struct run *run, struct cta *cta, uint32_t offset, uint32_t bytes, unsigned flags,
                       const struct epoch *epoch);
/* Asynchronous reads of 16 bytes each, at multiples of 16. */
void hazard_granules(struct run *run, struct cta *cta, const uint32_t *offsets, uint32_t count,
                     const struct epoch *epoch);
/* The asynchronous write of the 16 bytes at offset that values of `acquired` have not reached; NULL if they
 * have.
 */
const struct insn *hazard_unacquired_write(const struct launch *launch, const struct cta *cta, uint32_t offset,
                                           const uint32_t *acquired);

#endif
