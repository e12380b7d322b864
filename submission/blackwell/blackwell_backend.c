/* The host side of the Blackwell dual GEMM.  A call: select a tile, check the limits, get scratch memory,
 * encode the tensor maps, permute scale factors if they are not in the blocked layout, multiply.
 *
 * Kept between calls: how many clusters of each configuration fit a device at once. */
#include <stdatomic.h>

#include "../gpu/gpu_backend.h"
#include "../gpu/gpu_scales.h"
#include "../gpu/gpu_tuner.h"
#include "blackwell_kernels.h"
#include "blackwell_operands.h"
#include "blackwell_run.h"
#include "blackwell_tile_selection.h"

struct launch_plan {
    int tile; /* index of the configuration */
    const struct blackwell_config *config;
    struct gpu_scales scales;
};

/* The launch of a configuration's kernel, without the grid's size. */
static int32_t make_dual_gemm_launch(int32_t device, int tile, struct launch *launch) {
    const struct blackwell_config *config = &blackwell_configs[tile];
    *launch = (struct launch){
        .kernel = blackwell_dual_gemm_kernel(tile),
        .grid = {(int64_t)config->ctas * config->split_k, 1, 1},
        .threads = CTA_THREADS,
        .cluster = (int64_t)config->ctas * config->split_k,
        .shared_bytes = blackwell_shared_bytes(config),
        .pdl_variable = BLACKWELL_PDL_VARIABLE,
    };
    return gpu_allow_shared_memory(device, launch);
}

/* Finds the number of clusters of each configuration that run at once.  Only the driver knows which SMs of a
 * chip share a GPC, so it is asked, once for each device; if it does not say, the SMs are assumed to lie as on
 * a B200. */
static int32_t find_clusters_at_once(int32_t device, int *clusters) {
    static atomic_int known[MAX_DEVICES][BLACKWELL_TILES]; /* the number + 1; 0 is unknown */
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
            RETURN_IF_FAILED(gpu_count_sms(device, &sms));
            clusters[i] = blackwell_clusters_at_once(&blackwell_configs[i], sms);
        }
        atomic_store(&known[device][i], clusters[i] + 1);
    }
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

static int32_t make_plan(const struct problem *problem, int tile, struct launch_plan *plan) {
    plan->tile = tile;
    plan->config = &blackwell_configs[tile];
    RETURN_IF_FAILED(check_limits(problem, plan->config));
    plan->scales = gpu_plan_scales(problem, problem->n, 3);
    return CUSTOM_KERNEL_OK;
}

/* The tensor maps travel in the kernel's parameters. */
static int32_t encode_maps(const struct problem *problem, const struct launch_plan *plan,
                           struct blackwell_dual_gemm_params *params) {
    const struct gpu_scales *scales = &plan->scales;
    int b_rows = blackwell_b_box_rows(plan->config);
    RETURN_IF_FAILED(blackwell_encode_fp4("a", problem, problem->a, problem->m, TILE_M, &params->a));
    RETURN_IF_FAILED(blackwell_encode_fp4("b1", problem, problem->b1, problem->n, b_rows, &params->b1));
    RETURN_IF_FAILED(blackwell_encode_fp4("b2", problem, problem->b2, problem->n, b_rows, &params->b2));
    RETURN_IF_FAILED(blackwell_encode_scales("sfa", problem, scales->sfa, problem->m, &params->sfa));
    RETURN_IF_FAILED(blackwell_encode_scales("sfb1", problem, scales->sfb1, problem->n, &params->sfb1));
    return blackwell_encode_scales("sfb2", problem, scales->sfb2, problem->n, &params->sfb2);
}

static int32_t launch_dual_gemm(const struct problem *problem, const struct launch_plan *plan,
                                struct blackwell_dual_gemm_params *params, struct launch *launch) {
    const struct blackwell_config *config = plan->config;
    params->c = problem->c;
    params->m = (int32_t)problem->m;
    params->n = (int32_t)problem->n;
    params->steps_k = (int32_t)(problem->k / STEP_K);
    params->scales_by_previous_kernel = plan->scales.permute;
    launch->grid[0] = round_up(ceil_div(problem->m, TILE_M), config->ctas) * config->split_k;
    launch->grid[1] = ceil_div(problem->n, config->tile_n);
    launch->grid[2] = problem->l;
    void *arguments[] = {params};
    return gpu_launch(problem, launch, arguments);
}

