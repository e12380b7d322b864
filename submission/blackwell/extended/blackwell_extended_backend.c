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
    int tile;
    bool joint;     /* one product of all rows of b1 */
    int64_t b_rows; /* rows of b1, and of b2 if there is one */
    struct gpu_scales scales;
};

static const struct blackwell_config *config_of(const struct extended_plan *plan, int tile) {
    return plan->joint ? &blackwell_grouped_configs[tile] : &blackwell_configs[tile];
}

static const void *kernel_of(const struct extended_plan *plan, int tile) {
    return plan->joint ? blackwell_extended_joint_kernel(tile) : blackwell_extended_apart_kernel(tile);
}

/* The tile that the environment names, else the cheapest one that has a kernel.  No tile's K is shared, which
 * few rows of A would gain from (simulated, shark_tank/data/README.md, shared K). */
static int32_t select_tile(struct extended_plan *plan) {
    const struct problem *problem = plan->problem;
    const int64_t columns = plan->joint ? ceil_div(plan->b_rows, 2) : problem->n;
    const int tiles = plan->joint ? BLACKWELL_GROUPED_TILES : BLACKWELL_TILES;
    int sms = 0;
    RETURN_IF_FAILED(plan->joint
                         ? gpu_wanted_tile(GROUPED_CONFIG_VARIABLE, blackwell_grouped_tile_name, &plan->tile)
                         : gpu_wanted_tile(BLACKWELL_CONFIG_VARIABLE, blackwell_tile_name, &plan->tile));
    if (plan->tile >= 0 && kernel_of(plan, plan->tile) == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED,
                           "tile %s is not one of the extended GEMM's on the blackwell backend, which neither "
                           "split K nor store "
                           "scale factors; expected another, or none, in " BLACKWELL_CONFIG_VARIABLE,
                           blackwell_tile_name(plan->tile));
    }
    RETURN_IF_FAILED(gpu_count_sms(problem->device, &sms));
    int64_t least_ps = INT64_MAX;
    for (int i = 0, any = plan->tile < 0; any && i < tiles; i++) {
        const struct blackwell_config *config = config_of(plan, i);
        int64_t ps = blackwell_tile_cost_ps(config, problem->m, columns, problem->k, 1,
                                            blackwell_clusters_at_once(config, sms));
        if (kernel_of(plan, i) != NULL && ps < least_ps) {
            least_ps = ps;
            plan->tile = i;
        }
    }
    plan->config = config_of(plan, plan->tile);
    return CUSTOM_KERNEL_OK;
}

/* Rows of B in the tile of a CTA or pair. */
static int64_t tile_rows(const struct extended_plan *plan) {
    return (plan->joint ? 2 : 1) * (int64_t)plan->config->tile_n;
}

static int32_t check_limits(const struct extended_plan *plan) {
    const struct problem *problem = plan->problem;
    const int64_t most_rows = MAX_GRID_YZ * tile_rows(plan);
    const struct limit limits[] = {
        {"m", problem->m, MAX_DIMENSION},
        {"the number of rows of b1", plan->b_rows, most_rows < MAX_DIMENSION ? most_rows : MAX_DIMENSION},
        {"k", problem->k, MAX_DIMENSION},
        {"the number of scale tiles of sfa, ceil(m / 128) * k / 64,",
         blackwell_scale_tiles(problem, problem->m), MAX_DIMENSION},
        {"the number of scale tiles of sfb1, ceil(rows / 128) * k / 64,",
         blackwell_scale_tiles(problem, plan->b_rows), MAX_DIMENSION},
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
    const int b_rows = blackwell_b_box_rows(plan->config);
    const uint8_t *b2 = plan->joint ? problem->b1 : problem->b2;
    RETURN_IF_FAILED(blackwell_encode_fp4("a", problem, problem->a, problem->m, TILE_M, &params->a));
    RETURN_IF_FAILED(blackwell_encode_fp4("b1", problem, problem->b1, plan->b_rows, b_rows, &params->b1));
    RETURN_IF_FAILED(blackwell_encode_fp4("b2", problem, b2, plan->b_rows, b_rows, &params->b2));
    RETURN_IF_FAILED(blackwell_encode_scales("sfa", problem, scales->sfa, problem->m, &params->sfa));
    RETURN_IF_FAILED(blackwell_encode_scales("sfb1", problem, scales->sfb1, plan->b_rows, &params->sfb1));
    return blackwell_encode_scales("sfb2", problem, scales->sfb2, plan->b_rows, &params->sfb2);
}

/* Every step that can fail because of the arguments comes before the first launch. */
static int32_t launch_all(struct extended_plan *plan, uint8_t *scratch) {
    const struct problem *problem = plan->problem;
    const struct blackwell_config *config = plan->config;
    struct blackwell_extended_params params = {
        .epilogue = extended_params_of(problem),
        .steps_k = (int32_t)(problem->k / STEP_K),
        .scales_by_previous_kernel = plan->scales.permute,
        .interleave = problem->extension->interleave,
    };
    struct launch launch = {
        .kernel = kernel_of(plan, plan->tile),
        .grid = {round_up(ceil_div(problem->m, TILE_M), config->ctas), ceil_div(plan->b_rows, tile_rows(plan)),
                 1},
        .threads = CTA_THREADS,
        .cluster = config->ctas,
        .shared_bytes = blackwell_shared_bytes(config),
        .pdl_variable = BLACKWELL_PDL_VARIABLE,
    };
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
