/* Vector clocks: what one warp, barrier or flag knows to have happened before (hazard.h). */
#include "hazard.h"

#include <stdio.h>
#include <stdlib.h>

#define VECTORS 4

static size_t room_bytes(const struct cluster *cluster) {
    return cluster->clock_capacity * sizeof(uint32_t);
}

/* Size of `inits` and `met`, which are allocated side by side. */
static size_t warp_bytes(const struct cluster *cluster) {
    return 2 * all_warps(cluster) * sizeof(uint32_t);
}

size_t vclock_bytes(const struct cluster *cluster) {
    return VECTORS * room_bytes(cluster) + warp_bytes(cluster);
}

struct vector_clock *vclock_make(struct cluster *cluster) {
    struct vector_clock *clock = cluster->clock_free;
    if (clock != NULL) {
        cluster->clock_free = clock->next;
    } else {
        clock = run_take(cluster->worker, 1, sizeof *clock + vclock_bytes(cluster));
        clock->acquired = (uint32_t *)(void *)(clock + 1);
        clock->async = clock->acquired + cluster->clock_capacity;
        clock->per_lane = clock->async + cluster->clock_capacity;
        clock->causal = clock->per_lane + cluster->clock_capacity;
        clock->inits = clock->causal + cluster->clock_capacity;
        clock->met = clock->inits + all_warps(cluster);
        clock->all_next = cluster->clock_all;
        cluster->clock_all = clock;
    }
    vclock_clear(cluster, clock);
    return clock;
}

void vclock_release(struct cluster *cluster, struct vector_clock *clock) {
    clock->next = cluster->clock_free;
    cluster->clock_free = clock;
}

static uint32_t take_indices(struct cluster *cluster, uint32_t count) {
    uint32_t first = cluster->nclock_indices;
    cluster->nclock_indices += count;
    if (cluster->most_clock_indices < cluster->nclock_indices) {
        cluster->most_clock_indices = cluster->nclock_indices;
    }
    return first;
}

void vclocks_reset(struct cluster *cluster) {
    cluster->clock_free = NULL;
    cluster->nexecution_indices = 0;
    cluster->nclock_indices = 0;
    (void)take_indices(cluster, 2 * cluster->nctas * cluster->launch->warps); /* warps, single lanes of them */
    cluster->dependency_index = take_indices(cluster, 1);
    cluster->flag_index = take_indices(cluster, 1);
    cluster->heard_index = take_indices(cluster, 1);
    for (struct vector_clock *clock = cluster->clock_all; clock != NULL; clock = clock->all_next) {
        vclock_release(cluster, clock);
    }
}

void vclocks_free(struct cluster *cluster) {
    for (struct vector_clock *clock = cluster->clock_all, *next; clock != NULL; clock = next) {
        next = clock->all_next;
        free(clock);
    }
}

/* Only indices that some cluster has handed out can be nonzero, so only those are cleared and copied. */
static size_t used_bytes(const struct cluster *cluster) {
    return cluster->most_clock_indices * sizeof(uint32_t);
}

void vclock_clear(const struct cluster *cluster, struct vector_clock *clock) {
    uint32_t *const vectors[VECTORS] = {clock->acquired, clock->async, clock->per_lane, clock->causal};
    for (int i = 0; i < VECTORS; i++) {
        memset(vectors[i], 0, used_bytes(cluster));
    }
    memset(clock->inits, 0, warp_bytes(cluster));
}

void vclock_copy(const struct cluster *cluster, struct vector_clock *to, const struct vector_clock *from) {
    memcpy(to->acquired, from->acquired, used_bytes(cluster));
    memcpy(to->async, from->async, used_bytes(cluster));
    memcpy(to->per_lane, from->per_lane, used_bytes(cluster));
    memcpy(to->causal, from->causal, used_bytes(cluster));
    memcpy(to->inits, from->inits, warp_bytes(cluster));
}

static void join(uint32_t *to, const uint32_t *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        to[i] = to[i] > from[i] ? to[i] : from[i];
    }
}

void vclock_join(const struct cluster *cluster, struct vector_clock *to, const struct vector_clock *from) {
    join(to->acquired, from->acquired, cluster->nclock_indices);
    join(to->async, from->async, cluster->nclock_indices);
    join(to->per_lane, from->per_lane, cluster->nclock_indices);
    join(to->causal, from->causal, cluster->nclock_indices);
    join(to->inits, from->inits, 2 * all_warps(cluster)); /* `met` follows `inits` */
}

void causal_join(const struct cluster *cluster, struct vector_clock *to, const struct vector_clock *from) {
    join(to->causal, from->causal, cluster->nclock_indices);
    join(to->inits, from->inits, all_warps(cluster));
}

