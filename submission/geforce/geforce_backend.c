/* The GeForce backend's host side.  A call: select a tile, check the limits, plan the launches, get scratch
 * memory, encode the tensor maps, launch.
 *
 * Kept between calls, beside what gpu/gpu_host.h keeps: which kernels were given their shared memory. */
#include <stdbool.h>

#ifndef NVFP4_WITHOUT_GROUPED
#include "grouped/geforce_grouped_backend.h"
#endif
#include "geforce_kernels.h"
#include "geforce_operands.h"
#include "geforce_tile_selection.h"

#define CONFIG_VARIABLE "NVFP4_GEFORCE_CONFIG"
#define PDL_VARIABLE    "NVFP4_GEFORCE_DEPENDENT_LAUNCH"

/* What a call launches. */
struct launch_plan {
    int tile; /* index of the configuration */
    const struct geforce_config *config;
    int sms;
    bool permute_scales;          /* sfa, sfb1 and sfb2, into the blocked layout */
    int64_t sfa_bytes, sfb_bytes; /* in scratch memory: sfa; sfb1 or sfb2, permuted */
};

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
    CHECK_CUDA(cudaDeviceGetAttribute(&plan->sms, cudaDevAttrMultiProcessorCount, problem->device));
    RETURN_IF_FAILED(gpu_wanted_tile(CONFIG_VARIABLE, geforce_tile_name, &plan->tile));
    if (plan->tile < 0) {
        plan->tile = geforce_select_tile(problem->m, problem->n, problem->k, problem->l, plan->sms);
    }
    plan->config = &geforce_configs[plan->tile];
    RETURN_IF_FAILED(check_limits(problem, plan->config));
    plan->permute_scales = problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED;
    if (plan->permute_scales) {
        plan->sfa_bytes = geforce_permuted_bytes(problem, problem->m);
        plan->sfb_bytes = geforce_permuted_bytes(problem, problem->n);
    }
    return CUSTOM_KERNEL_OK;
}

static int64_t scratch_bytes(const struct launch_plan *plan) {
    return plan->sfa_bytes + 2 * plan->sfb_bytes;
}

/* The tensor maps travel in the kernel's parameters. */
static int32_t make_params(const struct problem *problem, const struct launch_plan *plan, uint8_t *scratch,
                           struct geforce_dual_gemm_params *params) {
    const struct geforce_config *config = plan->config;
    const bool permuted = plan->permute_scales;
    params->sfa = permuted ? scratch : problem->sfa;
    params->sfb1 = permuted ? scratch + plan->sfa_bytes : problem->sfb1;
    params->sfb2 = permuted ? scratch + plan->sfa_bytes + plan->sfb_bytes : problem->sfb2;
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

static int32_t launch_permute_scales(const struct problem *problem, const struct launch_plan *plan,
                                     uint8_t *scratch) {
    uint8_t *sfb1 = scratch + plan->sfa_bytes, *sfb2 = sfb1 + plan->sfb_bytes;
    struct permute_scales_params params = {
        .tensors = {{problem->sfa, scratch, problem->m},
                    {problem->sfb1, sfb1, problem->n},
                    {problem->sfb2, sfb2, problem->n}},
        .tiles_k = problem->k / SCALE_TILE_K,
        .count = 3,
    };
    return gpu_launch_permute_scales(problem, geforce_permute_scales_kernel(), params, PDL_VARIABLE);
}

/* All that can fail for the problem's sake comes before the first launch. */
static int32_t launch_all(const struct problem *problem, const struct launch_plan *plan, uint8_t *scratch) {
    static atomic_bool allowed[MAX_DEVICES][GEFORCE_TILES];
    struct geforce_dual_gemm_params params;
    RETURN_IF_FAILED(make_params(problem, plan, scratch, &params));
    struct launch launch = {
        .kernel = geforce_dual_gemm_kernel(plan->tile),
        .grid = {params.tiles < plan->sms ? params.tiles : plan->sms, 1, 1},
        .threads = geforce_cta_threads(plan->config),
        .cluster = 1,
        .shared_bytes = geforce_shared_bytes(plan->config),
        .pdl_variable = PDL_VARIABLE,
    };
    RETURN_IF_FAILED(gpu_allow_shared_memory(&allowed[problem->device][plan->tile], &launch));
    if (plan->permute_scales) {
        RETURN_IF_FAILED(launch_permute_scales(problem, plan, scratch));
    }
    void *arguments[] = {&params};
    return gpu_launch(problem, &launch, arguments);
}

static int32_t run(const struct problem *problem) {
    struct launch_plan plan = {0};
    uint8_t *scratch = NULL;
    RETURN_IF_FAILED(make_plan(problem, &plan));
    RETURN_IF_FAILED(gpu_acquire_scratch(problem, scratch_bytes(&plan), &scratch));
    int32_t status = launch_all(problem, &plan, scratch);
    return gpu_release_scratch(problem, scratch, status);
}

/* HW: sm_120a code runs on compute capability 12.0 only, sm_121a code on 12.1 only (CUDA programming guide). */
static int available(int32_t device, char *detail, size_t detail_bytes) {
    static const int capabilities[] = {
        CAPABILITY_RTX50,
#ifdef NVFP4_HAVE_SM_121
        CAPABILITY_GB10,
#endif
    };
    return gpu_available(device, capabilities, sizeof capabilities / sizeof *capabilities, detail,
                         detail_bytes);
}

const struct backend geforce_backend = {
    .id = CUSTOM_KERNEL_BACKEND_GEFORCE,
    .name = "geforce",
    .available = available,
    .run = run,
    .acquire_device = gpu_acquire_device,
    .release_device = gpu_release_device,
#ifndef NVFP4_WITHOUT_GROUPED
    .run_grouped = geforce_run_grouped,
#endif
};
