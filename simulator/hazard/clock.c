#include "hazard.h"

#include <stdio.h>
#include <stdlib.h>

#define SYNC_LOCATIONS 64
#define VECTORS        4

/* Flags in memory that strong accesses of this cluster use; the oldest is forgotten. */
struct sync_table {
    struct sync_entry {
        uint64_t address;
        struct clockv *clock;
    } entry[SYNC_LOCATIONS];
    uint32_t next;
    struct clockv *relaxed;
};

static size_t room_bytes(const struct cluster *cluster) {
    return cluster->clock_capacity * sizeof(uint32_t);
}

struct clockv *clock_make(struct cluster *cluster) {
    struct clockv *clock = cluster->clock_free;
    if (clock != NULL) {
        cluster->clock_free = clock->next;
    } else {
        clock = run_take(cluster->worker, 1, sizeof *clock + VECTORS * room_bytes(cluster));
        clock->acquired = (uint32_t *)(void *)(clock + 1);
        clock->async = clock->acquired + cluster->clock_capacity;
        clock->per_lane = clock->async + cluster->clock_capacity;
        clock->causal = clock->per_lane + cluster->clock_capacity;
        clock->all_next = cluster->clock_all;
        cluster->clock_all = clock;
    }
    clock_clear(cluster, clock);
    return clock;
}

void clock_release(struct cluster *cluster, struct clockv *clock) {
    clock->next = cluster->clock_free;
    cluster->clock_free = clock;
}

void clocks_reset(struct cluster *cluster) {
    cluster->clock_free = NULL;
    cluster->nexecution_indices = 0;
    for (struct clockv *clock = cluster->clock_all; clock != NULL; clock = clock->all_next) {
        clock_release(cluster, clock);
    }
    if (cluster->sync != NULL) {
        memset(cluster->sync, 0, sizeof *cluster->sync);
    }
}

void clocks_free(struct cluster *cluster) {
    for (struct clockv *clock = cluster->clock_all, *next; clock != NULL; clock = next) {
        next = clock->all_next;
        free(clock);
    }
    free(cluster->sync);
}

void clock_clear(const struct cluster *cluster, struct clockv *clock) {
    memset(clock->acquired, 0, VECTORS * room_bytes(cluster));
}

void clock_copy(const struct cluster *cluster, struct clockv *to, const struct clockv *from) {
    memcpy(to->acquired, from->acquired, VECTORS * room_bytes(cluster));
}

static void join(uint32_t *to, const uint32_t *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        to[i] = to[i] > from[i] ? to[i] : from[i];
    }
}

void clock_join(const struct cluster *cluster, struct clockv *to, const struct clockv *from) {
    join(to->acquired, from->acquired, cluster->nclock_indices);
    join(to->async, from->async, cluster->nclock_indices);
    join(to->per_lane, from->per_lane, cluster->nclock_indices);
    join(to->causal, from->causal, cluster->nclock_indices);
}

void causal_join(const struct cluster *cluster, struct clockv *to, const struct clockv *from) {
    join(to->causal, from->causal, cluster->nclock_indices);
}

uint32_t new_clock_index(struct cluster *cluster) {
    return cluster->nclock_indices < cluster->clock_capacity ? cluster->nclock_indices++ : 0;
}

uint32_t new_execution_indices(struct cluster *cluster, uint32_t count) {
    uint32_t first = cluster->nclock_indices;
    if (cluster->clock_capacity - first < count) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        cluster->execution_indices[cluster->nexecution_indices++] = cluster->nclock_indices++;
    }
    return first;
}

void execution_join(const struct cluster *cluster, struct clockv *to, const struct clockv *from) {
    for (uint32_t i = 0; i < cluster->nexecution_indices; i++) {
        uint32_t clock_index = cluster->execution_indices[i];
        if (to->acquired[clock_index] < from->acquired[clock_index]) {
            to->acquired[clock_index] = to->per_lane[clock_index] = from->acquired[clock_index];
        }
    }
}

static uint32_t single_lane_index(const struct warp *warp) {
    const struct cluster *cluster = warp->cta->cluster;
    return cluster->nctas * cluster->launch->warps + warp->number;
}

