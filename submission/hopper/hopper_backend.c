/* The host side of the Hopper dual GEMM.  A call: select a tile or two, check the limits, get scratch memory,
 * encode the tensor maps, dequantize A, permute B's scale factors if needed, multiply in one launch or two.
 * Calls with few rows of A go to hopper_narrow_backend.c. */
#include "../gpu/gpu_backend.h"
#include "../gpu/gpu_cache.h"
#include "../gpu/gpu_scales.h"
#include "hopper_ahead.h"
#include "hopper_kernels.h"
#include "hopper_operands.h"
#include "hopper_run.h"
#include "hopper_tile_selection.h"
#include "narrow/hopper_narrow_backend.h"
#include "narrow/hopper_narrow_selection.h"

/* The launches of a call. */
struct launch_plan {
    struct hopper_choice choice;
    int sms;
    int64_t stages_k;
    bool permute_scales; /* sfb1 and sfb2, to the blocked layout, whose K is padded to whole stages */
    struct ahead ahead;  /* dequantization of A during the first GEMM */
    /* Scratch memory: A in fp16; sfb1 or sfb2, permuted; counters. */
    int64_t a_bytes, scale_bytes, counters_bytes;
};

/* The addresses of the GEMM's operands. */
struct operands {
    uint8_t *a; /* fp16, in scratch memory */
    const uint8_t *sfb1, *sfb2;
    uint8_t *permuted_sfb1, *permuted_sfb2; /* scratch memory; NULL if the caller's are used */
    uint32_t *counters;                     /* scratch memory */
};

/* The tile that the environment names, else the tiles of least predicted time on `sms` SMs. */
static int32_t select_tiles(const struct problem *problem, int sms, struct hopper_choice *choice) {
    *choice = (struct hopper_choice){.first_columns = problem->n};
    RETURN_IF_FAILED(gpu_wanted_tile(HOPPER_CONFIG_VARIABLE, hopper_tile_name, &choice->tile));
    static _Thread_local struct cache cache;
    const struct cache_key key = {problem->m, problem->n, problem->k, problem->l, sms, 0, 0};
    if (choice->tile < 0 && !cache_find(&cache, &key, choice, sizeof *choice)) {
        *choice = hopper_select_tiles(problem->m, problem->n, problem->k, problem->l, sms);
        cache_keep(&cache, &key, choice, sizeof *choice);
    }
    return CUSTOM_KERNEL_OK;
}

static int32_t check_limits(const struct problem *problem, const struct hopper_config *config) {
    int64_t most_m = (int64_t)MAX_GRID_YZ * config->tile_m;
    const struct limit limits[] = {
        {"m", problem->m, most_m < MAX_DIMENSION ? most_m : MAX_DIMENSION},
        {"n", problem->n, MAX_DIMENSION},
        {"k", problem->k, MAX_DIMENSION},
        {"l", problem->l, MAX_GRID_YZ},
        /* A takes eight times its bytes in fp16 with K padded to at most twice its length. */
        {"the size of a in bytes", problem->l * problem->m * (problem->k / 2), INT64_MAX / 16},
    };
    return gpu_check_limits("hopper", config->name, limits, sizeof limits / sizeof *limits);
}

static int32_t make_plan(const struct problem *problem, struct hopper_choice choice, struct launch_plan *plan) {
    plan->choice = choice;
    RETURN_IF_FAILED(check_limits(problem, &hopper_configs[choice.tile]));
    if (choice.first_columns < problem->n) {
        RETURN_IF_FAILED(check_limits(problem, &hopper_configs[choice.rest_tile]));
    }
    plan->stages_k = ceil_div(problem->k, STAGE_K);
    int64_t padded_k = plan->stages_k * STAGE_K;
    plan->permute_scales = problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED || padded_k != problem->k;
    plan->a_bytes = round_up(problem->l * problem->m * padded_k * (int64_t)sizeof(uint16_t), SCRATCH_ALIGNMENT);
    if (plan->permute_scales) {
        plan->scale_bytes = gpu_permuted_bytes(problem, problem->n, padded_k);
    }
    const struct hopper_config *config = &hopper_configs[choice.tile];
    plan->ahead = hopper_plan_ahead(problem, config, ceil_div(choice.first_columns, hopper_tile_n(config)),
                                    plan->sms, plan->stages_k);
    plan->counters_bytes = plan->ahead.counters * (int64_t)sizeof(uint32_t);
    return CUSTOM_KERNEL_OK;
}

