/* Happens-before checks on shared memory, made with vector clocks when an instruction issues.
 *
 * A clock has one index for each warp of the cluster (the warp's own time) and one for each thing whose
 * completion a thread observes by waiting: the phases of a barrier, the wgmma groups of a warpgroup, the bulk
 * and cp.async groups of a warp.  A shadow record stores each access with its epoch: a clock index and a value.
 * A later, conflicting access is ordered after it if the clock of its issuer has reached that value.  A second
 * vector holds what fence.proxy.async has made visible to the async proxy. */
#ifndef SIM_HAZARD_H
#define SIM_HAZARD_H

#include "machine/machine.h"

/* Four vectors of cluster->clock_capacity values, and two with one value for each warp. */
struct vector_clock {
    struct vector_clock *next; /* in the free list */
    struct vector_clock *all_next;
    uint32_t *acquired; /* ordered before, memory effects included */
    uint32_t *async;    /* the part of `acquired` that is visible to the async proxy */
    /* As `acquired`, without assuming that the lanes of a warp run in step: a signal by one lane covers the
     * accesses of its siblings only up to their last warp-wide synchronisation. */
    uint32_t *per_lane;
    /* Happened before in time, also through signals that order no memory: relaxed arrivals, strong relaxed
     * accesses, the bytes of a copy. */
    uint32_t *causal;
    /* Indexed by warp of the cluster.  inits: its mbarrier.init up to this time are followed by its own
     * fence.mbarrier_init; every signal carries this on.  met: its accesses up to this time precede a barrier
     * of the CTA or the cluster. */
    uint32_t *inits, *met;
};

static inline uint32_t all_warps(const struct cluster *cluster) {
    return cluster->nctas * cluster->launch->warps;
}

/* Frees all clocks and indices of the cluster, except the indices of its warps, of griddepcontrol.wait and of
 * flags. */
void vclocks_reset(struct cluster *cluster);
void vclocks_free(struct cluster *cluster);
/* Do the same for all state of a cluster's checks, clocks included (hazard/cluster_checks.c). */
void checks_reset(struct cluster *cluster);
void checks_free(struct cluster *cluster);
struct vector_clock *vclock_make(struct cluster *cluster); /* zeros */
size_t vclock_bytes(const struct cluster *cluster);        /* size of the vectors of one clock */
void vclock_release(struct cluster *cluster, struct vector_clock *clock);
void vclock_clear(const struct cluster *cluster, struct vector_clock *clock);
void vclock_copy(const struct cluster *cluster, struct vector_clock *to, const struct vector_clock *from);
void vclock_join(const struct cluster *cluster, struct vector_clock *to, const struct vector_clock *from);
/* Joins only the causal part of `from`: it came first, but orders no memory. */
void causal_join(const struct cluster *cluster, struct vector_clock *to, const struct vector_clock *from);
/* A new index.  If the cluster has used them all: reports `incomplete`, ends the run and returns 0. */
uint32_t new_clock_index(struct run *run);
/* The first of `count` new indices, or 0, for completions that signals without release carry on too: execution
 * ordering instructions (PTX ISA, tcgen05.fence). */
uint32_t new_execution_indices(struct run *run, uint32_t count);
/* Joins only the indices made by new_execution_indices: all that a relaxed arrival carries. */
void execution_join(const struct cluster *cluster, struct vector_clock *to, const struct vector_clock *from);

/* Advances the warp's own time, so that its accesses so far have an earlier epoch than later ones. */
void warp_tick(struct warp *warp);
/* Call when these lanes of the running warp have synchronised. */
void warp_synced(struct run *run, uint32_t lanes);
/* True if the lane comes after what another lane of its warp did at this time of the warp. */
bool lanes_synced(const struct warp *warp, uint32_t value, uint32_t before, uint32_t now);
static inline uint32_t single_lane_index(const struct warp *warp) {
    const struct cluster *cluster = warp->cta->cluster;
    return cluster->nctas * cluster->launch->warps + warp->number;
}