/* Accesses of a single lane have a time of their own: it may signal them whatever its siblings have done. */
struct epoch warp_epoch(const struct run *run, uint32_t mask) {
    const struct warp *warp = run->warp;
    uint32_t clock_index = (mask & (mask - 1)) == 0 ? single_lane_index(warp) : warp->number;
    return (struct epoch){clock_index, warp->clock->acquired[clock_index], warp->clock, warp->number,
                          run->insn};
}

bool is_own_index(const struct warp *warp, uint32_t clock_index) {
    return clock_index == warp->number || clock_index == single_lane_index(warp);
}

void warp_tick(struct warp *warp) {
    uint32_t indices[] = {warp->number, single_lane_index(warp)};
    for (int i = 0; i < 2; i++) {
        uint32_t now = ++warp->clock->acquired[indices[i]];
        warp->clock->per_lane[indices[i]] = warp->clock->causal[indices[i]] = now;
    }
}

void warp_synced(struct run *run) {
    run->warp->sync_epoch++;
    if (run->launch->checks) {
        run->warp->synced_time = run->warp->clock->acquired[run->warp->number];
        warp_tick(run->warp);
    }
}

void clock_publish(struct run *run, struct clockv *gathered) {
    struct warp *warp = run->warp;
    uint32_t *own = &warp->clock->per_lane[warp->number], now = *own;
    if (run->mask != warp->live) { /* some lanes only: the others have not signalled anything */
        *own = warp->synced_time;
    }
    clock_join(run->cluster, gathered, warp->clock);
    *own = now;
    warp_tick(warp);
}

void clock_forget_own(const struct run *run, struct clockv *clock) {
    uint32_t own = run->warp->number, single = single_lane_index(run->warp);
    clock->acquired[own] = clock->async[own] = clock->per_lane[own] = 0;
    clock->acquired[single] = clock->async[single] = clock->per_lane[single] = 0;
}

void clock_observe(struct run *run, const struct clockv *released) {
    clock_join(run->cluster, run->warp->clock, released);
}

void clock_fence_async(const struct cluster *cluster, struct clockv *clock) {
    join(clock->async, clock->acquired, cluster->nclock_indices);
}

static struct sync_table *sync_table(struct cluster *cluster) {
    if (cluster->sync == NULL) {
        cluster->sync = run_take(cluster->worker, 1, sizeof *cluster->sync);
    }
    return cluster->sync;
}

static struct clockv *location(struct cluster *cluster, uint64_t address) {
    struct sync_table *table = sync_table(cluster);
    for (uint32_t i = 0; i < SYNC_LOCATIONS; i++) {
        if (table->entry[i].clock != NULL && table->entry[i].address == address) {
            return table->entry[i].clock;
        }
    }
    struct sync_entry *entry = &table->entry[table->next++ % SYNC_LOCATIONS];
    if (entry->clock == NULL) {
        entry->clock = clock_make(cluster);
    }
    clock_clear(cluster, entry->clock);
    entry->address = address;
    return entry->clock;
}

static void sync_relaxed(struct run *run, bool write) {
    struct sync_table *table = sync_table(run->cluster);
    if (table->relaxed == NULL) {
        table->relaxed = clock_make(run->cluster);
    }
    causal_join(run->cluster, write ? table->relaxed : run->warp->clock,
                write ? run->warp->clock : table->relaxed);
}

void sync_location(struct run *run, uint32_t mask, bool ordered, bool release) {
    const struct insn *insn = run->insn;
    if (!run->launch->checks) {
        return;
    }
    if (!ordered) {
        sync_relaxed(run, release);
        return;
    }
    struct operand base = insn->op[insn->nop - 1];
    int lane = __builtin_ctz(mask);
    uint64_t address = lane_u64(run, base, lane) + (uint64_t)insn->offset;
    if (insn->space == SP_SHARED || insn->space == SP_SHARED_CLUSTER) {
        address |= SHARED_WINDOW;
    }
    struct clockv *clock = location(run->cluster, address);
    if (release) {
        clock_publish(run, clock);
    } else {
        clock_observe(run, clock);
    }
}