static int64_t scratch_bytes(const struct launch_plan *plan) {
    return plan->a_bytes + 2 * plan->scale_bytes + plan->counters_bytes;
}

static struct operands place_operands(const struct problem *problem, const struct launch_plan *plan,
                                      uint8_t *scratch) {
    struct operands operands = {
        .a = scratch,
        .sfb1 = problem->sfb1,
        .sfb2 = problem->sfb2,
        .counters = (uint32_t *)(void *)(scratch + plan->a_bytes + 2 * plan->scale_bytes),
    };
    if (plan->permute_scales) {
        operands.sfb1 = operands.permuted_sfb1 = scratch + plan->a_bytes;
        operands.sfb2 = operands.permuted_sfb2 = operands.permuted_sfb1 + plan->scale_bytes;
    }
    return operands;
}

/* A tile copies only rows of A that exist (find_tile in hopper_dual_gemm.cuh). */
static uint32_t a_box_rows(const struct problem *problem, const struct hopper_config *config) {
    return (uint32_t)(problem->m < config->tile_m ? problem->m : config->tile_m);
}

static uint32_t stage_tx_bytes(const struct problem *problem, const struct hopper_config *config) {
    return STAGE_BYTES((uint32_t)hopper_tile_n(config), a_box_rows(problem, config));
}

struct tensor_maps {
    CUtensorMap a, b1, b2;
};

static int32_t encode_maps(const struct problem *problem, const struct launch_plan *plan,
                           const struct operands *operands, const struct hopper_config *config,
                           struct tensor_maps *maps) {
    const int b_rows = hopper_tile_n(config);
    RETURN_IF_FAILED(
        hopper_encode_a("a", problem, plan->stages_k, operands->a, a_box_rows(problem, config), &maps->a));
    RETURN_IF_FAILED(hopper_encode_b("b1", problem, problem->b1, b_rows, &maps->b1));
    return hopper_encode_b("b2", problem, problem->b2, b_rows, &maps->b2);
}

static struct permute_scales_params permuted_scales(const struct problem *problem,
                                                    const struct launch_plan *plan,
                                                    const struct operands *operands) {
    return (struct permute_scales_params){
        .tensors = {{problem->sfb1, operands->permuted_sfb1, problem->n},
                    {problem->sfb2, operands->permuted_sfb2, problem->n}},
        .tiles_k = plan->stages_k * STAGE_SCALE_TILES,
        .count = 2,
    };
}

/* One launch of the GEMM: some columns of C, with one tile. */
struct dual_gemm {
    const struct hopper_config *config;
    int64_t first_n;
    int64_t tiles[3]; /* columns, rows, batches */
    bool persistent;  /* a CTA an SM takes one tile after another */
    struct tensor_maps maps;
    struct launch launch;
};

static int32_t make_dual_gemm(const struct problem *problem, const struct launch_plan *plan,
                              const struct operands *operands, int tile, int64_t first_n, int64_t columns,
                              struct dual_gemm *gemm) {
    const struct hopper_config *config = &hopper_configs[tile];
    const int64_t tiles_n = ceil_div(columns, hopper_tile_n(config)),
                  tiles_m = ceil_div(problem->m, config->tile_m), tiles = tiles_n * tiles_m * problem->l;
    *gemm = (struct dual_gemm){
        .config = config,
        .first_n = first_n,
        .tiles = {tiles_n, tiles_m, problem->l},
        .persistent = hopper_is_persistent(config, tiles, plan->sms),
        .launch = {.kernel = hopper_dual_gemm_kernel(tile),
                   .grid = {tiles_n * config->split_k, tiles_m, problem->l},
                   .threads = hopper_cta_threads(config),
                   .cluster = config->split_k,
                   .shared_bytes = hopper_shared_bytes(config),
                   .pdl_variable = HOPPER_PDL_VARIABLE},
    };
    if (gemm->persistent) {
        gemm->launch.kernel = hopper_persistent_dual_gemm_kernel(tile);
        gemm->launch.grid[0] = tiles < plan->sms ? tiles : plan->sms;
        gemm->launch.grid[1] = gemm->launch.grid[2] = 1;
        gemm->launch.shared_bytes = PERSISTENT_SHARED_BYTES(hopper_tile_n(config), config->tile_m,
                                                            config->stages, config->warpgroups_n);
    }
    RETURN_IF_FAILED(encode_maps(problem, plan, operands, config, &gemm->maps));
    return gpu_allow_shared_memory(problem->device, &gemm->launch);
}