/* Every step that can fail because of the arguments comes before the first launch. */
static int32_t launch_all(const struct problem *problem, struct launch_plan *plan, uint8_t *scratch) {
    struct blackwell_dual_gemm_params params;
    struct launch dual_gemm;
    gpu_place_scales(problem, scratch, &plan->scales);
    RETURN_IF_FAILED(encode_maps(problem, plan, &params));
    RETURN_IF_FAILED(make_dual_gemm_launch(problem->device, plan->tile, &dual_gemm));
    RETURN_IF_FAILED(
        gpu_permute_scales(problem, &plan->scales, blackwell_permute_scales_kernel(), BLACKWELL_PDL_VARIABLE));
    return launch_dual_gemm(problem, plan, &params, &dual_gemm);
}

static int32_t run_tile(const struct problem *problem, int tile) {
    struct launch_plan plan = {0};
    uint8_t *scratch = NULL;
    RETURN_IF_FAILED(make_plan(problem, tile, &plan));
    RETURN_IF_FAILED(gpu_acquire_scratch(problem, gpu_scales_bytes(&plan.scales), &scratch));
    int32_t status = launch_all(problem, &plan, scratch);
    return gpu_release_scratch(problem, scratch, status);
}

static int32_t run_way(const struct problem *problem, const void *tiles, int way) {
    return run_tile(problem, ((const int *)tiles)[way]);
}

/* The tile of least predicted time; if calls are tuned, the fastest of the best few. */
static int choose_tile(const struct problem *problem, const int *clusters) {
    const int64_t m = problem->m, n = problem->n, k = problem->k, l = problem->l;
    const int best = blackwell_select_tile(m, n, k, l, clusters);
    if (!gpu_tunes(m)) {
        return best;
    }
    int64_t ps[BLACKWELL_TILES];
    int tiles[TUNER_MOST_WAYS];
    for (int i = 0; i < BLACKWELL_TILES; i++) {
        ps[i] = blackwell_tile_cost_ps(&blackwell_configs[i], m, n, k, l, clusters[i]);
    }
    const struct cache_key key = {.m = m, .n = n, .k = k, .l = l, .sms = clusters[0]};
    const int way = gpu_fastest_way(problem, &key, run_way, tiles, gpu_rank_ways(ps, BLACKWELL_TILES, tiles));
    return way < 0 ? best : tiles[way];
}

static int32_t run(const struct problem *problem) {
    int clusters[BLACKWELL_TILES], tile = -1;
    RETURN_IF_FAILED(gpu_wanted_tile(BLACKWELL_CONFIG_VARIABLE, blackwell_tile_name, &tile));
    if (tile < 0) {
        RETURN_IF_FAILED(find_clusters_at_once(problem->device, clusters));
        tile = choose_tile(problem, clusters);
    }
    return run_tile(problem, tile);
}

/* HW: sm_100a code runs on compute capability 10.0 only, sm_103a code on 10.3 only (CUDA programming guide). */
#ifdef NVFP4_HAVE_SM_103
#define CAPABILITIES CAPABILITY_B200, CAPABILITY_B300
#else
#define CAPABILITIES CAPABILITY_B200
#endif

GPU_BACKEND(blackwell_backend, CUSTOM_KERNEL_BACKEND_BLACKWELL, "blackwell", run,
            GPU_GROUPED(blackwell_run_grouped, blackwell_check_grouped), GPU_EXTENDED(blackwell_run_extended),
            GPU_QUANTIZE(blackwell_run_quantize, blackwell_pad),
            GPU_EXPERTS(blackwell_run_experts, blackwell_run_route, blackwell_run_combine), true, CAPABILITIES);
