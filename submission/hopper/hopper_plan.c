#include "hopper_plan.h"

#include "../gpu/gpu_backend.h"
#include "../gpu/gpu_cache.h"
#include "../gpu/gpu_scales.h"
#include "../gpu/gpu_tuner.h"
#include "narrow/hopper_narrow_backend.h"

/* ---- choice ---- */

static int columns_in_one(const struct problem *problem) {
    return problem->extension != NULL && problem->extension->plain ? 2 : 1;
}

static int64_t interleave_of(const struct problem *problem) {
    return problem->extension == NULL ? 0 : problem->extension->interleave;
}

static int32_t a_type_of(const struct problem *problem) {
    return problem->extension == NULL ? CUSTOM_KERNEL_A_NVFP4 : problem->extension->a_type;
}

int64_t hopper_columns(const struct problem *problem) {
    return ceil_div(problem->n, columns_in_one(problem));
}

static uint32_t suitable_tiles(const struct problem *problem, const struct hopper_gemm_kind *kind) {
    uint32_t allowed = 0;
    for (int i = 0; i < HOPPER_TILES; i++) {
        allowed |= kind->suits(i, problem->extension) ? UINT32_C(1) << i : 0;
    }
    return allowed;
}

static struct cache_key key_of(const struct problem *problem, int sms) {
    const int64_t plain = columns_in_one(problem) - 1, extended = problem->extension != NULL;
    return (struct cache_key){problem->m,
                              hopper_columns(problem),
                              problem->k,
                              problem->l,
                              sms,
                              a_type_of(problem),
                              4 * interleave_of(problem) + 2 * extended + plain};
}

static _Thread_local struct cache choices;

int32_t hopper_choose_tiles(const struct problem *problem, const struct hopper_gemm_kind *kind, int sms,
                            struct hopper_choice *choice) {
    const int64_t n = hopper_columns(problem);
    *choice = (struct hopper_choice){.first_columns = n, .tuned = true};
    RETURN_IF_FAILED(gpu_wanted_tile(HOPPER_CONFIG_VARIABLE, hopper_tile_name, &choice->tile));
    if (choice->tile >= 0) {
        return choice->tile >= HOPPER_TILES || kind->suits(choice->tile, problem->extension)
                   ? CUSTOM_KERNEL_OK
                   : set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED,
                                 "tile %s has no extended GEMM of this kind on the hopper backend; expected "
                                 "another, or none, in " HOPPER_CONFIG_VARIABLE,
                                 hopper_tile_name(choice->tile));
    }
    const struct cache_key key = key_of(problem, sms);
    if (!cache_find(&choices, &key, choice, sizeof *choice)) {
        const struct hopper_narrow_room room = problem->m <= NARROW_MOST_ROWS
                                                   ? hopper_narrow_find_room(problem->device, sms)
                                                   : hopper_narrow_room_of(sms);
        *choice =
            hopper_select_among(suitable_tiles(problem, kind), a_type_of(problem) != CUSTOM_KERNEL_A_NVFP4,
                                problem->m, n, problem->k, problem->l, sms, &room);
        cache_keep(&choices, &key, choice, sizeof *choice);
    }
    return CUSTOM_KERNEL_OK;
}

/* ---- plan ---- */

static int64_t count_tiles(const struct hopper_plan *plan, const struct hopper_config *config,
                           int64_t columns) {
    return ceil_div(columns, hopper_tile_n(config)) * ceil_div(plan->problem->m, config->tile_m) *
           plan->problem->l;
}

static struct hopper_shares shares_of(const struct hopper_plan *plan, const struct hopper_config *config,
                                      int64_t columns) {
    return hopper_share_tiles(count_tiles(plan, config, columns), plan->stages_k, plan->sms);
}

static int32_t check_limits(const struct hopper_plan *plan, const struct hopper_gemm_kind *kind, int tile,
                            int64_t columns) {
    const struct problem *problem = plan->problem;
    const struct hopper_config *config = &hopper_configs[tile];
    const int64_t most_m = (int64_t)MAX_GRID_YZ * config->tile_m;
    const struct limit limits[] = {
        {"m", problem->m, most_m < MAX_DIMENSION ? most_m : MAX_DIMENSION},
        {plan->b_rows == problem->n ? "n" : "the number of rows of b1", plan->b_rows, MAX_DIMENSION},
        {"k", problem->k, MAX_DIMENSION},
        {"l", problem->l, MAX_GRID_YZ},
        /* A takes eight times its bytes in fp16 with K padded to at most twice its length. */
        {"the size of a in bytes", problem->l * problem->m * (problem->k / 2), INT64_MAX / 16},
    };
    RETURN_IF_FAILED(gpu_check_limits("hopper", config->name, limits, sizeof limits / sizeof *limits));
    const struct limit tiles = {"the number of tiles", count_tiles(plan, config, columns),
                                INT32_MAX - plan->sms};
    const bool one_each = config->sharing != EQUAL_SHARES && kind->kernel(tile, problem, false) != NULL;
    return one_each ? CUSTOM_KERNEL_OK : gpu_check_limits("hopper", config->name, &tiles, 1);
}