static int32_t launch_dual_gemm(const struct problem *problem, const struct launch_plan *plan,
                                const struct operands *operands, struct dual_gemm *gemm) {
    int64_t scale_tiles_k = plan->stages_k * STAGE_SCALE_TILES;
    int64_t padded_groups = plan->stages_k * (STAGE_K / NVFP4_GROUP_ELEMS);
    struct hopper_dual_gemm_params gemm_params = {
        .sfb1 = operands->sfb1,
        .sfb2 = operands->sfb2,
        .c = problem->c,
        .scale_batch_bytes = scale_batch_bytes(CUSTOM_KERNEL_SCALES_BLOCKED, problem->n, padded_groups),
        .m = (int32_t)problem->m,
        .n = (int32_t)problem->n,
        .first_n = (int32_t)gemm->first_n,
        .a_box_rows = (int32_t)a_box_rows(problem, gemm->config),
        .stage_tx_bytes = stage_tx_bytes(problem, gemm->config),
        .stages_k = (int32_t)plan->stages_k,
        .scale_tiles_k = (int32_t)scale_tiles_k,
        .scales_by_previous_kernel = plan->permute_scales,
    };
    struct hopper_persistent_params params = {
        .gemm = gemm_params, /* comes first: the parameters of a kernel that is not persistent */
        .tiles_n = (int32_t)gemm->tiles[0],
        .tiles_m = (int32_t)gemm->tiles[1],
        .tiles = (int32_t)(gemm->tiles[0] * gemm->tiles[1] * gemm->tiles[2]),
    };
    if (gemm->first_n == 0) {
        hopper_schedule_ahead(problem, plan->stages_k, &plan->ahead, operands->a, operands->counters, &params);
    }
    void *arguments[] = {&gemm->maps.a, &gemm->maps.b1, &gemm->maps.b2, &params};
    return gpu_launch(problem, &gemm->launch, arguments);
}

/* Every step that can fail because of the arguments comes before the first launch. */
static int32_t launch_all(const struct problem *problem, const struct launch_plan *plan, uint8_t *scratch) {
    struct operands operands = place_operands(problem, plan, scratch);
    const struct hopper_choice *choice = &plan->choice;
    const int64_t rest = problem->n - choice->first_columns;
    struct dual_gemm first, second;
    RETURN_IF_FAILED(make_dual_gemm(problem, plan, &operands, choice->tile, 0, choice->first_columns, &first));
    if (rest > 0) {
        RETURN_IF_FAILED(
            make_dual_gemm(problem, plan, &operands, choice->rest_tile, choice->first_columns, rest, &second));
    }
    const struct permute_scales_params scales = permuted_scales(problem, plan, &operands);
    RETURN_IF_FAILED(hopper_launch_dequantize(problem, plan->stages_k, &plan->ahead,
                                              hopper_configs[choice->tile].tile_m, operands.a,
                                              operands.counters, plan->permute_scales ? &scales : NULL));
    RETURN_IF_FAILED(launch_dual_gemm(problem, plan, &operands, &first));
    return rest > 0 ? launch_dual_gemm(problem, plan, &operands, &second) : CUSTOM_KERNEL_OK;
}

static int32_t run(const struct problem *problem) {
    struct launch_plan plan = {0};
    uint8_t *scratch = NULL;
    struct hopper_choice choice;
    int sms = 0;
    RETURN_IF_FAILED(gpu_count_sms(problem->device, &sms));
    RETURN_IF_FAILED(select_tiles(problem, sms, &choice));
    if (choice.tile >= HOPPER_TILES) {
        return hopper_run_narrow(problem, choice.tile - HOPPER_TILES, sms);
    }
    plan.sms = sms;
    RETURN_IF_FAILED(make_plan(problem, choice, &plan));
    RETURN_IF_FAILED(gpu_acquire_scratch(problem, scratch_bytes(&plan), &scratch));
    int32_t status = launch_all(problem, &plan, scratch);
    return gpu_release_scratch(problem, scratch, status);
}

/* HW: sm_90a code runs on compute capability 9.0 only (CUDA programming guide). */
GPU_BACKEND(hopper_backend, CUSTOM_KERNEL_BACKEND_HOPPER, "hopper", run,
            GPU_GROUPED(hopper_run_grouped, hopper_check_grouped), GPU_EXTENDED(hopper_run_extended),
            GPU_QUANTIZE(hopper_run_quantize, hopper_pad), GPU_EXPERTS(hopper_run_experts), false,
            CAPABILITY_H100);
