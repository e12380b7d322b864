/* The host side of the extended GEMM.  A call: select a tile, check the limits, get scratch memory, encode the
 * tensor maps, dequantize A, permute B's scale factors if needed, multiply in one launch or two.  Calls with
 * few rows of A go to hopper_extended_narrow_backend.c. */
#include "../hopper_run.h"

#include "../../gpu/gpu_backend.h"
#include "../../gpu/gpu_cache.h"
#include "../../gpu/gpu_scales.h"
#include "../hopper_ahead.h"
#include "../hopper_kernels.h"
#include "../hopper_tile_selection.h"
#include "../narrow/hopper_narrow_selection.h"
#include "hopper_extended_kernels.h"
#include "hopper_extended_narrow_backend.h"

struct extended_plan {
    const struct problem *problem;
    struct hopper_choice choice;
    int sms;
    int64_t b_rows; /* rows of the tensor b1 */
    int64_t stages_k;
    bool joint, permute_scales;
    struct ahead ahead;
    /* Scratch memory: A in 16 bits; sfb1 or sfb2, permuted; counters. */
    int64_t a_bytes, scale_bytes, counters_bytes;
};

/* True if a tile has a kernel for A's type, and holds whole pieces of interleaved rows; or, for a plain
 * product, if the scale factors of its two halves are the same distance apart for all rows. */
static bool suits(int tile, const struct extension *extension) {
    const int tile_n = hopper_tile_n(&hopper_configs[tile]);
    if (hopper_extended_gemm_kernel(tile, extension->a_type) == NULL) {
        return false;
    }
    if (extension->plain) {
        return tile_n % SCALE_TILE_ROWS == 0 || SCALE_TILE_ROWS % tile_n == 0;
    }
    return extension->interleave == 0 || tile_n % extension->interleave == 0;
}

/* Columns of C for each that the dual GEMM's tiles have: two for a plain product. */
static int64_t columns_in_one(const struct extension *extension) {
    return extension->plain ? 2 : 1;
}

/* The tile that the environment names, else the cheapest that suit, narrow tiles after the others. */
static int32_t select_tiles(const struct problem *problem, int sms, struct hopper_choice *choice) {
    const struct extension *extension = problem->extension;
    const int64_t n = ceil_div(problem->n, columns_in_one(extension));
    *choice = (struct hopper_choice){.first_columns = n};
    RETURN_IF_FAILED(gpu_wanted_tile(HOPPER_CONFIG_VARIABLE, hopper_tile_name, &choice->tile));
    if (choice->tile >= 0 && choice->tile < HOPPER_TILES && !suits(choice->tile, extension)) {
        return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED,
                           "tile %s has no extended GEMM of this kind on the hopper backend; expected another, "
                           "or none, in " HOPPER_CONFIG_VARIABLE,
                           hopper_tile_name(choice->tile));
    }
    if (choice->tile >= 0) {
        return CUSTOM_KERNEL_OK;
    }
    static _Thread_local struct cache cache;
    const struct cache_key key = {problem->m,
                                  problem->n,
                                  problem->k,
                                  1,
                                  sms,
                                  extension->a_type,
                                  2 * extension->interleave + extension->plain};
    if (cache_find(&cache, &key, choice, sizeof *choice)) {
        return CUSTOM_KERNEL_OK;
    }
    uint32_t allowed = 0;
    for (int i = 0; i < HOPPER_TILES; i++) {
        allowed |= suits(i, extension) ? UINT32_C(1) << i : 0;
    }
    *choice = hopper_select_among(allowed, problem->m, n, problem->k, 1, sms);
    const int narrow = hopper_select_narrow_tile(
        problem->m, n, problem->k, 1, sms,
        hopper_tile_cost_ps(&hopper_configs[choice->tile], problem->m, n, problem->k, 1, sms));
    if (narrow >= 0) {
        *choice = (struct hopper_choice){.tile = HOPPER_TILES + narrow, .first_columns = n};
    }
    cache_keep(&cache, &key, choice, sizeof *choice);
    return CUSTOM_KERNEL_OK;
}

