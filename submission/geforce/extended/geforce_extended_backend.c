/* The host side of the extended GEMM.  A call: select a tile, check the limits, get scratch memory, encode the
 * tensor maps, permute scale factors if they are not in the blocked layout, multiply. */
#include "../geforce_run.h"

#include "../../gpu/gpu_backend.h"
#include "../../gpu/gpu_grouped.h"
#include "../../gpu/gpu_scales.h"
#include "../geforce_kernels.h"
#include "../geforce_operands.h"
#include "../geforce_tile_selection.h"
#include "geforce_extended_kernels.h"

struct extended_plan {
    const struct problem *problem;
    const struct geforce_config *config;
    int tile, sms;
    bool joint;     /* one product of all rows of b1 */
    int64_t b_rows; /* rows of b1, and of b2 if there is one */
    struct gpu_scales scales;
};

static const struct geforce_config *config_of(const struct extended_plan *plan, int tile) {
    return plan->joint ? &geforce_grouped_configs[tile] : &geforce_configs[tile];
}

static const void *kernel_of(const struct extended_plan *plan, int tile) {
    return plan->joint ? geforce_extended_joint_kernel(tile) : geforce_extended_apart_kernel(tile);
}

/* True if the tile has a kernel for the problem: gate and up of an output have to be in one lane
 * (geforce_extended_gemm.cuh). */
static bool fits(const struct extended_plan *plan, int tile) {
    const struct geforce_config *config = config_of(plan, tile);
    const int interleave = plan->problem->extension->interleave;
    const bool blocks = config->tile_n / config->warps_n % (2 * NVFP4_GROUP_ELEMS) == 0;
    return kernel_of(plan, tile) != NULL &&
           (interleave == 0 || interleave == config->tile_n || (interleave == MMA_N && blocks));
}

/* The tile that the environment names, else the one of least predicted time among those that fit. */
static int32_t select_tile(struct extended_plan *plan) {
    const struct problem *problem = plan->problem;
    const int64_t columns = plan->joint ? ceil_div(plan->b_rows, 2) : problem->n;
    const int tiles = plan->joint ? GEFORCE_GROUPED_TILES : GEFORCE_TILES;
    const char *variable = plan->joint ? GROUPED_CONFIG_VARIABLE : GEFORCE_CONFIG_VARIABLE;
    int64_t least = INT64_MAX;
    RETURN_IF_FAILED(
        gpu_wanted_tile(variable, plan->joint ? geforce_grouped_tile_name : geforce_tile_name, &plan->tile));
    if (plan->tile >= 0 && !fits(plan, plan->tile)) {
        return set_message(
            CUSTOM_KERNEL_ERROR_UNSUPPORTED,
            "tile %s has no extended GEMM for these weights on the geforce backend; expected another, "
            "or none, in %s",
            config_of(plan, plan->tile)->name, variable);
    }
    for (int i = 0, any = plan->tile < 0; any && i < tiles; i++) {
        const int64_t cost =
            geforce_tile_cost(config_of(plan, i), problem->m, columns, problem->k, 1, plan->sms);
        if (fits(plan, i) && cost < least) {
            least = cost;
            plan->tile = i;
        }
    }
    plan->config = config_of(plan, plan->tile);
    return CUSTOM_KERNEL_OK;
}

/* Rows of B in a tile. */
static int64_t tile_rows(const struct extended_plan *plan) {
    return (plan->joint ? 2 : 1) * (int64_t)plan->config->tile_n;
}

static int64_t tiles_of(const struct extended_plan *plan) {
    return ceil_div(plan->problem->m, plan->config->tile_m) * ceil_div(plan->b_rows, tile_rows(plan));
}

static int32_t check_limits(const struct extended_plan *plan) {
    const struct problem *problem = plan->problem;
    const struct limit limits[] = {
        {"m", problem->m, MAX_DIMENSION},
        {"the number of rows of b1", plan->b_rows, MAX_DIMENSION},
        {"k", problem->k, MAX_DIMENSION},
        {"the number of tiles of c", tiles_of(plan), MAX_DIMENSION},
    };
    return gpu_check_limits("geforce", plan->config->name, limits, sizeof limits / sizeof *limits);
}

