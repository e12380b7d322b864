/* Checks on tensor maps that a kernel changes in global memory, by tensormap.replace, tensormap.cp_fenceproxy
 * or ordinary stores (PTX ISA, Data Movement: tensormap.replace; fence.proxy.tensormap).
 *
 * Before a change, all copies that use the map must be complete. A copy must come after the change and after a
 * fence.proxy.tensormap of the map that itself came after the change. */
#include "map_change.h"

#include "hazard/global/global_record.h"

#include <stdio.h>
#include <stdlib.h>

struct moment {
    const struct insn *insn; /* NULL: never */
    uint32_t clock_index, value;
};

struct map_changes {
    uint32_t count, room;
    uint64_t low, high; /* lowest and highest address of a map in the list */
    struct map {
        uint64_t address;
        struct moment change, fence;
        struct moment *use; /* last use per clock index (barrier or group) that copies complete on */
        uint32_t uses, use_room;
    } *map;
};

static struct moment now(const struct run *run) {
    const struct warp *warp = run->warp;
    return (struct moment){run->insn, warp->number, warp->clock->acquired[warp->number]};
}

static bool reached(const struct run *run, const struct moment *moment) {
    return moment->insn == NULL || run->warp->clock->acquired[moment->clock_index] >= moment->value;
}

static struct map *find(struct cluster *cluster, uint64_t address, bool make) {
    if (cluster->map_changes == NULL && make) {
        cluster->map_changes = run_take(cluster->worker, 1, sizeof *cluster->map_changes);
    }
    struct map_changes *all = cluster->map_changes;
    for (uint32_t i = all == NULL ? 0 : all->count; i > 0; i--) {
        if (all->map[i - 1].address == address) {
            return &all->map[i - 1];
        }
    }
    if (!make) {
        return NULL;
    }
    RUN_GROW(cluster->worker, all->map, all->count, all->room);
    struct map *map = &all->map[all->count++]; /* keep the list of uses that an earlier cluster allocated */
    all->low = all->count == 1 || address < all->low ? address : all->low;
    all->high = all->count == 1 || address > all->high ? address : all->high;
    *map = (struct map){.address = address, .use = map->use, .use_room = map->use_room};
    return map;
}

void map_changes_reset(struct cluster *cluster) {
    if (cluster->map_changes != NULL) {
        cluster->map_changes->count = 0;
    }
}

void map_changes_free(struct map_changes *all) {
    for (uint32_t i = 0; all != NULL && i < all->room; i++) {
        free(all->map[i].use);
    }
    if (all != NULL) {
        free(all->map);
    }
    free(all);
}

static void change(struct run *run, struct map *map) {
    for (uint32_t i = 0; map != NULL && i < map->uses; i++) {
        if (!reached(run, &map->use[i])) {
            (void)sim_report_pair(
                run, SIM_ERROR, "tensor-map-in-use", -1, map->use[i].insn,
                "changes a tensor map that an asynchronous copy may still read: its completion "
                "has not been waited for");
        }
    }
    if (map != NULL) {
        map->uses = 0;
        map->fence = (struct moment){.insn = NULL};
        map->change = now(run);
        warp_tick(run->warp);
    }
}

void map_changed(struct run *run, uint64_t address) {
    change(run, run->cluster->checks ? find(run->cluster, address, true) : NULL);
}

void map_stored(struct run *run, uint64_t address) {
    const struct map_changes *all = run->cluster->map_changes;
    if (all->count == 0 || address < all->low || address - all->high >= SIM_TENSOR_MAP_BYTES) {
        return;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        if (address - all->map[i].address < SIM_TENSOR_MAP_BYTES) {
            change(run, find(run->cluster, all->map[i].address, false));
        }
    }
}

void map_fenced(struct run *run, uint64_t address) {
    struct map *map = run->cluster->checks ? find(run->cluster, address, true) : NULL;
    if (map != NULL && reached(run, &map->change)) {
        map->fence = now(run);
        warp_tick(run->warp);
    }
}

void map_used(struct run *run, uint64_t address, const struct epoch *epoch) {
    if ((address & WINDOW_MASK) != 0) { /* in parameter space: no thread can change it */
        return;
    }
    struct map *map = run->cluster->checks ? find(run->cluster, address, true) : NULL;
    if (map == NULL) {
        return;
    }
    if (!reached(run, &map->change)) {
        (void)sim_report_pair(
            run, SIM_ERROR, "tensor-map-race", -1, map->change.insn,
            "uses a tensor map that another thread changes, without a synchronisation in between");
    } else if ((map->change.insn != NULL || lines_written(run, address)) &&
               (map->fence.insn == NULL || !reached(run, &map->fence))) {
        (void)sim_report_pair(
            run, SIM_ERROR, "missing-tensormap-fence", -1, map->change.insn,
            "uses a tensor map that this launch has changed, with no fence.proxy.tensormap of it in "
            "between");
    }
    struct moment use = {run->insn, epoch->clock_index, epoch->value};
    uint32_t at = 0;
    while (at < map->uses && map->use[at].clock_index != use.clock_index) {
        at++;
    }
    RUN_GROW(run->worker, map->use, at, map->use_room);
    map->uses += at == map->uses;
    map->use[at] = use;
}