int64_t hopper_plain_product_ps(const struct problem *group, int sms) {
    const struct extension extension = {.plain = true};
    struct problem problem = *group;
    problem.extension = &extension;
    struct hopper_choice choice;
    if (select_tiles(&problem, sms, &choice) != CUSTOM_KERNEL_OK) {
        return -1; /* the extended GEMM refuses the tile that the environment names */
    }
    const int64_t m = group->m, n = ceil_div(group->n, columns_in_one(&extension)), k = group->k;
    if (choice.tile >= HOPPER_TILES) {
        return hopper_narrow_call_ps(&hopper_narrow_configs[choice.tile - HOPPER_TILES], m, n, k, 1, sms);
    }
    const int64_t first_ps =
        hopper_tile_cost_ps(&hopper_configs[choice.tile], m, choice.first_columns, k, 1, sms);
    const int64_t rest = n - choice.first_columns;
    return rest == 0 ? first_ps
                     : first_ps + hopper_costs.rest_ps - hopper_costs.call_ps +
                           hopper_tile_cost_ps(&hopper_configs[choice.rest_tile], m, rest, k, 1, sms);
}

static int32_t check_limits(const struct problem *problem, const struct hopper_config *config) {
    int64_t most_m = (int64_t)MAX_GRID_YZ * config->tile_m;
    const int64_t tiles = ceil_div(problem->n, hopper_tile_n(config)) * ceil_div(problem->m, config->tile_m);
    const struct limit limits[] = {
        {"m", problem->m, most_m < MAX_DIMENSION ? most_m : MAX_DIMENSION},
        {"n", problem->n, MAX_DIMENSION / 2},
        {"k", problem->k, MAX_DIMENSION},
        {"the number of elements of a", problem->m * problem->k, INT64_MAX / 8},
        {"the number of tiles", config->persistent ? tiles : 0, INT32_MAX / 2},
    };
    return gpu_check_limits("hopper", config->name, limits, sizeof limits / sizeof *limits);
}

static int32_t make_plan(const struct problem *problem, struct extended_plan *plan) {
    const struct extension *extension = problem->extension;
    const struct hopper_config *config = &hopper_configs[plan->choice.tile];
    plan->problem = problem;
    RETURN_IF_FAILED(check_limits(problem, config));
    RETURN_IF_FAILED(check_limits(problem, &hopper_configs[plan->choice.rest_tile]));
    plan->joint = extension->plain || extension->interleave != 0;
    plan->b_rows = extension->interleave != 0 ? 2 * problem->n : problem->n;
    plan->stages_k = ceil_div(problem->k, STAGE_K);
    const int64_t padded_k = plan->stages_k * STAGE_K;
    plan->permute_scales = problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED || padded_k != problem->k;
    plan->a_bytes = round_up(problem->m * padded_k * (int64_t)sizeof(uint16_t), SCRATCH_ALIGNMENT);
    if (plan->permute_scales) {
        plan->scale_bytes = gpu_permuted_bytes(problem, plan->b_rows, padded_k);
    }
    if (extension->a_type == CUSTOM_KERNEL_A_NVFP4) {
        plan->ahead =
            hopper_plan_ahead(problem, config, ceil_div(plan->choice.first_columns, hopper_tile_n(config)),
                              plan->sms, plan->stages_k);
    }
    plan->counters_bytes = plan->ahead.counters * (int64_t)sizeof(uint32_t);
    return CUSTOM_KERNEL_OK;
}

/* B's boxes hold tile_n rows, or as many pieces as make tile_n interleaved rows. */
static int32_t encode_b(const char *name, const struct extended_plan *plan, const struct hopper_config *config,
                        const uint8_t *fp4, CUtensorMap *map) {
    const uint32_t tile_n = (uint32_t)hopper_tile_n(config);
    const int64_t interleave = plan->problem->extension->interleave;
    struct tensor_3d b = gpu_fp4_tensor(plan->problem, fp4, plan->problem->n, STAGE_FP4_BYTES, (int)tile_n,
                                        CU_TENSOR_MAP_SWIZZLE_NONE);
    if (interleave != 0) {
        b.rows = interleave;
        b.batches = plan->problem->n / interleave;
        b.batch_rows = 2 * interleave;
        b.box_rows = (uint32_t)interleave;
        b.box_batches = tile_n / (uint32_t)interleave;
    }
    return gpu_encode(name, &b, map);
}