static int32_t make_plan(const struct problem *problem, const struct hopper_gemm_kind *kind,
                         struct hopper_plan *plan) {
    const struct hopper_choice *choice = &plan->choice;
    const struct hopper_config *config = &hopper_configs[choice->tile];
    plan->problem = problem;
    plan->columns = hopper_columns(problem);
    plan->joint = columns_in_one(problem) > 1 || interleave_of(problem) != 0;
    plan->b_rows = interleave_of(problem) != 0 ? 2 * problem->n : problem->n;
    RETURN_IF_FAILED(check_limits(plan, kind, choice->tile, choice->first_columns));
    if (choice->first_columns < plan->columns) {
        RETURN_IF_FAILED(check_limits(plan, kind, choice->rest_tile, plan->columns - choice->first_columns));
    }
    plan->stages_k = ceil_div(problem->k, STAGE_K);
    const int64_t padded_k = plan->stages_k * STAGE_K;
    plan->permute_scales = problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED || padded_k != problem->k;
    plan->a_bytes = round_up(problem->l * problem->m * padded_k * (int64_t)sizeof(uint16_t), SCRATCH_ALIGNMENT);
    if (plan->permute_scales) {
        plan->scale_bytes = gpu_permuted_bytes(problem, plan->b_rows, padded_k);
    }
    if (a_type_of(problem) == CUSTOM_KERNEL_A_NVFP4) {
        plan->ahead = hopper_plan_ahead(problem, config, ceil_div(choice->first_columns, hopper_tile_n(config)),
                                        plan->sms, plan->stages_k);
    }
    plan->words = plan->ahead.counters;
    if (config->sharing == EQUAL_SHARES) {
        const struct hopper_shares shares = shares_of(plan, config, plan->columns);
        plan->words = shares.shared_tiles;
        plan->sums_bytes = shares.ctas * 2 * hopper_tile_n(config) * config->tile_m * (int64_t)sizeof(float);
    }
    return CUSTOM_KERNEL_OK;
}

static int64_t scratch_bytes(const struct hopper_plan *plan) {
    return plan->a_bytes + 2 * plan->scale_bytes + plan->sums_bytes + plan->words * (int64_t)sizeof(uint32_t);
}

static void place_operands(struct hopper_plan *plan, uint8_t *scratch) {
    plan->a = scratch;
    plan->sfb1 = plan->a + plan->a_bytes;
    plan->sfb2 = plan->sfb1 + plan->scale_bytes;
    plan->sums = plan->sfb2 + plan->scale_bytes;
    plan->counters = (uint32_t *)(void *)(plan->sums + plan->sums_bytes);
}

/* ---- before the GEMM ---- */

struct permute_scales_params hopper_permuted_scales(const struct hopper_plan *plan) {
    const struct problem *problem = plan->problem;
    return (struct permute_scales_params){
        .tensors = {{problem->sfb1, plan->sfb1, plan->b_rows}, {problem->sfb2, plan->sfb2, plan->b_rows}},
        .tiles_k = plan->stages_k * STAGE_SCALE_TILES,
        .count = plan->joint ? 1 : 2,
    };
}

int32_t hopper_dequantize_before(const struct hopper_plan *plan) {
    const struct permute_scales_params scales = hopper_permuted_scales(plan);
    return hopper_launch_dequantize(plan->problem, plan->stages_k, &plan->ahead,
                                    hopper_configs[plan->choice.tile].tile_m, plan->a, plan->counters,
                                    plan->words, plan->permute_scales ? &scales : NULL);
}

/* ---- the GEMM ---- */

/* B's boxes hold tile_n rows, or as many pieces as make tile_n interleaved rows. */
static int32_t encode_b(const char *name, const struct problem *problem, int tile_n, const uint8_t *fp4,
                        CUtensorMap *map) {
    const int64_t interleave = interleave_of(problem);
    struct tensor_3d b =
        gpu_fp4_tensor(problem, fp4, problem->n, STAGE_FP4_BYTES, tile_n, CU_TENSOR_MAP_SWIZZLE_NONE);
    b.by_lines = true; /* pairs are 2 % slower with few rows of A (measured:H200) */
    if (interleave != 0) {
        b.rows = interleave;
        b.batches = problem->n / interleave;
        b.batch_rows = 2 * interleave;
        b.box_rows = (uint32_t)interleave;
        b.box_batches = (uint32_t)(tile_n / interleave);
    }
    return gpu_encode(name, &b, map);
}

