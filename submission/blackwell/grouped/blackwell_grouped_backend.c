/* The host side of the grouped GEMM.  A call (gpu_run_grouped): check the limits, select a tile, put the groups
 * with the longest tiles first, get scratch memory; then, for as many groups as fit a launch: encode the tensor
 * maps, permute the scale factors of each group that needs it in a launch of its own, and multiply in one
 * launch. */
#include "../blackwell_run.h"

#include <stdbool.h>

#include "../../core/checks.h"
#include "../../gpu/gpu_gemv.h"
#include "../../gpu/gpu_grouped.h"
#include "../blackwell_kernels.h"
#include "../blackwell_operands.h"
#include "../blackwell_tile_selection.h"

/* Tiles are numbered through both lists. */
static bool is_transposed(int tile) {
    return tile >= BLACKWELL_GROUPED_TILES;
}

static const struct blackwell_config *config_of(int tile) {
    return is_transposed(tile) ? &blackwell_transposed_configs[tile - BLACKWELL_GROUPED_TILES]
                               : &blackwell_grouped_configs[tile];
}

static const char *tile_name(int tile) {
    return is_transposed(tile) ? blackwell_transposed_tile_name(tile - BLACKWELL_GROUPED_TILES)
                               : blackwell_grouped_tile_name(tile);
}

/* Rows of an MMA and of its other operand: rows of A and of B, or the other way round. */
static int64_t mma_rows(int tile) {
    return (int64_t)TILE_M * config_of(tile)->ctas;
}

static int64_t mma_columns(int tile) {
    return 2 * (int64_t)config_of(tile)->tile_n;
}

static int64_t tile_rows(int tile) {
    return is_transposed(tile) ? mma_columns(tile) : mma_rows(tile);
}

static int64_t tile_columns(int tile) {
    return is_transposed(tile) ? mma_rows(tile) : mma_columns(tile);
}

static int64_t tile_ps(int tile, const struct problem *group) {
    return is_transposed(tile) ? blackwell_transposed_tile_ps(config_of(tile), group->m, group->k)
                               : blackwell_grouped_tile_ps(config_of(tile), group->k);
}

static int clusters(int tile, int sms) {
    return blackwell_clusters_at_once(config_of(tile), sms);
}

static int ctas_of_cluster(int tile) {
    return config_of(tile)->ctas * config_of(tile)->split_k;
}

/* Fills in the kernel's parameters for a group. */
static int32_t describe(const struct tiled_groups *tiled, const struct tiled_group *of,
                        struct blackwell_group *group) {
    const struct problem *problem = of->problem;
    const struct blackwell_config *config = config_of(tiled->tile);
    const bool transposed = is_transposed(tiled->tile);
    group->c = problem->c;
    group->m = (int32_t)problem->m;
    group->n = (int32_t)problem->n;
    group->steps_k = (int32_t)(problem->k / STEP_K);
    group->scales_by_previous_kernel = of->scales.permute;
    group->tiles_m = (int32_t)of->tiles_m;
    group->columns = transposed ? (int32_t)blackwell_transposed_columns(config, problem->m) : 0;
    const int box_rows = transposed ? group->columns / config->ctas : blackwell_b_box_rows(config);
    RETURN_IF_FAILED(blackwell_encode_fp4(member_name(problem->group, "a").text, problem, problem->a,
                                          problem->m, transposed ? box_rows : TILE_M,
                                          transposed ? &group->b1 : &group->a));
    RETURN_IF_FAILED(blackwell_encode_fp4(member_name(problem->group, "b").text, problem, problem->b1,
                                          problem->n, transposed ? TILE_M : box_rows,
                                          transposed ? &group->a : &group->b1));
    RETURN_IF_FAILED(blackwell_encode_scales(member_name(problem->group, "sfa").text, problem, of->scales.sfa,
                                             problem->m, transposed ? &group->sfb1 : &group->sfa));
    return blackwell_encode_scales(member_name(problem->group, "sfb").text, problem, of->scales.sfb1,
                                   problem->n, transposed ? &group->sfa : &group->sfb1);
}