/* The addresses in scratch memory. */
struct extended_scratch {
    uint8_t *a, *sfb1, *sfb2;
    uint32_t *counters;
};

/* Dequantizes A, or puts an A of 16 bits in the order of K that B's dequantization makes; and permutes B's
 * scale factors if needed. */
static int32_t launch_before(const struct extended_plan *plan, const struct extended_scratch *scratch) {
    const struct problem *problem = plan->problem;
    const struct permute_scales_params scales = {
        .tensors = {{problem->sfb1, scratch->sfb1, plan->b_rows}, {problem->sfb2, scratch->sfb2, plan->b_rows}},
        .tiles_k = plan->stages_k * STAGE_SCALE_TILES,
        .count = plan->joint ? 1 : 2,
    };
    if (problem->extension->a_type == CUSTOM_KERNEL_A_NVFP4) {
        return hopper_launch_dequantize(problem, plan->stages_k, &plan->ahead,
                                        hopper_configs[plan->choice.tile].tile_m, scratch->a, scratch->counters,
                                        plan->permute_scales ? &scales : NULL);
    }
    struct dequantize_params params = hopper_dequantize_params(problem, plan->stages_k, scratch->a);
    struct launch launch = {
        .kernel = hopper_arrange_kernel(),
        .grid = {problem->m, ceil_div(params.row_units, ARRANGE_THREADS), 1},
        .threads = ARRANGE_THREADS,
        .cluster = 1,
        .pdl_variable = HOPPER_PDL_VARIABLE,
    };
    void *arguments[] = {&params};
    RETURN_IF_FAILED(gpu_launch(problem, &launch, arguments));
    return plan->permute_scales
               ? gpu_launch_permute_scales(problem, hopper_permute_scales_kernel(), scales, HOPPER_PDL_VARIABLE)
               : CUSTOM_KERNEL_OK;
}

/* One launch of the GEMM: some columns of C, with one tile. */
struct extended_gemm {
    CUtensorMap a, b1, b2;
    struct hopper_extended_persistent_params params;
    struct launch launch;
};

/* first, columns: counted as the dual GEMM's. */
static int32_t make_gemm(const struct extended_plan *plan, const struct extended_scratch *scratch, int tile,
                         int64_t first, int64_t columns, struct extended_gemm *gemm) {
    const struct problem *problem = plan->problem;
    const struct extension *extension = problem->extension;
    const struct hopper_config *config = &hopper_configs[tile];
    const int tile_n = hopper_tile_n(config);
    const int64_t tiles_n = ceil_div(columns, tile_n), tiles_m = ceil_div(problem->m, config->tile_m);
    const uint32_t box_rows = (uint32_t)(problem->m < config->tile_m ? problem->m : config->tile_m);
    uint32_t tx_bytes = STAGE_BYTES((uint32_t)tile_n, box_rows);
    if (plan->joint) {
        tx_bytes -=
            (uint32_t)((2 * SCALE_TILES_TOUCHED(tile_n) - JOINT_SCALE_TILES(tile_n)) * STAGE_SCALE_BYTES);
    }
    *gemm = (struct extended_gemm){
        .launch = {.kernel = hopper_extended_gemm_kernel(tile, extension->a_type),
                   .grid = {tiles_n * config->split_k, tiles_m, 1},
                   .threads = hopper_cta_threads(config),
                   .cluster = config->split_k,
                   .shared_bytes = hopper_shared_bytes(config),
                   .pdl_variable = HOPPER_PDL_VARIABLE},
    };
    struct hopper_extended_params *params = &gemm->params.extended;
    *params = (struct hopper_extended_params){
        .gemm =
            {
                .sfb1 = plan->permute_scales ? scratch->sfb1 : problem->sfb1,
                .sfb2 = plan->permute_scales ? scratch->sfb2 : problem->sfb2,
                .m = (int32_t)problem->m,
                .n = (int32_t)plan->b_rows,
                .first_n = (int32_t)(first * columns_in_one(extension)),
                .a_box_rows = (int32_t)box_rows,
                .stage_tx_bytes = tx_bytes,
                .stages_k = (int32_t)plan->stages_k,
                .scale_tiles_k = (int32_t)(plan->stages_k * STAGE_SCALE_TILES),
                .scales_by_previous_kernel = plan->permute_scales,
            },
        .epilogue = extended_params_of(problem),
        .interleave = extension->interleave,
        .correction = hopper_correction(extension->a_type),
    };
    if (config->persistent) {
        const int64_t tiles = tiles_n * tiles_m;
        gemm->launch.grid[0] = tiles < plan->sms ? tiles : plan->sms;
        gemm->launch.grid[1] = 1;
        gemm->launch.shared_bytes =
            PERSISTENT_SHARED_BYTES(tile_n, config->tile_m, config->stages, config->warpgroups_n);
        gemm->params.schedule = (struct hopper_persistent_params){
            .gemm = params->gemm,
            .tiles_n = (int32_t)tiles_n,
            .tiles_m = (int32_t)tiles_m,
            .tiles = (int32_t)tiles,
        };
        if (first == 0) {
            hopper_schedule_ahead(problem, plan->stages_k, &plan->ahead, scratch->a, scratch->counters,
                                  &gemm->params.schedule);
        }
    }
    const uint8_t *b2 = plan->joint ? problem->b1 + extension->interleave * (problem->k / 2) : problem->b2;
    RETURN_IF_FAILED(hopper_encode_a("a", problem, plan->stages_k, scratch->a, box_rows, &gemm->a));
    RETURN_IF_FAILED(encode_b("b1", plan, config, problem->b1, &gemm->b1));
    RETURN_IF_FAILED(encode_b("b2", plan, config, b2, &gemm->b2));
    return gpu_allow_shared_memory(problem->device, &gemm->launch);
}

