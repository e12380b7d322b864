/* The host side of the grouped GEMM.  A call (gpu_run_grouped): check the limits, select a tile, put the groups
 * with the longest tiles first, get scratch memory; then, for as many groups as fit a launch: encode the tensor
 * maps, permute the scale factors of each group that needs it in a launch of its own, and multiply in one
 * launch. */
#include "../geforce_run.h"

#include <stdbool.h>

#include "../../core/checks.h"
#include "../../gpu/gpu_gemv.h"
#include "../../gpu/gpu_grouped.h"
#include "../geforce_kernels.h"
#include "../geforce_operands.h"
#include "../geforce_tile_selection.h"

static int64_t tile_rows(int tile) {
    return geforce_grouped_configs[tile].tile_m;
}

static int64_t tile_columns(int tile) {
    return 2 * (int64_t)geforce_grouped_configs[tile].tile_n;
}

/* Predicted time of a tile in cycles. */
static int64_t tile_time(int tile, const struct problem *group) {
    return geforce_grouped_tile_cycles(&geforce_grouped_configs[tile], group->k);
}

static int sms_at_once(int tile, int sms) {
    (void)tile;
    return sms;
}

static int one_cta(int tile) {
    (void)tile;
    return 1;
}

/* Fills in the kernel's parameters for a group whose tiles start at number first_tile. */
static int32_t describe(const struct tiled_groups *tiled, const struct tiled_group *of, int32_t first_tile,
                        struct geforce_group *group) {
    const struct problem *problem = of->problem;
    const struct geforce_config *config = &geforce_grouped_configs[tiled->tile];
    group->sfa = of->scales.sfa;
    group->sfb1 = of->scales.sfb1;
    group->c = problem->c;
    group->m = (int32_t)problem->m;
    group->n = (int32_t)problem->n;
    group->steps_k = (int32_t)(problem->k / STEP_K);
    group->first_tile = first_tile;
    group->tiles_m = (int32_t)of->tiles_m;
    RETURN_IF_FAILED(geforce_encode_fp4(member_name(problem->group, "a").text, problem, problem->a, problem->m,
                                        config->tile_m, &group->a));
    return geforce_encode_fp4(member_name(problem->group, "b").text, problem, problem->b1, problem->n,
                              config->tile_n, &group->b1);
}

static int32_t launch_groups(const struct tiled_groups *tiled, int64_t first, int64_t count) {
    const struct geforce_config *config = &geforce_grouped_configs[tiled->tile];
    struct geforce_many_groups many;
    struct geforce_few_groups few;
    const struct tiled_group *groups = &tiled->group[first];
    const bool is_few = count <= GEFORCE_FEW_GROUPS;
    struct geforce_group *described = is_few ? few.group : many.group;
    int64_t tiles = 0;
    for (int64_t i = 0; i < count; i++) {
        RETURN_IF_FAILED(describe(tiled, &groups[i], (int32_t)tiles, &described[i]));
        tiles += groups[i].tiles.tiles;
    }
    *(is_few ? &few.groups : &many.groups) = (int32_t)count;
    *(is_few ? &few.tiles : &many.tiles) = (int32_t)tiles;
    struct launch launch = {
        .kernel = geforce_grouped_gemm_kernel(tiled->tile, is_few),
        .grid = {tiles < tiled->sms ? tiles : tiled->sms, 1, 1},
        .threads = geforce_cta_threads(config),
        .cluster = 1,
        .shared_bytes = geforce_shared_bytes(config),
        .pdl_variable = GEFORCE_PDL_VARIABLE,
    };
    RETURN_IF_FAILED(gpu_allow_shared_memory(groups[0].problem->device, &launch));
    RETURN_IF_FAILED(
        gpu_permute_groups_scales(tiled, first, count, geforce_permute_scales_kernel(), GEFORCE_PDL_VARIABLE));
    void *arguments[] = {is_few ? (void *)&few : (void *)&many};
    return gpu_launch(groups[0].problem, &launch, arguments);
}

static const struct grouped_tiling tiling = {
    .backend = "geforce",
    .name = geforce_grouped_tile_name,
    .rows = tile_rows,
    .columns = tile_columns,
    .tile_ps = tile_time,
    .units = sms_at_once,
    .ctas_of_unit = one_cta,
    .most_groups = GEFORCE_MOST_GROUPS,
    .launch_groups = launch_groups,
};

int32_t geforce_run_grouped(const struct problem *groups, int64_t count) {
    if (gpu_prefers_gemv(groups, count)) {
        return gpu_run_gemv("geforce", groups, count, geforce_gemv_kernel(), GEFORCE_PDL_VARIABLE);
    }
    return gpu_run_grouped(&tiling, groups, count);
}

int32_t geforce_check_grouped(const struct problem *groups, int64_t count) {
    return gpu_prefers_gemv(groups, count) ? gpu_check_groups("geforce", groups, count)
                                           : gpu_check_grouped(&tiling, groups, count);
}