/* A tile copies only rows of A that exist (place_tile in hopper_tile.cuh). */
static uint32_t a_box_rows(const struct problem *problem, const struct hopper_config *config) {
    return (uint32_t)(problem->m < config->tile_m ? problem->m : config->tile_m);
}

static uint32_t stage_tx_bytes(const struct hopper_plan *plan, const struct hopper_config *config) {
    const int tile_n = hopper_tile_n(config), apart = 2 * SCALE_TILES_TOUCHED(tile_n),
              scale_tiles = plan->joint ? JOINT_SCALE_TILES(tile_n) : apart;
    return STAGE_BYTES((uint32_t)tile_n, a_box_rows(plan->problem, config)) -
           (uint32_t)((apart - scale_tiles) * STAGE_SCALE_BYTES);
}

/* first, columns: as tiles count them. */
static int32_t make_gemm(const struct hopper_plan *plan, const struct hopper_gemm_kind *kind, int tile,
                         int64_t first, int64_t columns, struct hopper_gemm *gemm) {
    const struct problem *problem = plan->problem;
    const struct hopper_config *config = &hopper_configs[tile];
    const int tile_n = hopper_tile_n(config);
    const int64_t tiles_n = ceil_div(columns, tile_n), tiles_m = ceil_div(problem->m, config->tile_m),
                  tiles = tiles_n * tiles_m * problem->l,
                  padded_groups = plan->stages_k * (STAGE_K / NVFP4_GROUP_ELEMS);
    const bool persistent = hopper_is_persistent(config, tiles, plan->sms);
    *gemm = (struct hopper_gemm){
        .params = {.gemm = {.sfb1 = plan->permute_scales ? plan->sfb1 : problem->sfb1,
                            .sfb2 = plan->permute_scales ? plan->sfb2 : problem->sfb2,
                            .c = problem->c,
                            .scale_batch_bytes =
                                scale_batch_bytes(CUSTOM_KERNEL_SCALES_BLOCKED, plan->b_rows, padded_groups),
                            .m = (int32_t)problem->m,
                            .n = (int32_t)plan->b_rows,
                            .first_n = (int32_t)(first * columns_in_one(problem)),
                            .a_box_rows = (int32_t)a_box_rows(problem, config),
                            .stage_tx_bytes = stage_tx_bytes(plan, config),
                            .stages_k = (int32_t)plan->stages_k,
                            .scale_tiles_k = (int32_t)(plan->stages_k * STAGE_SCALE_TILES),
                            .scales_by_previous_kernel = plan->permute_scales},
                   .tiles_n = (int32_t)tiles_n,
                   .tiles_m = (int32_t)tiles_m,
                   .tiles = (int32_t)tiles},
        .launch = {.kernel = kind->kernel(tile, problem, persistent),
                   .grid = {tiles_n * config->split_k, tiles_m, problem->l},
                   .threads = hopper_cta_threads(config),
                   .cluster = config->split_k,
                   .shared_bytes = hopper_shared_bytes(config),
                   .pdl_variable = HOPPER_PDL_VARIABLE},
    };
    if (persistent) {
        gemm->launch.grid[0] = tiles < plan->sms ? tiles : plan->sms;
        gemm->launch.grid[1] = gemm->launch.grid[2] = 1;
        gemm->launch.shared_bytes =
            PERSISTENT_SHARED_BYTES(tile_n, config->tile_m, config->stages, config->warpgroups_n);
    }
    if (config->sharing == EQUAL_SHARES) {
        const struct hopper_shares shares = shares_of(plan, config, columns);
        gemm->shares = (struct hopper_shares_params){
            .tiles_m = (int32_t)tiles_m,
            .tiles = (int32_t)tiles,
            .shared_tiles = (int32_t)shares.shared_tiles,
            .units = (int32_t)(shares.shared_tiles * plan->stages_k),
            .arrivals = plan->counters,
            .sums = plan->sums,
        };
        gemm->launch.grid[0] = shares.ctas;
        gemm->launch.grid[1] = gemm->launch.grid[2] = 1;
        gemm->launch.shared_bytes =
            SHARES_SHARED_BYTES(tile_n, config->tile_m, config->stages, config->warpgroups_n);
    }
    if (first == 0) {
        hopper_schedule_ahead(problem, plan->stages_k, &plan->ahead, plan->a, plan->counters, &gemm->params);
    }
    const uint8_t *b2 = plan->joint ? problem->b1 + interleave_of(problem) * (problem->k / 2) : problem->b2;
    RETURN_IF_FAILED(
        hopper_encode_a("a", problem, plan->stages_k, plan->a, a_box_rows(problem, config), &gemm->a));
    RETURN_IF_FAILED(encode_b("b1", problem, tile_n, problem->b1, &gemm->b1));
    RETURN_IF_FAILED(encode_b("b2", problem, tile_n, b2, &gemm->b2));
    return gpu_allow_shared_memory(problem->device, &gemm->launch);
}

