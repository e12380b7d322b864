/* The host side of the extended GEMM.  A call: select a tile, check the limits, get scratch memory, encode the
 * tensor maps, permute scale factors if they are not in the blocked layout, multiply. */
#include "../blackwell_run.h"

#include "../../gpu/gpu_backend.h"
#include "../../gpu/gpu_grouped.h"
#include "../../gpu/gpu_scales.h"
#include "../blackwell_kernels.h"
#include "../blackwell_operands.h"
#include "../blackwell_tile_selection.h"
#include "blackwell_extended_kernels.h"

struct extended_plan {
    const struct problem *problem;
    const struct blackwell_config *config;
    int tile;       /* tiles for few rows are numbered after the others */
    bool joint;     /* one product of all rows of b1 */
    bool few_rows;  /* the tile is one for few rows */
    int64_t b_rows; /* rows of b1, and of b2 if there is one */
    struct gpu_scales scales;
};

static int other_tiles(bool joint) {
    return joint ? BLACKWELL_GROUPED_TILES : BLACKWELL_TILES;
}

static const struct blackwell_config *config_of(bool joint, int tile) {
    const int others = other_tiles(joint);
    return tile >= others ? &blackwell_few_rows_configs[tile - others]
           : joint        ? &blackwell_grouped_configs[tile]
                          : &blackwell_configs[tile];
}

static const char *name_of(bool joint, int tile) {
    return tile < other_tiles(joint) + BLACKWELL_FEW_ROWS_TILES ? config_of(joint, tile)->name : NULL;
}

static const char *joint_tile_name(int tile) {
    return name_of(true, tile);
}

static const char *apart_tile_name(int tile) {
    return name_of(false, tile);
}

/* NULL if there is none: tiles for few rows take gate and up from two tensors. */
static const void *kernel_of(const struct extended_plan *plan, int tile) {
    const struct extension *extension = plan->problem->extension;
    const int few_rows = tile - other_tiles(plan->joint);
    if (few_rows >= 0) {
        return extension->interleave == 0 ? blackwell_few_rows_kernel(few_rows, !extension->plain) : NULL;
    }
    return plan->joint ? blackwell_extended_joint_kernel(tile) : blackwell_extended_apart_kernel(tile);
}

static bool takes_few_rows(const struct extended_plan *plan) {
    const struct problem *problem = plan->problem;
    return problem->extension->interleave == 0 && blackwell_has_few_rows(problem->m, problem->k);
}

static int64_t cost_ps(const struct extended_plan *plan, int tile, int sms) {
    const struct problem *problem = plan->problem;
    const struct blackwell_config *config = config_of(plan->joint, tile);
    const int clusters = blackwell_clusters_at_once(config, sms);
    if (tile >= other_tiles(plan->joint)) {
        return blackwell_few_rows_cost_ps(config, !problem->extension->plain, problem->m, problem->n,
                                          problem->k, clusters);
    }
    const int64_t columns = plan->joint ? ceil_div(plan->b_rows, 2) : problem->n;
    return blackwell_tile_cost_ps(config, problem->m, columns, problem->k, 1, clusters);
}

/* The tile that the environment names, else the cheapest one that has a kernel, for few rows or for many. */
static int32_t select_tile(struct extended_plan *plan) {
    int sms = 0;
    RETURN_IF_FAILED(plan->joint ? gpu_wanted_tile(GROUPED_CONFIG_VARIABLE, joint_tile_name, &plan->tile)
                                 : gpu_wanted_tile(BLACKWELL_CONFIG_VARIABLE, apart_tile_name, &plan->tile));
    if (plan->tile >= 0 && kernel_of(plan, plan->tile) == NULL) {
        return set_message(
            CUSTOM_KERNEL_ERROR_UNSUPPORTED,
            "tile %s is not one of the extended GEMM's on the blackwell backend for such weights; "
            "expected another, or none, in %s",
            name_of(plan->joint, plan->tile),
            plan->joint ? GROUPED_CONFIG_VARIABLE : BLACKWELL_CONFIG_VARIABLE);
    }
    RETURN_IF_FAILED(gpu_count_sms(plan->problem->device, &sms));
    int64_t least_ps = INT64_MAX;
    for (int i = 0, any = plan->tile < 0; any && name_of(plan->joint, i) != NULL; i++) {
        if ((i >= other_tiles(plan->joint)) != takes_few_rows(plan) || kernel_of(plan, i) == NULL) {
            continue;
        }
        int64_t ps = cost_ps(plan, i, sms);
        if (ps < least_ps) {
            least_ps = ps;
            plan->tile = i;
        }
    }
    plan->config = config_of(plan->joint, plan->tile);
    plan->few_rows = plan->tile >= other_tiles(plan->joint);
    return CUSTOM_KERNEL_OK;
}

/* Rows of B in the tile of a CTA or pair, and rows of A. */
static int64_t tile_rows(const struct extended_plan *plan) {
    return plan->few_rows ? blackwell_few_rows_columns(plan->config, !plan->joint)
                          : (plan->joint ? 2 : 1) * (int64_t)plan->config->tile_n;
}

static int64_t tile_rows_of_a(const struct extended_plan *plan) {
    return plan->few_rows ? 2 * (int64_t)plan->config->tile_n : (int64_t)TILE_M * plan->config->ctas;
}

