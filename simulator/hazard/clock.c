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
    return cluster->slots_room * sizeof(uint32_t);
}

struct clockv *clock_make(struct cluster *cluster) {
    struct clockv *clock = cluster->clock_free;
    if (clock != NULL) {
        cluster->clock_free = clock->next;
    } else {
        clock = run_take(cluster->worker, 1, sizeof *clock + VECTORS * room_bytes(cluster));
        clock->seen = (uint32_t *)(void *)(clock + 1);
        clock->async = clock->seen + cluster->slots_room;
        clock->strict = clock->async + cluster->slots_room;
        clock->caused = clock->strict + cluster->slots_room;
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
    cluster->nexecution_slots = 0;
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
    memset(clock->seen, 0, VECTORS * room_bytes(cluster));
}

void clock_copy(const struct cluster *cluster, struct clockv *to, const struct clockv *from) {
    memcpy(to->seen, from->seen, VECTORS * room_bytes(cluster));
}

static void join(uint32_t *to, const uint32_t *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        to[i] = to[i] > from[i] ? to[i] : from[i];
    }
}

void clock_join(const struct cluster *cluster, struct clockv *to, const struct clockv *from) {
    join(to->seen, from->seen, cluster->nslots);
    join(to->async, from->async, cluster->nslots);
    join(to->strict, from->strict, cluster->nslots);
    join(to->caused, from->caused, cluster->nslots);
}

void cause_join(const struct cluster *cluster, struct clockv *to, const struct clockv *from) {
    join(to->caused, from->caused, cluster->nslots);
}

uint32_t clock_slot(struct cluster *cluster) {
    return cluster->nslots < cluster->slots_room ? cluster->nslots++ : 0;
}

uint32_t execution_slot(struct cluster *cluster, uint32_t count) {
    uint32_t first = cluster->nslots;
    if (cluster->slots_room - first < count) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        cluster->execution_slots[cluster->nexecution_slots++] = cluster->nslots++;
    }
    return first;
}

void execution_join(const struct cluster *cluster, struct clockv *to, const struct clockv *from) {
    for (uint32_t i = 0; i < cluster->nexecution_slots; i++) {
        uint32_t slot = cluster->execution_slots[i];
        if (to->seen[slot] < from->seen[slot]) {
            to->seen[slot] = to->strict[slot] = from->seen[slot];
        }
    }
}

static uint32_t single_slot(const struct warp *warp) {
    const struct cluster *cluster = warp->cta->cluster;
    return cluster->nctas * cluster->launch->warps + warp->number;
}

/* Accesses of a single lane have a time of their own: it may signal them whatever its siblings have done. */
struct stamp warp_stamp(const struct run *run, uint32_t mask) {
    const struct warp *warp = run->warp;
    uint32_t slot = (mask & (mask - 1)) == 0 ? single_slot(warp) : warp->number;
    return (struct stamp){slot, warp->clock->seen[slot], warp->clock, warp->number, run->insn};
}

bool own_slot(const struct warp *warp, uint32_t slot) {
    return slot == warp->number || slot == single_slot(warp);
}

void warp_tick(struct warp *warp) {
    uint32_t slots[] = {warp->number, single_slot(warp)};
    for (int i = 0; i < 2; i++) {
        uint32_t now = ++warp->clock->seen[slots[i]];
        warp->clock->strict[slots[i]] = warp->clock->caused[slots[i]] = now;
    }
}

void warp_synced(struct run *run) {
    run->warp->sync_epoch++;
    if (run->launch->checks) {
        run->warp->synced_time = run->warp->clock->seen[run->warp->number];
        warp_tick(run->warp);
    }
}

void clock_publish(struct run *run, struct clockv *gathered) {
    struct warp *warp = run->warp;
    uint32_t *own = &warp->clock->strict[warp->number], now = *own;
    if (run->mask != warp->live) { /* some lanes only: the others have not signalled anything */
        *own = warp->synced_time;
    }
    clock_join(run->cluster, gathered, warp->clock);
    *own = now;
    warp_tick(warp);
}

void clock_forget_own(const struct run *run, struct clockv *clock) {
    uint32_t own = run->warp->number, single = single_slot(run->warp);
    clock->seen[own] = clock->async[own] = clock->strict[own] = 0;
    clock->seen[single] = clock->async[single] = clock->strict[single] = 0;
}

void clock_observe(struct run *run, const struct clockv *released) {
    clock_join(run->cluster, run->warp->clock, released);
}

void clock_fence_async(const struct cluster *cluster, struct clockv *clock) {
    join(clock->async, clock->seen, cluster->nslots);
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
    cause_join(run->cluster, write ? table->relaxed : run->warp->clock,
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
