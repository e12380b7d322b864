/* The extended GEMM's host side.  A call: select a tile, check the limits, get scratch memory, encode the
 * tensor maps, permute scale factors where needed, multiply. */
#include "blackwell_extended_backend.h"

#include "../../gpu/gpu_host.h"
#include "../blackwell_kernels.h"
#include "../blackwell_operands.h"
#include "../blackwell_tile_selection.h"
#include "blackwell_extended_kernels.h"

#define CONFIG_VARIABLE         "NVFP4_BLACKWELL_CONFIG" /* of two tensors */
#define GROUPED_CONFIG_VARIABLE "NVFP4_GROUPED_CONFIG"   /* of one */
#define PDL_VARIABLE            "NVFP4_BLACKWELL_DEPENDENT_LAUNCH"

struct extended_plan {
    const struct problem *problem;
    const struct blackwell_config *config;
    int tile;
    bool joint;     /* one product of all rows of b1 */
    int64_t b_rows; /* of a tensor */
    bool permute_scales;
    int64_t sfa_bytes, sfb_bytes; /* in scratch memory: sfa; sfb1 or sfb2, permuted */
};

static const struct blackwell_config *config_of(const struct extended_plan *plan, int tile) {
    return plan->joint ? &blackwell_grouped_configs[tile] : &blackwell_configs[tile];
}

static const void *kernel_of(const struct extended_plan *plan, int tile) {
    return plan->joint ? blackwell_extended_joint_kernel(tile) : blackwell_extended_apart_kernel(tile);
}

/* The tile that the environment names, else the cheapest that splits no K. */
static int32_t select_tile(struct extended_plan *plan) {
    const struct problem *problem = plan->problem;
    const int64_t columns = plan->joint ? ceil_div(plan->b_rows, 2) : problem->n;
    const int tiles = plan->joint ? BLACKWELL_GROUPED_TILES : BLACKWELL_TILES;
    int sms = 0;
    RETURN_IF_FAILED(plan->joint
                         ? gpu_wanted_tile(GROUPED_CONFIG_VARIABLE, blackwell_grouped_tile_name, &plan->tile)
                         : gpu_wanted_tile(CONFIG_VARIABLE, blackwell_tile_name, &plan->tile));
    if (plan->tile >= 0 && kernel_of(plan, plan->tile) == NULL) {
        return set_message(
            CUSTOM_KERNEL_ERROR_UNSUPPORTED,
            "tile %s splits K, which the extended GEMM on the blackwell backend does not; expected "
            "another, or none, in " CONFIG_VARIABLE,
            blackwell_tile_name(plan->tile));
    }
    CHECK_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, problem->device));
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

/* Rows of B that a CTA's or pair's tile has. */
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
    plan->permute_scales = problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED;
    if (plan->permute_scales) {
        plan->sfa_bytes = blackwell_permuted_bytes(problem, problem->m);
        plan->sfb_bytes = blackwell_permuted_bytes(problem, plan->b_rows);
    }
    return CUSTOM_KERNEL_OK;
}

static int32_t encode_maps(const struct extended_plan *plan, const uint8_t *sfa, const uint8_t *sfb1,
                           const uint8_t *sfb2, struct blackwell_extended_params *params) {
    const struct problem *problem = plan->problem;
    const int b_rows = blackwell_b_box_rows(plan->config);
    const uint8_t *b2 = plan->joint ? problem->b1 : problem->b2;
    RETURN_IF_FAILED(blackwell_encode_fp4("a", problem, problem->a, problem->m, TILE_M, &params->a));
    RETURN_IF_FAILED(blackwell_encode_fp4("b1", problem, problem->b1, plan->b_rows, b_rows, &params->b1));
    RETURN_IF_FAILED(blackwell_encode_fp4("b2", problem, b2, plan->b_rows, b_rows, &params->b2));
    RETURN_IF_FAILED(blackwell_encode_scales("sfa", problem, sfa, problem->m, &params->sfa));
    RETURN_IF_FAILED(blackwell_encode_scales("sfb1", problem, sfb1, plan->b_rows, &params->sfb1));
    return blackwell_encode_scales("sfb2", problem, plan->joint ? sfb1 : sfb2, plan->b_rows, &params->sfb2);
}

static int32_t launch_permute_scales(const struct extended_plan *plan, uint8_t *sfa, uint8_t *sfb1,
                                     uint8_t *sfb2) {
    const struct problem *problem = plan->problem;
    struct permute_scales_params params = {
        .tensors = {{problem->sfa, sfa, problem->m},
                    {problem->sfb1, sfb1, plan->b_rows},
                    {problem->sfb2, sfb2, plan->b_rows}},
        .tiles_k = problem->k / SCALE_TILE_K,
        .count = plan->joint ? 2 : 3,
    };
    return gpu_launch_permute_scales(problem, blackwell_permute_scales_kernel(), params, PDL_VARIABLE);
}

/* All that can fail for the problem's sake comes before the first launch. */
static int32_t launch_all(const struct extended_plan *plan, uint8_t *scratch) {
    static atomic_bool allowed[MAX_DEVICES][2][BLACKWELL_TILES + BLACKWELL_GROUPED_TILES];
    const struct problem *problem = plan->problem;
    const struct blackwell_config *config = plan->config;
    uint8_t *sfa = scratch, *sfb1 = sfa + plan->sfa_bytes, *sfb2 = sfb1 + plan->sfb_bytes;
    const bool permuted = plan->permute_scales;
    struct blackwell_extended_params params = {
        .epilogue = extended_params_of(problem),
        .steps_k = (int32_t)(problem->k / STEP_K),
        .scales_by_previous_kernel = permuted,
        .interleave = problem->extension->interleave,
    };
    struct launch launch = {
        .kernel = kernel_of(plan, plan->tile),
        .grid = {round_up(ceil_div(problem->m, TILE_M), config->ctas), ceil_div(plan->b_rows, tile_rows(plan)),
                 1},
        .threads = CTA_THREADS,
        .cluster = config->ctas,
        .shared_bytes = blackwell_shared_bytes(config),
        .pdl_variable = PDL_VARIABLE,
    };
    RETURN_IF_FAILED(encode_maps(plan, permuted ? sfa : problem->sfa, permuted ? sfb1 : problem->sfb1,
                                 permuted ? sfb2 : problem->sfb2, &params));
    RETURN_IF_FAILED(gpu_allow_shared_memory(&allowed[problem->device][plan->joint][plan->tile], &launch));
    if (permuted) {
        RETURN_IF_FAILED(launch_permute_scales(plan, sfa, sfb1, sfb2));
    }
    void *arguments[] = {&params};
    return gpu_launch(problem, &launch, arguments);
}

int32_t blackwell_run_extended(const struct problem *problem) {
    struct extended_plan plan = {0};
    uint8_t *scratch = NULL;
    RETURN_IF_FAILED(make_plan(problem, &plan));
    RETURN_IF_FAILED(gpu_acquire_scratch(problem, plan.sfa_bytes + 2 * plan.sfb_bytes, &scratch));
    int32_t status = launch_all(&plan, scratch);
    return gpu_release_scratch(problem, scratch, status);
}