static int32_t check_limits(const struct extended_plan *plan) {
    const struct problem *problem = plan->problem;
    const int64_t most_rows = plan->few_rows ? MAX_DIMENSION : MAX_GRID_YZ * tile_rows(plan);
    /* Clusters that are numbered along x. */
    const int64_t tiles =
        plan->few_rows ? ceil_div(problem->m, tile_rows_of_a(plan)) * ceil_div(plan->b_rows, tile_rows(plan))
                       : 0;
    const struct limit limits[] = {
        {"m", problem->m, MAX_DIMENSION},
        {"the number of rows of b1", plan->b_rows, most_rows < MAX_DIMENSION ? most_rows : MAX_DIMENSION},
        {"k", problem->k, MAX_DIMENSION},
        {"the number of scale tiles of sfa, ceil(m / 128) * k / 64,",
         blackwell_scale_tiles(problem, problem->m), MAX_DIMENSION},
        {"the number of scale tiles of sfb1, ceil(rows / 128) * k / 64,",
         blackwell_scale_tiles(problem, plan->b_rows), MAX_DIMENSION},
        {"the number of tiles of c", tiles, MAX_DIMENSION / MAX_CLUSTER_CTAS},
    };
    return gpu_check_limits("blackwell", plan->config->name, limits, sizeof limits / sizeof *limits);
}

static int32_t make_plan(const struct problem *problem, struct extended_plan *plan) {
    const struct extension *extension = problem->extension;
    plan->problem = problem;
    plan->joint = extension->plain || extension->interleave != 0;
    plan->b_rows = extension->interleave != 0 ? 2 * problem->n : problem->n;
    RETURN_IF_FAILED(select_tile(plan));
    RETURN_IF_FAILED(check_limits(plan));
    plan->scales = gpu_plan_scales(problem, plan->b_rows, plan->joint ? 2 : 3);
    return CUSTOM_KERNEL_OK;
}

static int32_t encode_maps(const struct extended_plan *plan, struct blackwell_extended_params *params) {
    const struct problem *problem = plan->problem;
    const struct gpu_scales *scales = &plan->scales;
    const bool few = plan->few_rows;
    const int a_rows = few ? params->columns / plan->config->ctas : TILE_M;
    const int b_rows = few ? TILE_M : blackwell_b_box_rows(plan->config);
    const uint8_t *b2 = plan->joint ? problem->b1 : problem->b2;
    RETURN_IF_FAILED(
        blackwell_encode_fp4("a", problem, problem->a, problem->m, a_rows, few ? &params->b1 : &params->a));
    RETURN_IF_FAILED(
        blackwell_encode_fp4("b1", problem, problem->b1, plan->b_rows, b_rows, few ? &params->a : &params->b1));
    RETURN_IF_FAILED(blackwell_encode_fp4("b2", problem, b2, plan->b_rows, b_rows, &params->b2));
    RETURN_IF_FAILED(
        blackwell_encode_scales("sfa", problem, scales->sfa, problem->m, few ? &params->sfb1 : &params->sfa));
    RETURN_IF_FAILED(blackwell_encode_scales("sfb1", problem, scales->sfb1, plan->b_rows,
                                             few ? &params->sfa : &params->sfb1));
    return blackwell_encode_scales("sfb2", problem, scales->sfb2, plan->b_rows, &params->sfb2);
}

/* Clusters are numbered along x for few rows; else a tile's rows of A are x, its rows of B are y. */
static void set_grid(const struct extended_plan *plan, struct launch *launch) {
    const struct blackwell_config *config = plan->config;
    const int64_t a_tiles = ceil_div(plan->problem->m, tile_rows_of_a(plan)),
                  b_tiles = ceil_div(plan->b_rows, tile_rows(plan));
    launch->cluster = config->ctas * config->split_k;
    launch->grid[0] = a_tiles * launch->cluster * (plan->few_rows ? b_tiles : 1);
    launch->grid[1] = plan->few_rows ? 1 : b_tiles;
    launch->grid[2] = 1;
}

/* Every step that can fail because of the arguments comes before the first launch. */
static int32_t launch_all(struct extended_plan *plan, uint8_t *scratch) {
    const struct problem *problem = plan->problem;
    struct blackwell_extended_params params = {
        .epilogue = extended_params_of(problem),
        .steps_k = (int32_t)(problem->k / STEP_K),
        .scales_by_previous_kernel = plan->scales.permute,
        .interleave = problem->extension->interleave,
        .tiles_m = (int32_t)ceil_div(problem->m, tile_rows_of_a(plan)),
        .columns = (int32_t)blackwell_transposed_columns(plan->config, problem->m),
    };
    struct launch launch = {
        .kernel = kernel_of(plan, plan->tile),
        .threads = CTA_THREADS,
        .shared_bytes = plan->few_rows ? blackwell_few_rows_shared_bytes(plan->config, !plan->joint)
                                       : blackwell_shared_bytes(plan->config),
        .pdl_variable = BLACKWELL_PDL_VARIABLE,
    };
    set_grid(plan, &launch);
    gpu_place_scales(problem, scratch, &plan->scales);
    RETURN_IF_FAILED(encode_maps(plan, &params));
    RETURN_IF_FAILED(gpu_allow_shared_memory(problem->device, &launch));
    RETURN_IF_FAILED(
        gpu_permute_scales(problem, &plan->scales, blackwell_permute_scales_kernel(), BLACKWELL_PDL_VARIABLE));
    void *arguments[] = {&params};
    return gpu_launch(problem, &launch, arguments);
}

int32_t blackwell_run_extended(const struct problem *problem) {
    struct extended_plan plan = {0};
    uint8_t *scratch = NULL;
    /* HW: its block-scaled MMA takes fp4 on both sides. */
    RETURN_IF_FAILED(gpu_check_a_type("blackwell", problem->extension->a_type));
    RETURN_IF_FAILED(make_plan(problem, &plan));
    RETURN_IF_FAILED(gpu_acquire_scratch(problem, gpu_scales_bytes(&plan.scales), &scratch));
    int32_t status = launch_all(&plan, scratch);
    return gpu_release_scratch(problem, scratch, status);
}