static int32_t make_plan(const struct problem *problem, struct extended_plan *plan) {
    const struct extension *extension = problem->extension;
    plan->problem = problem;
    plan->joint = extension->plain || extension->interleave != 0;
    plan->b_rows = extension->interleave != 0 ? 2 * problem->n : problem->n;
    RETURN_IF_FAILED(gpu_count_sms(problem->device, &plan->sms));
    RETURN_IF_FAILED(select_tile(plan));
    RETURN_IF_FAILED(check_limits(plan));
    plan->scales = gpu_plan_scales(problem, plan->b_rows, plan->joint ? 2 : 3);
    return CUSTOM_KERNEL_OK;
}

/* The tensor maps travel in the kernel's parameters. */
static int32_t make_params(const struct extended_plan *plan, struct geforce_extended_params *params) {
    const struct problem *problem = plan->problem;
    const struct geforce_config *config = plan->config;
    const uint8_t *b2 = plan->joint ? problem->b1 : problem->b2;
    *params = (struct geforce_extended_params){
        .sfa = plan->scales.sfa,
        .sfb1 = plan->scales.sfb1,
        .sfb2 = plan->scales.sfb2,
        .m = (int32_t)problem->m,
        .n = (int32_t)plan->b_rows,
        .steps_k = (int32_t)(problem->k / STEP_K),
        .tiles_m = (int32_t)ceil_div(problem->m, config->tile_m),
        .tiles_n = (int32_t)ceil_div(plan->b_rows, tile_rows(plan)),
        .tiles = (int32_t)tiles_of(plan),
        .interleave = problem->extension->interleave,
        .epilogue = extended_params_of(problem),
    };
    RETURN_IF_FAILED(geforce_encode_fp4("a", problem, problem->a, problem->m, config->tile_m, &params->a));
    RETURN_IF_FAILED(geforce_encode_fp4("b1", problem, problem->b1, plan->b_rows, config->tile_n, &params->b1));
    return geforce_encode_fp4("b2", problem, b2, plan->b_rows, config->tile_n, &params->b2);
}

/* Every step that can fail because of the arguments comes before the first launch. */
static int32_t launch_all(struct extended_plan *plan, uint8_t *scratch) {
    const struct problem *problem = plan->problem;
    struct geforce_extended_params params;
    gpu_place_scales(problem, scratch, &plan->scales);
    RETURN_IF_FAILED(make_params(plan, &params));
    struct launch launch = {
        .kernel = kernel_of(plan, plan->tile),
        .grid = {params.tiles < plan->sms ? params.tiles : plan->sms, 1, 1},
        .threads = geforce_cta_threads(plan->config),
        .cluster = 1,
        .shared_bytes = geforce_shared_bytes(plan->config),
        .pdl_variable = GEFORCE_PDL_VARIABLE,
    };
    RETURN_IF_FAILED(gpu_allow_shared_memory(problem->device, &launch));
    RETURN_IF_FAILED(
        gpu_permute_scales(problem, &plan->scales, geforce_permute_scales_kernel(), GEFORCE_PDL_VARIABLE));
    void *arguments[] = {&params};
    return gpu_launch(problem, &launch, arguments);
}

int32_t geforce_run_extended(const struct problem *problem) {
    struct extended_plan plan = {0};
    uint8_t *scratch = NULL;
    /* HW: its MMA with block scales takes fp4 on both sides. */
    RETURN_IF_FAILED(gpu_check_a_type("geforce", problem->extension->a_type));
    RETURN_IF_FAILED(make_plan(problem, &plan));
    RETURN_IF_FAILED(gpu_acquire_scratch(problem, gpu_scales_bytes(&plan.scales), &scratch));
    int32_t status = launch_all(&plan, scratch);
    return gpu_release_scratch(problem, scratch, status);
}