/* True for the two indices of the warp itself: accesses of several lanes, accesses of a single lane. */
static inline bool is_own_index(const struct warp *warp, uint32_t clock_index) {
    return clock_index == warp->number || clock_index == single_lane_index(warp);
}
/* A release by the running warp: joins its clock into `gathered`, then advances its time. */
void vclock_publish(struct run *run, struct vector_clock *gathered);
/* Removes the running warp's own time from a clock, for signals that do not release its accesses. */
void vclock_forget_own(const struct run *run, struct vector_clock *clock);
/* An acquire by the running warp. */
void vclock_observe(struct run *run, const struct vector_clock *released);
/* fence.mbarrier_init: covers the running warp's own mbarrier.init only (PTX ISA, membar/fence). */
void vclock_fence_inits(struct run *run);
/* The running warp has passed a barrier: all that it has acquired precedes that barrier (`met`). */
void vclock_meet(struct run *run);
/* The running warp has seen the phase of an mbarrier: what came before its arrivals precedes it (`met`). */
void vclock_met_at(struct run *run, const struct vector_clock *released);
/* Makes everything that a clock has acquired visible to the async proxy. */
void vclock_fence_async(const struct cluster *cluster, struct vector_clock *clock);
/* ---- strong accesses and fences (hazard/locations.c) ---- */

void locations_reset(struct cluster *cluster);
void locations_free(struct sync_table *table);
/* fence.sc, .acq_rel, .acquire, .release: with relaxed accesses after or before it, it releases and acquires
 * (PTX ISA, Memory Consistency Model: release and acquire patterns). */
void vclock_fence(struct run *run, bool acquires, bool releases, bool narrow /* scope .cta */);
/* Call after vclock_fence for a fence.sc of a scope wider than the CTA (membar.gl too): such a fence
 * also combines with relaxed signals of other threads. */
void vclock_fence_sc(struct run *run);
/* A relaxed arrival: joins into `gathered` the fact that it came, and what releasing fences before it cover. */
void relaxed_signal(struct run *run, struct vector_clock *gathered);
/* The running warp has seen a relaxed signal: a later acquiring fence acquires what the signal carried. */
void vclock_noticed(struct run *run, const struct vector_clock *signalled);
/* A strong load, store or atomic at the address operand of the running instruction.  It releases or acquires
 * through memory if it has .release or .acquire, or if it is relaxed and combined with a fence.  A relaxed
 * access alone only carries the causal part, through one clock shared by all locations. */
enum sync_order { SYNC_RELAXED, SYNC_ORDERED, SYNC_ORDERED_CTA /* with scope .cta */ };
static inline enum sync_order sync_order(bool ordered, bool of_cta) {
    return !ordered ? SYNC_RELAXED : of_cta ? SYNC_ORDERED_CTA : SYNC_ORDERED;
}
void sync_location(struct run *run, uint32_t mask, enum sync_order order, bool release);
/* True if another cluster did this before a fence and a relaxed signal, which a warp of this cluster has seen,
 * and the running instruction comes after that warp and waits for the signal's value.  An acquiring fence is
 * all that is missing between the two.  needs_barrier: true only if a barrier is in between, where no compiler
 * moves a load. */
bool noticed_behind_fence(const struct run *run, uint32_t cluster, uint32_t clock_index, uint32_t value,
                          bool needs_barrier);
/* Reports that the running warp acquires what another CTA released although one of the two accesses has scope
 * .cta, which does not include the other thread.  `signal`: the releasing instruction, NULL if unknown. */
void report_narrow_scope(struct run *run, const struct insn *signal);
/* True if the cluster has used more flags than the checks follow: an apparent race may then be ordered. */
bool flags_lost(const struct cluster *cluster);

/* ---- accesses ---- */

enum access_flags {
    ACCESS_READ = 0,
    ACCESS_WRITE = 1,
    ACCESS_ASYNC = 2,    /* by an asynchronous operation, in the async proxy unless ACCESS_GENERIC is set */
    ACCESS_ATOMIC = 4,   /* atomics do not race with each other */
    ACCESS_COPY = 8,     /* takes effect after its issue, in the generic proxy: cp.async */
    ACCESS_VARIED = 32,  /* in records only: the same warp had just written other values there */
    ACCESS_GENERIC = 64, /* with ACCESS_ASYNC: in the generic proxy (PTX ISA, st.async) */
    ACCESS_BARE = 64,    /* with ACCESS_ATOMIC alone: volatile, and no signal behind a fence or barrier */
    ACCESS_OF_CTA = 128, /* with ACCESS_ATOMIC: of scope .cta */
    ACCESS_MIXED = 16    /* the row at a lane's address belongs to several lanes: ldmatrix, stmatrix */
};