static uint32_t new_indices(struct run *run, uint32_t count) {
    struct cluster *cluster = run->cluster;
    if (cluster->clock_capacity - cluster->nclock_indices < count) {
        (void)sim_report(run, SIM_INCOMPLETE, "checks-exhausted", -1,
                         "more mbarriers, groups and threads with asynchronous operations than the checks can "
                         "follow: %u in a cluster",
                         cluster->clock_capacity);
        return 0;
    }
    return take_indices(cluster, count);
}

uint32_t new_clock_index(struct run *run) {
    return new_indices(run, 1);
}

uint32_t new_execution_indices(struct run *run, uint32_t count) {
    struct cluster *cluster = run->cluster;
    uint32_t first = new_indices(run, count);
    for (uint32_t i = 0; first != 0 && i < count; i++) {
        cluster->execution_indices[cluster->nexecution_indices++] = first + i;
    }
    return first;
}

void execution_join(const struct cluster *cluster, struct vector_clock *to, const struct vector_clock *from) {
    for (uint32_t i = 0; i < cluster->nexecution_indices; i++) {
        uint32_t clock_index = cluster->execution_indices[i];
        if (to->acquired[clock_index] < from->acquired[clock_index]) {
            to->acquired[clock_index] = to->per_lane[clock_index] = from->acquired[clock_index];
        }
    }
}

/* An access by a single lane gets its own index: that lane may signal it before its siblings are done. */
struct epoch warp_epoch(const struct run *run, uint32_t mask) {
    const struct warp *warp = run->warp;
    uint32_t clock_index = (mask & (mask - 1)) == 0 ? single_lane_index(warp) : warp->number;
    return (struct epoch){clock_index, warp->clock->acquired[clock_index], warp->clock, warp->number,
                          run->insn};
}

void warp_tick(struct warp *warp) {
    uint32_t indices[] = {warp->number, single_lane_index(warp)};
    for (int i = 0; i < 2; i++) {
        uint32_t now = ++warp->clock->acquired[indices[i]];
        warp->clock->per_lane[indices[i]] = warp->clock->causal[indices[i]] = now;
    }
}

void warp_synced(struct run *run, uint32_t lanes) {
    struct warp *warp = run->warp;
    if (run->cluster->checks) {
        const uint32_t now = warp->synced_time = warp->clock->acquired[warp->number];
        if ((lanes & warp->live) == warp->live) {
            warp->whole_time = now;
            warp->nparties = 0;
        } else {
            warp->parties[warp->nparties++ % PARTIES] = (struct synced){lanes, now};
        }
        warp->unwaited = 0;
        warp_tick(warp);
    }
}

bool lanes_synced(const struct warp *warp, uint32_t value, uint32_t before, uint32_t now) {
    bool met = value <= warp->whole_time;
    for (uint32_t i = 0; !met && i < warp->nparties && i < PARTIES; i++) {
        const struct synced *party = &warp->parties[i];
        met = value <= party->time && (party->lanes >> before & party->lanes >> now & 1) != 0;
    }
    return met;
}

void vclock_publish(struct run *run, struct vector_clock *gathered) {
    struct warp *warp = run->warp;
    uint32_t *own = &warp->clock->per_lane[warp->number], now = *own;
    if (run->mask !=
        warp->live) { /* only some lanes signal: the others' accesses count up to the last warp sync */
        *own = warp->synced_time;
    }
    vclock_join(run->cluster, gathered, warp->clock);
    *own = now;
    warp_tick(warp);
}

void vclock_forget_own(const struct run *run, struct vector_clock *clock) {
    uint32_t own = run->warp->number, single = single_lane_index(run->warp);
    clock->acquired[own] = clock->async[own] = clock->per_lane[own] = 0;
    clock->acquired[single] = clock->async[single] = clock->per_lane[single] = 0;
}

void vclock_observe(struct run *run, const struct vector_clock *released) {
    vclock_join(run->cluster, run->warp->clock, released);
    if (released->acquired[run->cluster->dependency_index] != 0) {
        run->warp->unwaited &= ~run->mask;
    }
}

void vclock_fence_inits(struct run *run) {
    if (run->cluster->checks) {
        run->warp->clock->inits[run->warp->number] = run->warp->clock->acquired[run->warp->number];
        warp_tick(run->warp);
    }
}

void vclock_meet(struct run *run) {
    if (run->cluster->checks) {
        join(run->warp->clock->met, run->warp->clock->acquired, all_warps(run->cluster));
        run->warp->settled |= BARRED;
    }
}

void vclock_met_at(struct run *run, const struct vector_clock *released) {
    struct warp *warp = run->warp;
    join(warp->clock->met, released->acquired, all_warps(run->cluster));
    const uint32_t time = released->per_lane[warp->number];
    if (time >= warp->awaited_time) {
        warp->awaited_by = run->mask | (time == warp->awaited_time ? warp->awaited_by : 0);
        warp->awaited_time = time;
    }
}

void vclock_fence_async(const struct cluster *cluster, struct vector_clock *clock) {
    join(clock->async, clock->acquired, cluster->nclock_indices);
}
