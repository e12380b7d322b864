/* The host side of the GeForce dual GEMM.  A call: select a tile, check the limits, get scratch memory, encode
 * the tensor maps, permute scale factors if they are not in the blocked layout, multiply. */
#include "../gpu/gpu_backend.h"
#include "../gpu/gpu_scales.h"
#include "geforce_kernels.h"
#include "geforce_operands.h"
#include "geforce_run.h"
#include "geforce_tile_selection.h"

struct launch_plan {
    int tile; /* index of the configuration */
    const struct geforce_config *config;
    int sms;
    struct gpu_scales scales;
};

/* The tile that the environment names, else the one of least predicted time. */
static int32_t select_tile(const struct problem *problem, int sms, int *tile) {
    RETURN_IF_FAILED(gpu_wanted_tile(GEFORCE_CONFIG_VARIABLE, geforce_tile_name, tile));
    if (*tile < 0) {
        *tile = geforce_select_tile(problem->m, problem->n, problem->k, problem->l, sms);
    }
    return CUSTOM_KERNEL_OK;
}

static int32_t check_limits(const struct problem *problem, const struct geforce_config *config) {
    const struct limit limits[] = {
        {"m", problem->m, MAX_DIMENSION},
        {"n", problem->n, MAX_DIMENSION},
        {"k", problem->k, MAX_DIMENSION},
        {"l", problem->l, MAX_DIMENSION},
        {"the number of tiles of c", geforce_tiles(config, problem->m, problem->n, problem->l), MAX_DIMENSION},
    };
    return gpu_check_limits("geforce", config->name, limits, sizeof limits / sizeof *limits);
}

static int32_t make_plan(const struct problem *problem, struct launch_plan *plan) {
    RETURN_IF_FAILED(gpu_count_sms(problem->device, &plan->sms));
    RETURN_IF_FAILED(select_tile(problem, plan->sms, &plan->tile));
    plan->config = &geforce_configs[plan->tile];
    RETURN_IF_FAILED(check_limits(problem, plan->config));
    plan->scales = gpu_plan_scales(problem, problem->n, 3);
    return CUSTOM_KERNEL_OK;
}

/* The tensor maps travel in the kernel's parameters. */
static int32_t make_params(const struct problem *problem, const struct launch_plan *plan,
                           struct geforce_dual_gemm_params *params) {
    const struct geforce_config *config = plan->config;
    params->sfa = plan->scales.sfa;
    params->sfb1 = plan->scales.sfb1;
    params->sfb2 = plan->scales.sfb2;
    params->c = problem->c;
    params->m = (int32_t)problem->m;
    params->n = (int32_t)problem->n;
    params->steps_k = (int32_t)(problem->k / STEP_K);
    params->tiles_m = (int32_t)ceil_div(problem->m, config->tile_m);
    params->tiles_n = (int32_t)ceil_div(problem->n, config->tile_n);
    params->tiles = (int32_t)geforce_tiles(config, problem->m, problem->n, problem->l);
    RETURN_IF_FAILED(geforce_encode_fp4("a", problem, problem->a, problem->m, config->tile_m, &params->a));
    RETURN_IF_FAILED(geforce_encode_fp4("b1", problem, problem->b1, problem->n, config->tile_n, &params->b1));
    return geforce_encode_fp4("b2", problem, problem->b2, problem->n, config->tile_n, &params->b2);
}

/* Every step that can fail because of the arguments comes before the first launch. */
static int32_t launch_all(const struct problem *problem, struct launch_plan *plan, uint8_t *scratch) {
    struct geforce_dual_gemm_params params;
    gpu_place_scales(problem, scratch, &plan->scales);
    RETURN_IF_FAILED(make_params(problem, plan, &params));
    struct launch launch = {
        .kernel = geforce_dual_gemm_kernel(plan->tile),
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

static int32_t run(const struct problem *problem) {
    struct launch_plan plan = {0};
    uint8_t *scratch = NULL;
    RETURN_IF_FAILED(make_plan(problem, &plan));
    RETURN_IF_FAILED(gpu_acquire_scratch(problem, gpu_scales_bytes(&plan.scales), &scratch));
    int32_t status = launch_all(problem, &plan, scratch);
    return gpu_release_scratch(problem, scratch, status);
}

/* HW: sm_120a code runs on compute capability 12.0 only, sm_121a code on 12.1 only (CUDA programming guide). */
#ifdef NVFP4_HAVE_SM_121
#define CAPABILITIES CAPABILITY_RTX50, CAPABILITY_GB10
#else
#define CAPABILITIES CAPABILITY_RTX50
#endif

GPU_BACKEND(geforce_backend, CUSTOM_KERNEL_BACKEND_GEFORCE, "geforce", run,
            GPU_GROUPED(geforce_run_grouped, geforce_check_grouped), GPU_EXTENDED(geforce_run_extended),
            GPU_QUANTIZE(geforce_run_quantize, geforce_pad),
            GPU_EXPERTS(geforce_run_experts, geforce_run_route, geforce_run_combine), true, CAPABILITIES);
