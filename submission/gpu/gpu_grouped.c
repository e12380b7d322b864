#include "gpu_grouped.h"

#include <stdlib.h>
#include <string.h>

#include "../core/checks.h"
#include "gpu_host.h"

enum {
    MANY_WAVES = 16,  /* from here on the end of the last wave decides little */
    MOST_UNITS = 512, /* that are told apart */
};

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

/* Units that are free at the same time. */
struct level {
    int64_t ps, units;
};

/* Keeps levels in order of time, none twice. */
static int add_level(struct level *levels, int count, struct level level) {
    int at = count;
    while (at > 0 && levels[at - 1].ps > level.ps) {
        at--;
    }
    if (at > 0 && levels[at - 1].ps == level.ps) {
        levels[at - 1].units += level.units;
        return count;
    }
    memmove(&levels[at + 1], &levels[at], (size_t)(count - at) * sizeof *levels);
    levels[at] = level;
    return count + 1;
}

int64_t gpu_schedule_ps(const struct tile_class *classes, int64_t count, int units) {
    struct level levels[MOST_UNITS + 1];
    int64_t tiles = 0;
    double work = 0;
    units = units < MOST_UNITS ? units : MOST_UNITS;
    for (int64_t i = 0; i < count; i++) {
        tiles += classes[i].tiles;
        work += (double)classes[i].tiles * (double)classes[i].tile_ps;
    }
    if (tiles > (int64_t)MANY_WAVES * units) {
        return (int64_t)(work / units) + classes[0].tile_ps / 2;
    }
    int used = 1;
    levels[0] = (struct level){0, units};
    for (int64_t i = 0; i < count; i++) {
        for (int64_t remaining = classes[i].tiles; remaining > 0;) {
            struct level first = levels[0];
            int64_t taken = first.units < remaining ? first.units : remaining;
            levels[0].units -= taken;
            if (levels[0].units == 0) {
                memmove(&levels[0], &levels[1], (size_t)--used * sizeof *levels);
            }
            used = add_level(levels, used, (struct level){first.ps + classes[i].tile_ps, taken});
            remaining -= taken;
        }
    }
    return levels[used - 1].ps;
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
        group->tiles.tile_ps = tiling->tile_ps(tile, group->problem->k);
        tiled->tiles += group->tiles.tiles;
    }
    qsort(tiled->group, (size_t)tiled->count, sizeof *tiled->group, longest_first);
}

static int64_t predict(const struct tiled_groups *tiled, int units) {
    struct tile_class classes[CUSTOM_KERNEL_MAX_GROUPS];
    for (int64_t i = 0; i < tiled->count; i++) {
        classes[i] = tiled->group[i].tiles;
    }
    return gpu_schedule_ps(classes, tiled->count, units);
}

static int32_t select_tile(const struct grouped_tiling *tiling, struct tiled_groups *tiled) {
    int tile = -1;
    RETURN_IF_FAILED(gpu_wanted_tile(tiling->variable, tiling->name, &tile));
    CHECK_CUDA(
        cudaDeviceGetAttribute(&tiled->sms, cudaDevAttrMultiProcessorCount, tiled->group[0].problem->device));
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

/* Of a tensor's scale factors in the blocked layout. */
static int64_t permuted_bytes(const struct problem *problem, int64_t rows) {
    int64_t groups = problem->k / NVFP4_GROUP_ELEMS;
    return round_up(scale_batch_bytes(CUSTOM_KERNEL_SCALES_BLOCKED, rows, groups), SCRATCH_ALIGNMENT);
}

static void place_scales(struct tiled_groups *tiled) {
    tiled->permute_scales = tiled->group[0].problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED;
    for (int64_t i = 0; i < tiled->count && tiled->permute_scales; i++) {
        struct tiled_group *group = &tiled->group[i];
        group->sfa_offset = tiled->scratch_bytes;
        group->sfb_offset = group->sfa_offset + permuted_bytes(group->problem, group->problem->m);
        tiled->scratch_bytes = group->sfb_offset + permuted_bytes(group->problem, group->problem->n);
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
    place_scales(tiled);
    return CUSTOM_KERNEL_OK;
}

static int32_t launch_all_groups(const struct grouped_tiling *tiling, const struct tiled_groups *tiled,
                                 uint8_t *scratch) {
    for (int64_t i = 0; i < tiled->count; i += tiling->most_groups) {
        int64_t left = tiled->count - i;
        int64_t count = left < tiling->most_groups ? left : tiling->most_groups;
        RETURN_IF_FAILED(tiling->launch_groups(tiled, i, count, scratch));
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

const uint8_t *gpu_group_sfa(const struct tiled_groups *tiled, const struct tiled_group *group,
                             const uint8_t *scratch) {
    return tiled->permute_scales ? scratch + group->sfa_offset : group->problem->sfa;
}

const uint8_t *gpu_group_sfb(const struct tiled_groups *tiled, const struct tiled_group *group,
                             const uint8_t *scratch) {
    return tiled->permute_scales ? scratch + group->sfb_offset : group->problem->sfb1;
}

static int32_t permute_scales_of_group(const struct tiled_group *group, const void *kernel, uint8_t *scratch,
                                       const char *pdl_variable) {
    const struct problem *problem = group->problem;
    struct permute_scales_params params = {
        .tensors = {{problem->sfa, scratch + group->sfa_offset, problem->m},
                    {problem->sfb1, scratch + group->sfb_offset, problem->n}},
        .tiles_k = problem->k / SCALE_TILE_K,
        .count = 2,
    };
    return gpu_launch_permute_scales(problem, kernel, params, pdl_variable);
}

int32_t gpu_launch_groups_permute_scales(const struct tiled_groups *tiled, int64_t first, int64_t count,
                                         const void *kernel, uint8_t *scratch, const char *pdl_variable) {
    for (int64_t i = first; i < first + count && tiled->permute_scales; i++) {
        RETURN_IF_FAILED(permute_scales_of_group(&tiled->group[i], kernel, scratch, pdl_variable));
    }
    return CUSTOM_KERNEL_OK;
}
