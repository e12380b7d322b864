/* The Blackwell backend's host side.  A call: select a tile, check the limits, plan the launches, get scratch
 * memory, encode the tensor maps, launch.
 *
 * Kept between calls, beside what gpu/gpu_host.h keeps: which kernels were given their shared memory, and how
 * many of their clusters run at once. */
#include <stdbool.h>

#include "../gpu/gpu_host.h"
#include "blackwell_kernels.h"
#include "blackwell_operands.h"
#include "blackwell_tile_selection.h"
#include "grouped/blackwell_grouped_backend.h"
#ifndef NVFP4_WITHOUT_EXTENDED /* a bundle has no use for it */
#include "extended/blackwell_extended_backend.h"
#endif

#define CONFIG_VARIABLE "NVFP4_BLACKWELL_CONFIG"
#define PDL_VARIABLE    "NVFP4_BLACKWELL_DEPENDENT_LAUNCH"

/* What a call launches. */
struct launch_plan {
    int tile; /* index of the configuration */
    const struct blackwell_config *config;
    bool permute_scales;          /* sfa, sfb1 and sfb2, into the blocked layout */
    int64_t sfa_bytes, sfb_bytes; /* in scratch memory: sfa; sfb1 or sfb2, permuted */
};

/* Where the GEMM finds its scale factors. */
struct operands {
    const uint8_t *sfa, *sfb1, *sfb2;
    uint8_t *permuted_sfa, *permuted_sfb1,
        *permuted_sfb2; /* in scratch memory; NULL where the caller's are taken */
};

/* A configuration's launch, but for its grid; its kernel is given its shared memory. */
static int32_t make_dual_gemm_launch(int32_t device, int tile, struct launch *launch) {
    static atomic_bool allowed[MAX_DEVICES][BLACKWELL_TILES];
    const struct blackwell_config *config = &blackwell_configs[tile];
    *launch = (struct launch){
        .kernel = blackwell_dual_gemm_kernel(tile),
        .grid = {(int64_t)config->ctas * config->split_k, 1, 1},
        .threads = CTA_THREADS,
        .cluster = (int64_t)config->ctas * config->split_k,
        .shared_bytes = blackwell_shared_bytes(config),
        .pdl_variable = PDL_VARIABLE,
    };
    return gpu_allow_shared_memory(&allowed[device][tile], launch);
}

/* Clusters of each configuration that run at once: only the driver knows how a chip's SMs lie.  Asked once on
 * each device; where it does not say, they are taken to lie as on a B200. */
static int32_t find_clusters_at_once(int32_t device, int *clusters) {
    static atomic_int known[MAX_DEVICES][BLACKWELL_TILES]; /* and one: 0 is unknown */
    int sms = 0;
    for (int i = 0; i < BLACKWELL_TILES; i++) {
        clusters[i] = atomic_load(&known[device][i]) - 1;
        if (clusters[i] >= 0) {
            continue;
        }
        struct launch launch;
        RETURN_IF_FAILED(make_dual_gemm_launch(device, i, &launch));
        clusters[i] = gpu_clusters_at_once(&launch);
        if (clusters[i] < 0) {
            CHECK_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
            clusters[i] = blackwell_clusters_at_once(&blackwell_configs[i], sms);
        }
        atomic_store(&known[device][i], clusters[i] + 1);
    }
    return CUSTOM_KERNEL_OK;
}

static int32_t select_tile(const struct problem *problem, int *tile) {
    RETURN_IF_FAILED(gpu_wanted_tile(CONFIG_VARIABLE, blackwell_tile_name, tile));
    if (*tile >= 0) {
        return CUSTOM_KERNEL_OK;
    }
    int clusters[BLACKWELL_TILES];
    RETURN_IF_FAILED(find_clusters_at_once(problem->device, clusters));
    *tile = blackwell_select_tile(problem->m, problem->n, problem->k, problem->l, clusters);
    return CUSTOM_KERNEL_OK;
}

static int32_t check_limits(const struct problem *problem, const struct blackwell_config *config) {
    int64_t most_n = (int64_t)MAX_GRID_YZ * config->tile_n;
    const struct limit limits[] = {
        {"m", problem->m, MAX_DIMENSION},
        {"n", problem->n, most_n < MAX_DIMENSION ? most_n : MAX_DIMENSION},
        {"k", problem->k, MAX_DIMENSION},
        {"l", problem->l, MAX_GRID_YZ},
        {"the number of scale tiles of sfa, ceil(m / 128) * k / 64,",
         blackwell_scale_tiles(problem, problem->m), MAX_DIMENSION},
        {"the number of scale tiles of sfb1, ceil(n / 128) * k / 64,",
         blackwell_scale_tiles(problem, problem->n), MAX_DIMENSION},
    };
    RETURN_IF_FAILED(gpu_check_limits("blackwell", config->name, limits, sizeof limits / sizeof *limits));
    if (ceil_div(problem->k, STAGE_K) < config->split_k) {
        return set_message(
            CUSTOM_KERNEL_ERROR_UNSUPPORTED,
            "k is %lld; expected at least %d on the blackwell backend with tile %s, which splits K "
            "among %d",
            (long long)problem->k, (config->split_k - 1) * STAGE_K + STEP_K, config->name, config->split_k);
    }
    return CUSTOM_KERNEL_OK;
}

