#include "gpu_grouped.h"

#include <stdlib.h>

#include "../core/checks.h"
#include "gpu_backend.h"

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

static int32_t select_tile(const struct grouped_tiling *tiling, struct tiled_groups *tiled) {
    int tile = -1;
    RETURN_IF_FAILED(gpu_wanted_tile(GROUPED_CONFIG_VARIABLE, tiling->name, &tile));
    RETURN_IF_FAILED(gpu_count_sms(tiled->group[0].problem->device, &tiled->sms));
    int64_t least_ps = INT64_MAX;
    for (int i = 0, any = tile < 0; any && tiling->name(i) != NULL; i++) {
        cut_groups(tiling, i, tiled);
        int64_t ps = predict(tiled, tiling->units(i, tiled->sms));
        if (ps < least_ps) {
            least_ps = ps;
            tile = i;
        }
    }
    cut_groups(tiling, tile, tiled);
    return CUSTOM_KERNEL_OK;
}

static void plan_scales(struct tiled_groups *tiled) {
    for (int64_t i = 0; i < tiled->count; i++) {
        struct tiled_group *group = &tiled->group[i];
        group->scales = gpu_plan_scales(group->problem, group->problem->n, 2);
        group->scales_offset = tiled->scratch_bytes;
        tiled->scratch_bytes += gpu_scales_bytes(&group->scales);
    }
}

static int32_t tile_groups(const struct grouped_tiling *tiling, const struct problem *groups, int64_t count,
                           struct tiled_groups *tiled) {
    RETURN_IF_FAILED(gpu_check_groups(tiling->backend, groups, count));
    tiled->count = count;
    tiled->scratch_bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        tiled->group[i].problem = &groups[i];
    }
    RETURN_IF_FAILED(select_tile(tiling, tiled));
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

int32_t gpu_run_grouped(const struct grouped_tiling *tiling, const struct problem *groups, int64_t count) {
    struct tiled_groups tiled;
    uint8_t *scratch = NULL;
    RETURN_IF_FAILED(tile_groups(tiling, groups, count, &tiled));
    RETURN_IF_FAILED(gpu_acquire_scratch(groups, tiled.scratch_bytes, &scratch));
    int32_t status = launch_all_groups(tiling, &tiled, scratch);
    return gpu_release_scratch(groups, scratch, status);
}

int32_t gpu_check_grouped(const struct grouped_tiling *tiling, const struct problem *groups, int64_t count) {
    struct tiled_groups tiled;
    return tile_groups(tiling, groups, count, &tiled);
}

int32_t gpu_permute_groups_scales(const struct tiled_groups *tiled, int64_t first, int64_t count,
                                  const void *kernel, const char *pdl_variable) {
    for (int64_t i = first; i < first + count; i++) {
        const struct tiled_group *group = &tiled->group[i];
        RETURN_IF_FAILED(gpu_permute_scales(group->problem, &group->scales, kernel, pdl_variable));
    }
    return CUSTOM_KERNEL_OK;
}