static int32_t launch_groups(const struct tiled_groups *tiled, int64_t first, int64_t count) {
    const struct blackwell_config *config = config_of(tiled->tile);
    struct blackwell_many_groups many;
    struct blackwell_few_groups few;
    const struct tiled_group *groups = &tiled->group[first];
    const bool is_few = count <= BLACKWELL_FEW_GROUPS;
    struct blackwell_group *described = is_few ? few.group : many.group;
    int32_t *first_tile = is_few ? few.first_tile : many.first_tile;
    int64_t tiles = 0;
    for (int64_t i = 0; i < (is_few ? BLACKWELL_FEW_GROUPS : BLACKWELL_MOST_GROUPS); i++) {
        first_tile[i] = i < count ? (int32_t)tiles : INT32_MAX;
        if (i < count) {
            RETURN_IF_FAILED(describe(tiled, &groups[i], &described[i]));
            tiles += groups[i].tiles.tiles;
        }
    }
    *(is_few ? &few.tiles : &many.tiles) = (int32_t)tiles;
    const int64_t at_once = clusters(tiled->tile, tiled->sms);
    const bool tile_after_tile = is_transposed(tiled->tile) && config->split_k == 1;
    const int64_t launched = tile_after_tile && tiles > at_once ? at_once : tiles,
                  cluster = ctas_of_cluster(tiled->tile);
    struct launch launch = {
        .kernel = blackwell_grouped_gemm_kernel(tiled->tile, is_few),
        .grid = {launched * cluster, 1, 1},
        .threads = CTA_THREADS,
        .cluster = cluster,
        .shared_bytes = is_transposed(tiled->tile) ? blackwell_transposed_shared_bytes(config)
                                                   : blackwell_shared_bytes(config),
        .pdl_variable = BLACKWELL_PDL_VARIABLE,
    };
    RETURN_IF_FAILED(gpu_allow_shared_memory(groups[0].problem->device, &launch));
    RETURN_IF_FAILED(gpu_permute_groups_scales(tiled, first, count, blackwell_permute_scales_kernel(),
                                               BLACKWELL_PDL_VARIABLE));
    void *arguments[] = {is_few ? (void *)&few : (void *)&many};
    return gpu_launch(groups[0].problem, &launch, arguments);
}

static const struct grouped_tiling tiling = {
    .backend = "blackwell",
    .name = tile_name,
    .rows = tile_rows,
    .columns = tile_columns,
    .tile_ps = tile_ps,
    .units = clusters,
    .ctas_of_unit = ctas_of_cluster,
    .most_groups = BLACKWELL_MOST_GROUPS,
    .launch_groups = launch_groups,
};

/* predicted:b200 (simulator/calibration/calls).  From about as many bytes of B on, behind other calls,
 * transposed tiles run single rows' products sooner than CUDA cores, which convert every code. */
#define TILED_GEMV_BYTES (24 << 20)

static bool is_tiled_gemv(const struct problem *groups, int64_t count) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        bytes += groups[i].n * groups[i].k / 2;
    }
    return bytes >= TILED_GEMV_BYTES;
}

static bool runs_on_cuda_cores(const struct problem *groups, int64_t count) {
    return gpu_prefers_gemv(groups, count) && !is_tiled_gemv(groups, count);
}

int32_t blackwell_check_grouped(const struct problem *groups, int64_t count) {
    return runs_on_cuda_cores(groups, count) ? gpu_check_groups("blackwell", groups, count)
                                             : gpu_check_grouped(&tiling, groups, count);
}

int32_t blackwell_run_grouped(const struct problem *groups, int64_t count) {
    if (runs_on_cuda_cores(groups, count)) {
        return gpu_run_gemv("blackwell", groups, count, blackwell_gemv_kernel(), BLACKWELL_PDL_VARIABLE);
    }
    return gpu_run_grouped(&tiling, groups, count);
}