static int32_t launch_gemm(const struct extended_plan *plan, struct extended_gemm *gemm) {
    /* The parameters of a kernel that is not persistent come first. */
    void *arguments[] = {&gemm->a, &gemm->b1, &gemm->b2, &gemm->params};
    return gpu_launch(plan->problem, &gemm->launch, arguments);
}

/* Every step that can fail because of the arguments comes before the first launch. */
static int32_t launch_all(const struct extended_plan *plan, uint8_t *memory) {
    const struct hopper_choice *choice = &plan->choice;
    const int64_t rest =
        ceil_div(plan->problem->n, columns_in_one(plan->problem->extension)) - choice->first_columns;
    const struct extended_scratch scratch = {
        .a = memory,
        .sfb1 = memory + plan->a_bytes,
        .sfb2 = memory + plan->a_bytes + plan->scale_bytes,
        .counters = (uint32_t *)(void *)(memory + plan->a_bytes + 2 * plan->scale_bytes),
    };
    struct extended_gemm first, second;
    RETURN_IF_FAILED(make_gemm(plan, &scratch, choice->tile, 0, choice->first_columns, &first));
    if (rest > 0) {
        RETURN_IF_FAILED(make_gemm(plan, &scratch, choice->rest_tile, choice->first_columns, rest, &second));
    }
    RETURN_IF_FAILED(launch_before(plan, &scratch));
    RETURN_IF_FAILED(launch_gemm(plan, &first));
    return rest > 0 ? launch_gemm(plan, &second) : CUSTOM_KERNEL_OK;
}

int32_t hopper_run_extended(const struct problem *problem) {
    struct extended_plan plan = {0};
    uint8_t *scratch = NULL;
    RETURN_IF_FAILED(gpu_count_sms(problem->device, &plan.sms));
    RETURN_IF_FAILED(select_tiles(problem, plan.sms, &plan.choice));
    if (plan.choice.tile >= HOPPER_TILES) {
        return hopper_run_extended_narrow(problem, plan.choice.tile - HOPPER_TILES, plan.sms);
    }
    RETURN_IF_FAILED(make_plan(problem, &plan));
    const int64_t bytes = plan.a_bytes + 2 * plan.scale_bytes + plan.counters_bytes;
    RETURN_IF_FAILED(gpu_acquire_scratch(problem, bytes, &scratch));
    int32_t status = launch_all(&plan, scratch);
    return gpu_release_scratch(problem, scratch, status);
}
