#include "hazard.h"

#include "../async/async.h"

#include <stdio.h>
#include <stdlib.h>

#define SYNC_LOCATIONS 64

/* Flags in memory that strong accesses of this cluster use; the oldest is forgotten. */
struct sync_table {
    struct sync_entry {
        uint64_t address;
        struct clockv *clock;
    } entry[SYNC_LOCATIONS];
    uint32_t next;
};

static size_t room_bytes(const struct cluster *cluster) {
    return cluster->slots_room * sizeof(uint32_t);
}

struct clockv *clock_make(struct cluster *cluster) {
    struct clockv *clock = cluster->clock_free;
    if (clock != NULL) {
        cluster->clock_free = clock->next;
    } else {
        clock = malloc(sizeof *clock + 2 * room_bytes(cluster));
        if (clock == NULL) {
            (void)fputs("ptxsim: out of memory\n", stderr);
            abort();
        }
        clock->seen = (uint32_t *)(void *)(clock + 1);
        clock->async = clock->seen + cluster->slots_room;
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
    memset(clock->seen, 0, 2 * room_bytes(cluster));
}

void clock_copy(const struct cluster *cluster, struct clockv *to, const struct clockv *from) {
    memcpy(to->seen, from->seen, 2 * room_bytes(cluster));
}

static void join(uint32_t *to, const uint32_t *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        to[i] = to[i] > from[i] ? to[i] : from[i];
    }
}

void clock_join(const struct cluster *cluster, struct clockv *to, const struct clockv *from) {
    join(to->seen, from->seen, cluster->nslots);
    join(to->async, from->async, cluster->nslots);
}

uint32_t clock_slot(struct cluster *cluster) {
    return cluster->nslots < cluster->slots_room ? cluster->nslots++ : 0;
}

void warp_tick(struct warp *warp) {
    warp->clock->seen[warp->number]++;
}

void clock_publish(struct run *run, struct clockv *gathered) {
    clock_join(run->cluster, gathered, run->warp->clock);
    warp_tick(run->warp);
}

void clock_observe(struct run *run, const struct clockv *released) {
    clock_join(run->cluster, run->warp->clock, released);
}

/* Everything the warp has seen happen becomes visible to the async proxy. */
void fence_proxy_async(struct run *run) {
    if (run->launch->checks) {
        join(run->warp->clock->async, run->warp->clock->seen, run->cluster->nslots);
        mbarriers_fenced(run->cluster, run->warp);
        warp_tick(run->warp);
    }
}

static struct clockv *location(struct cluster *cluster, uint64_t address) {
    if (cluster->sync == NULL) {
        cluster->sync = calloc(1, sizeof *cluster->sync);
        if (cluster->sync == NULL) {
            return NULL;
        }
    }
    struct sync_table *table = cluster->sync;
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

void sync_location(struct run *run, uint32_t mask, bool release) {
    const struct insn *insn = run->insn;
    if (!run->launch->checks || !insn->rnd) { /* relaxed: no order */
        return;
    }
    struct operand base = insn->op[insn->nop - 1];
    int lane = __builtin_ctz(mask);
    uint64_t address = lane_u64(run, base, lane) + (uint64_t)insn->imm;
    if (insn->space == SP_SHARED || insn->space == SP_SHARED_CLUSTER) {
        address |= SHARED_WINDOW;
    }
    struct clockv *clock = location(run->cluster, address);
    if (clock == NULL) {
        return;
    }
    if (release) {
        clock_publish(run, clock);
    } else {
        clock_observe(run, clock);
    }
}