/* ---- a call ---- */

/* Every step that can fail because of the arguments comes before the first launch. */
static int32_t launch_all(const struct hopper_plan *plan, const struct hopper_gemm_kind *kind) {
    const struct hopper_choice *choice = &plan->choice;
    const int64_t rest = plan->columns - choice->first_columns;
    struct hopper_gemm first, second;
    RETURN_IF_FAILED(make_gemm(plan, kind, choice->tile, 0, choice->first_columns, &first));
    if (rest > 0) {
        RETURN_IF_FAILED(make_gemm(plan, kind, choice->rest_tile, choice->first_columns, rest, &second));
    }
    RETURN_IF_FAILED(kind->launch_before(plan));
    RETURN_IF_FAILED(kind->launch_gemm(plan->problem, &first));
    return rest > 0 ? kind->launch_gemm(plan->problem, &second) : CUSTOM_KERNEL_OK;
}

static int32_t run_choice(const struct problem *problem, const struct hopper_gemm_kind *kind, int sms,
                          const struct hopper_choice *choice) {
    struct hopper_plan plan = {.choice = *choice, .sms = sms};
    uint8_t *scratch = NULL;
    if (choice->tile >= HOPPER_TILES) {
        return kind->run_narrow(problem, choice->tile - HOPPER_TILES, sms);
    }
    RETURN_IF_FAILED(make_plan(problem, kind, &plan));
    RETURN_IF_FAILED(gpu_acquire_scratch(problem, scratch_bytes(&plan), &scratch));
    place_operands(&plan, scratch);
    int32_t status = launch_all(&plan, kind);
    return gpu_release_scratch(problem, scratch, status);
}

struct ways {
    const struct hopper_gemm_kind *kind;
    int sms;
    struct hopper_choice choices[TUNER_MOST_WAYS];
};

static int32_t run_way(const struct problem *problem, const void *all, int way) {
    const struct ways *ways = all;
    return run_choice(problem, ways->kind, ways->sms, &ways->choices[way]);
}

/* The model's choice, and single tiles that may be as fast. */
static int rank_choices(const struct problem *problem, const struct hopper_gemm_kind *kind, struct ways *ways) {
    const int64_t n = hopper_columns(problem);
    int64_t ps[HOPPER_TILES];
    int tiles[TUNER_MOST_WAYS], count = 1;
    for (int i = 0; i < HOPPER_TILES; i++) {
        ps[i] = kind->suits(i, problem->extension)
                    ? hopper_tile_cost_ps(&hopper_configs[i], problem->m, n, problem->k, problem->l, ways->sms)
                    : INT64_MAX;
    }
    const int ranked = gpu_rank_ways(ps, HOPPER_TILES, tiles);
    for (int i = 0; i < ranked && count < TUNER_MOST_WAYS; i++) {
        const struct hopper_choice one = {.tile = tiles[i], .first_columns = n};
        if (one.tile != ways->choices[0].tile || n > ways->choices[0].first_columns) {
            ways->choices[count++] = one;
        }
    }
    return count;
}

static void tune(const struct problem *problem, const struct hopper_gemm_kind *kind, int sms,
                 struct hopper_choice *choice) {
    const struct cache_key key = key_of(problem, sms);
    struct ways ways = {kind, sms, {*choice}};
    const int count = rank_choices(problem, kind, &ways);
    const int way = gpu_fastest_way(problem, &key, run_way, &ways, count);
    if (way >= 0) {
        *choice = ways.choices[way];
        choice->tuned = true;
        cache_keep(&choices, &key, choice, sizeof *choice);
    }
}

int32_t hopper_run_gemm(const struct problem *problem, const struct hopper_gemm_kind *kind) {
    struct hopper_choice choice;
    int sms = 0;
    RETURN_IF_FAILED(gpu_count_sms(problem->device, &sms));
    RETURN_IF_FAILED(hopper_choose_tiles(problem, kind, sms, &choice));
    if (!choice.tuned && gpu_tunes(problem->m)) {
        tune(problem, kind, sms, &choice);
    }
    return run_choice(problem, kind, sms, &choice);
}
