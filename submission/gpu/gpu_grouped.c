#include "gpu_grouped.h"

#include <stdlib.h>

#include "../core/checks.h"
#include "gpu_backend.h"
#include "gpu_tuner.h"

enum { MOST_TILES = 32 }; /* of a backend's list */

int32_t gpu_check_groups(const char *backend, const struct problem *groups, int64_t count) {
    int64_t rows = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct problem *problem = &groups[i];
        const struct {
            const char *name;
            int64_t value;
        } sizes[] = {{"m", problem->m}, {"n", problem->n}, {"k", problem->k}};
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            const struct member_name name = member_name(problem->group, sizes[j].name);
            const struct limit limit = {name.text, sizes[j].value, MAX_DIMENSION};
            RETURN_IF_FAILED(gpu_check_limits(backend, NULL, &limit, 1));
        }
        const struct member_name scales[] = {member_name(problem->group, "sfa's scale tiles"),
                                             member_name(problem->group, "sfb's scale tiles")};
        const struct limit limits[] = {
            {scales[0].text, scale_tile_rows(problem->m) * (problem->k / SCALE_TILE_K), MAX_DIMENSION},
            {scales[1].text, scale_tile_rows(problem->n) * (problem->k / SCALE_TILE_K), MAX_DIMENSION},
        };
        RETURN_IF_FAILED(gpu_check_limits(backend, NULL, limits, 2));
        rows += problem->m;
    }
    const struct limit limit = {"the number of rows of all groups", rows, INT32_MAX};
    return gpu_check_limits(backend, NULL, &limit, 1);
}

int32_t gpu_check_ctas(const char *backend, int64_t ctas) {
    const struct limit limit = {"the number of CTAs for the tiles of all groups", ctas, INT32_MAX};
    return gpu_check_limits(backend, NULL, &limit, 1);
}

static int longest_first(const void *x, const void *y) {
    const struct tiled_group *a = x, *b = y;
    return (a->tiles.tile_ps < b->tiles.tile_ps) - (a->tiles.tile_ps > b->tiles.tile_ps);
}

static void cut_groups(const struct grouped_tiling *tiling, int tile, struct tiled_groups *tiled) {
    tiled->tile = tile;
    tiled->tiles = 0;
    for (int64_t i = 0; i < tiled->count; i++) {
        struct tiled_group *group = &tiled->group[i];
        group->tiles_m = ceil_div(group->problem->m, tiling->rows(tile));
        group->tiles.tiles = group->tiles_m * ceil_div(group->problem->n, tiling->columns(tile));
        group->tiles.tile_ps = tiling->tile_ps(tile, group->problem);
        tiled->tiles += group->tiles.tiles;
    }
    qsort(tiled->group, (size_t)tiled->count, sizeof *tiled->group, longest_first);
}

static int64_t predict(const struct tiled_groups *tiled, int units) {
    struct tile_class classes[GROUPS_AT_ONCE];
    for (int64_t i = 0; i < tiled->count; i++) {
        classes[i] = tiled->group[i].tiles;
    }
    return gpu_schedule_ps(classes, tiled->count, units);
}

/* The predicted time with each tile, in ps[]; returns the tile of the least. */
static int predict_tiles(const struct grouped_tiling *tiling, struct tiled_groups *tiled,
                         int64_t ps[MOST_TILES], int *count) {
    int best = 0;
    for (*count = 0; *count < MOST_TILES && tiling->name(*count) != NULL; ++*count) {
        cut_groups(tiling, *count, tiled);
        ps[*count] = predict(tiled, tiling->units(*count, tiled->sms));
        best = ps[*count] < ps[best] ? *count : best;
    }
    return best;
}

static void plan_scales(struct tiled_groups *tiled) {
    for (int64_t i = 0; i < tiled->count; i++) {
        struct tiled_group *group = &tiled->group[i];
        group->scales = gpu_plan_scales(group->problem, group->problem->n, 2);
        group->scales_offset = tiled->scratch_bytes;
        tiled->scratch_bytes += gpu_scales_bytes(&group->scales);
    }
}

/* tile: -1 for the one of least predicted time. */
static int32_t tile_groups(const struct grouped_tiling *tiling, const struct problem *groups, int64_t count,
                           int tile, struct tiled_groups *tiled) {
    RETURN_IF_FAILED(gpu_check_groups(tiling->backend, groups, count));
    tiled->count = count;
    tiled->scratch_bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        tiled->group[i].problem = &groups[i];
    }
    RETURN_IF_FAILED(gpu_count_sms(groups->device, &tiled->sms));
    if (tile < 0) {
        int64_t ps[MOST_TILES];
        int tiles;
        tile = predict_tiles(tiling, tiled, ps, &tiles);
    }
    cut_groups(tiling, tile, tiled);
    RETURN_IF_FAILED(gpu_check_ctas(tiling->backend, tiled->tiles * tiling->ctas_of_unit(tiled->tile)));
    plan_scales(tiled);
    return CUSTOM_KERNEL_OK;
}