static int32_t make_plan(const struct problem *problem, struct launch_plan *plan) {
    RETURN_IF_FAILED(select_tile(problem, &plan->tile));
    plan->config = &blackwell_configs[plan->tile];
    RETURN_IF_FAILED(check_limits(problem, plan->config));
    plan->permute_scales = problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED;
    if (plan->permute_scales) {
        plan->sfa_bytes = blackwell_permuted_bytes(problem, problem->m);
        plan->sfb_bytes = blackwell_permuted_bytes(problem, problem->n);
    }
    return CUSTOM_KERNEL_OK;
}

static int64_t scratch_bytes(const struct launch_plan *plan) {
    return plan->sfa_bytes + 2 * plan->sfb_bytes;
}

static struct operands place_operands(const struct problem *problem, const struct launch_plan *plan,
                                      uint8_t *scratch) {
    struct operands operands = {.sfa = problem->sfa, .sfb1 = problem->sfb1, .sfb2 = problem->sfb2};
    if (plan->permute_scales) {
        operands.sfa = operands.permuted_sfa = scratch;
        operands.sfb1 = operands.permuted_sfb1 = operands.permuted_sfa + plan->sfa_bytes;
        operands.sfb2 = operands.permuted_sfb2 = operands.permuted_sfb1 + plan->sfb_bytes;
    }
    return operands;
}

/* The tensor maps travel in the kernel's parameters. */
static int32_t encode_maps(const struct problem *problem, const struct launch_plan *plan,
                           const struct operands *operands, struct blackwell_dual_gemm_params *params) {
    int b_rows = blackwell_b_box_rows(plan->config);
    RETURN_IF_FAILED(blackwell_encode_fp4("a", problem, problem->a, problem->m, TILE_M, &params->a));
    RETURN_IF_FAILED(blackwell_encode_fp4("b1", problem, problem->b1, problem->n, b_rows, &params->b1));
    RETURN_IF_FAILED(blackwell_encode_fp4("b2", problem, problem->b2, problem->n, b_rows, &params->b2));
    RETURN_IF_FAILED(blackwell_encode_scales("sfa", problem, operands->sfa, problem->m, &params->sfa));
    RETURN_IF_FAILED(blackwell_encode_scales("sfb1", problem, operands->sfb1, problem->n, &params->sfb1));
    return blackwell_encode_scales("sfb2", problem, operands->sfb2, problem->n, &params->sfb2);
}

static int32_t launch_permute_scales(const struct problem *problem, const struct operands *operands) {
    struct permute_scales_params params = {
        .tensors = {{problem->sfa, operands->permuted_sfa, problem->m},
                    {problem->sfb1, operands->permuted_sfb1, problem->n},
                    {problem->sfb2, operands->permuted_sfb2, problem->n}},
        .tiles_k = problem->k / SCALE_TILE_K,
        .count = 3,
    };
    return gpu_launch_permute_scales(problem, blackwell_permute_scales_kernel(), params, PDL_VARIABLE);
}

static int32_t launch_dual_gemm(const struct problem *problem, const struct launch_plan *plan,
                                struct blackwell_dual_gemm_params *params, struct launch *launch) {
    const struct blackwell_config *config = plan->config;
    params->c = problem->c;
    params->m = (int32_t)problem->m;
    params->n = (int32_t)problem->n;
    params->steps_k = (int32_t)(problem->k / STEP_K);
    params->scales_by_previous_kernel = plan->permute_scales;
    launch->grid[0] = round_up(ceil_div(problem->m, TILE_M), config->ctas) * config->split_k;
    launch->grid[1] = ceil_div(problem->n, config->tile_n);
    launch->grid[2] = problem->l;
    void *arguments[] = {params};
    return gpu_launch(problem, launch, arguments);
}

/* All that can fail for the problem's sake comes before the first launch. */
static int32_t launch_all(const struct problem *problem, const struct launch_plan *plan, uint8_t *scratch) {
    struct operands operands = place_operands(problem, plan, scratch);
    struct blackwell_dual_gemm_params params;
    struct launch dual_gemm;
    RETURN_IF_FAILED(encode_maps(problem, plan, &operands, &params));
    RETURN_IF_FAILED(make_dual_gemm_launch(problem->device, plan->tile, &dual_gemm));
    if (plan->permute_scales) {
        RETURN_IF_FAILED(launch_permute_scales(problem, &operands));
    }
    return launch_dual_gemm(problem, plan, &params, &dual_gemm);
}

static int32_t run(const struct problem *problem) {
    struct launch_plan plan = {0};
    uint8_t *scratch = NULL;
    RETURN_IF_FAILED(make_plan(problem, &plan));
    RETURN_IF_FAILED(gpu_acquire_scratch(problem, scratch_bytes(&plan), &scratch));
    int32_t status = launch_all(problem, &plan, scratch);
    return gpu_release_scratch(problem, scratch, status);
}

/* HW: sm_100a code runs on compute capability 10.0 only, sm_103a code on 10.3 only (CUDA programming guide). */
static int available(int32_t device, char *detail, size_t detail_bytes) {
    static const int capabilities[] = {
        CAPABILITY_B200,
#ifdef NVFP4_HAVE_SM_103
        CAPABILITY_B300,
#endif
    };
    return gpu_available(device, capabilities, sizeof capabilities / sizeof *capabilities, detail,
                         detail_bytes);
}

const struct backend blackwell_backend = {
    .id = CUSTOM_KERNEL_BACKEND_BLACKWELL,
    .name = "blackwell",
    .available = available,
    .run = run,
    .acquire_device = gpu_acquire_device,
    .release_device = gpu_release_device,
#ifndef NVFP4_WITHOUT_GROUPED
    .run_grouped = blackwell_run_grouped,
#endif
#ifndef NVFP4_WITHOUT_EXTENDED
    .run_extended = blackwell_run_extended,
#endif
};