/* True if neither access can race with the other.  Volatile accesses are relaxed: they are whole, but order
 * nothing, so programs that pass values through them need a fence or a barrier as for ordinary ones. */
static inline bool both_strong(unsigned a, unsigned b) {
    const unsigned both = a & b;
    return (both & ACCESS_ATOMIC) != 0 && ((both & ACCESS_BARE) == 0 || (both & ACCESS_ASYNC) != 0);
}

static inline bool both_bare(unsigned a, unsigned b) {
    return (a & b & ACCESS_ATOMIC) != 0 && !both_strong(a, b);
}

/* True if something can race with an access of the flags `before`, but not with a later one of `flags`. */
static inline bool hides(unsigned before, unsigned flags) {
    return (flags & ACCESS_ATOMIC) != 0 &&
           ((before & ACCESS_ATOMIC) == 0 || (before & ~flags & ACCESS_OF_CTA) != 0);
}

struct shadow;
void shadow_make(struct cta *cta); /* sets cta->shadow */
void shadow_reset(struct shadow *shadow);
void shadow_free(struct shadow *shadow);
/* Call when all threads of the CTA have met at a barrier, none having ended: what any of them did before comes
 * before what any does later.  Where nothing uses shared memory asynchronously or from another CTA, no later
 * access can conflict with it. */
void shadow_met(struct cta *cta);

/* An access of the running warp: `bytes` at the offset of each lane. */
void hazard_lanes(struct run *run, struct cta *cta, const uint32_t offsets[LANES], uint32_t mask,
                  uint32_t bytes, unsigned flags);
/* When an access counts as done: once a clock has reached `value` at `clock_index`. */
struct epoch {
    uint32_t clock_index, value;
    const struct vector_clock *clock; /* the issuer's */
    uint32_t warp;                    /* number of the issuer in its cluster */
    const struct insn *insn;
};
/* The epoch of an access that the lanes of a mask of the running warp make now. */
struct epoch warp_epoch(const struct run *run, uint32_t mask);
/* ---- other CTAs of the cluster that may end (hazard/shared/lifetime.c) ---- */

struct remote_uses;
void remote_make(struct cta *cta); /* sets cta->remote; called with checks on and several CTAs in a cluster */
void remote_reset(struct cta *cta);
void remote_free(struct remote_uses *remote);
/* Notes that the running warp uses the shared memory of another CTA until the epoch is reached. */
void remote_note(const struct run *run, const struct cta *target, const struct epoch *epoch);
/* Call when the last lanes of the running warp end, and then if its CTA ends with them. */
void remote_warp_ends(struct run *run);
void remote_cta_ends(struct run *run);

/* ---- the shadow record ---- */

/* Records what an asynchronous operation will do to a range; the epoch says what a later access must have
 * acquired. */
enum next hazard_range(struct run *run, struct cta *cta, uint32_t offset, uint32_t bytes, unsigned flags,
                       const struct epoch *epoch);
/* The writes of the lanes' cp.async, of at most 16 aligned bytes each. */
void hazard_copies(struct run *run, const uint32_t offsets[LANES], uint32_t mask, uint32_t bytes,
                   const struct epoch *epoch);
/* Asynchronous reads of 16 bytes each, at multiples of 16. */
void hazard_granules(struct run *run, struct cta *cta, const uint32_t *offsets, uint32_t count,
                     const struct epoch *epoch);
/* An asynchronous write to the 16 bytes at `offset` that `acquired` does not cover; NULL if there is none. */
const struct insn *hazard_unacquired_write(const struct launch *launch, const struct cta *cta, uint32_t offset,
                                           const uint32_t *acquired);

#endif