static int32_t launch_all_groups(const struct grouped_tiling *tiling, struct tiled_groups *tiled,
                                 uint8_t *scratch) {
    for (int64_t i = 0; i < tiled->count; i++) {
        struct tiled_group *group = &tiled->group[i];
        gpu_place_scales(group->problem, scratch + group->scales_offset, &group->scales);
    }
    for (int64_t i = 0; i < tiled->count; i += tiling->most_groups) {
        int64_t left = tiled->count - i;
        int64_t count = left < tiling->most_groups ? left : tiling->most_groups;
        RETURN_IF_FAILED(tiling->launch_groups(tiled, i, count));
    }
    return CUSTOM_KERNEL_OK;
}

static int32_t run_with(const struct grouped_tiling *tiling, const struct problem *groups, int64_t count,
                        int tile) {
    struct tiled_groups tiled;
    uint8_t *scratch = NULL;
    RETURN_IF_FAILED(tile_groups(tiling, groups, count, tile, &tiled));
    RETURN_IF_FAILED(gpu_acquire_scratch(groups, tiled.scratch_bytes, &scratch));
    int32_t status = launch_all_groups(tiling, &tiled, scratch);
    return gpu_release_scratch(groups, scratch, status);
}

struct ways {
    const struct grouped_tiling *tiling;
    int64_t count;
    int tiles[TUNER_MOST_WAYS];
};

static int32_t run_way(const struct problem *groups, const void *all, int way) {
    const struct ways *ways = all;
    return run_with(ways->tiling, groups, ways->count, ways->tiles[way]);
}

static int64_t appended(int64_t sizes, int64_t size) {
    return (int64_t)((uint64_t)sizes * MAX_DIMENSION + (uint64_t)size);
}

/* A key of all sizes.  Should two calls have the same, one takes the other's tile, which computes it as well.
 */
static struct cache_key key_of(const struct problem *groups, int64_t count, int sms) {
    struct cache_key key = {.l = count, .sms = sms, .kind = -1};
    for (int64_t i = 0; i < count; i++) {
        key.m = appended(key.m, groups[i].m);
        key.n = appended(key.n, groups[i].n);
        key.k = appended(key.k, groups[i].k);
    }
    return key;
}

/* The fastest of the tiles that the model ranks best; -1 if calls are not tuned. */
static int32_t tune(const struct grouped_tiling *tiling, const struct problem *groups, int64_t count,
                    int *tile) {
    struct tiled_groups tiled = {.count = count};
    struct ways ways = {.tiling = tiling, .count = count};
    int64_t ps[MOST_TILES], most_m = 0;
    int tiles;
    for (int64_t i = 0; i < count; i++) {
        tiled.group[i].problem = &groups[i];
        most_m = groups[i].m > most_m ? groups[i].m : most_m;
    }
    if (!gpu_tunes(most_m)) {
        return CUSTOM_KERNEL_OK;
    }
    RETURN_IF_FAILED(gpu_check_groups(tiling->backend, groups, count));
    RETURN_IF_FAILED(gpu_count_sms(groups->device, &tiled.sms));
    (void)predict_tiles(tiling, &tiled, ps, &tiles);
    const struct cache_key key = key_of(groups, count, tiled.sms);
    const int way = gpu_fastest_way(groups, &key, run_way, &ways, gpu_rank_ways(ps, tiles, ways.tiles));
    *tile = way < 0 ? -1 : ways.tiles[way];
    return CUSTOM_KERNEL_OK;
}

int32_t gpu_run_grouped(const struct grouped_tiling *tiling, const struct problem *groups, int64_t count) {
    int tile = -1;
    RETURN_IF_FAILED(gpu_wanted_tile(GROUPED_CONFIG_VARIABLE, tiling->name, &tile));
    if (tile < 0) {
        RETURN_IF_FAILED(tune(tiling, groups, count, &tile));
    }
    return run_with(tiling, groups, count, tile);
}

int32_t gpu_check_grouped(const struct grouped_tiling *tiling, const struct problem *groups, int64_t count) {
    struct tiled_groups tiled;
    int tile = -1;
    RETURN_IF_FAILED(gpu_wanted_tile(GROUPED_CONFIG_VARIABLE, tiling->name, &tile));
    return tile_groups(tiling, groups, count, tile, &tiled);
}

int32_t gpu_permute_groups_scales(const struct tiled_groups *tiled, int64_t first, int64_t count,
                                  const void *kernel, const char *pdl_variable) {
    for (int64_t i = first; i < first + count; i++) {
        const struct tiled_group *group = &tiled->group[i];
        RETURN_IF_FAILED(gpu_permute_scales(group->problem, &group->scales, kernel, pdl_variable));
    }
    return CUSTOM_KERNEL_OK;
}
