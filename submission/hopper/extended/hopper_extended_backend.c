/* The host side of the extended GEMM.  A call: select a tile, check the limits, get scratch memory, encode the
 * tensor maps, dequantize A, permute B's scale factors if needed, multiply.  Calls with few rows of A go to
 * hopper_extended_narrow_backend.c. */
#include "hopper_extended_backend.h"

#include "../../gpu/gpu_backend.h"
#include "../../gpu/gpu_scales.h"
#include "../hopper_kernels.h"
#include "../hopper_operands.h"
#include "../hopper_tile_selection.h"
#include "hopper_extended_kernels.h"
#include "hopper_extended_narrow_backend.h"

struct extended_plan {
    const struct problem *problem;
    const struct hopper_config *config;
    int tile;
    int64_t b_rows;       /* rows of the tensor b1 */
    int64_t tile_columns; /* columns of C in a tile, both halves of a plain product's together */
    int64_t stages_k;
    bool joint, permute_scales;
    int64_t a_bytes, scale_bytes; /* scratch memory: A in fp16; sfb1 or sfb2, permuted */
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

/* The tile that the environment names, else the cheapest that suits, narrow tiles after the others; two columns
 * of a plain product count as one. */
static int32_t select_tile(const struct problem *problem, int sms, int *tile) {
    const struct extension *extension = problem->extension;
    RETURN_IF_FAILED(gpu_wanted_tile(HOPPER_CONFIG_VARIABLE, hopper_tile_name, tile));
    if (*tile >= 0 && *tile < HOPPER_TILES && !suits(*tile, extension)) {
        return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED,
                           "tile %s has no extended GEMM of this kind on the hopper backend; expected another, "
                           "or none, in " HOPPER_CONFIG_VARIABLE,
                           hopper_tile_name(*tile));
    }
    if (*tile >= 0) {
        return CUSTOM_KERNEL_OK;
    }
    const int64_t columns = extension->plain ? ceil_div(problem->n, 2) : problem->n;
    int64_t least_ps = INT64_MAX;
    for (int i = 0; i < HOPPER_TILES; i++) {
        int64_t ps = hopper_tile_cost_ps(&hopper_configs[i], problem->m, columns, problem->k, 1, sms);
        if (ps < least_ps && suits(i, extension)) {
            least_ps = ps;
            *tile = i;
        }
    }
    const int narrow = hopper_extended_narrow_tile(problem, sms, least_ps);
    *tile = narrow >= 0 ? HOPPER_TILES + narrow : *tile;
    return CUSTOM_KERNEL_OK;
}

static int32_t check_limits(const struct problem *problem, const struct hopper_config *config) {
    int64_t most_m = (int64_t)MAX_GRID_YZ * config->tile_m;
    const struct limit limits[] = {
        {"m", problem->m, most_m < MAX_DIMENSION ? most_m : MAX_DIMENSION},
        {"n", problem->n, MAX_DIMENSION / 2},
        {"k", problem->k, MAX_DIMENSION},
        {"the number of elements of a", problem->m * problem->k, INT64_MAX / 8},
    };
    return gpu_check_limits("hopper", config->name, limits, sizeof limits / sizeof *limits);
}

static int32_t make_plan(const struct problem *problem, struct extended_plan *plan) {
    const struct extension *extension = problem->extension;
    plan->problem = problem;
    plan->config = &hopper_configs[plan->tile];
    RETURN_IF_FAILED(check_limits(problem, plan->config));
    plan->joint = extension->plain || extension->interleave != 0;
    plan->b_rows = extension->interleave != 0 ? 2 * problem->n : problem->n;
    plan->tile_columns = (extension->plain ? 2 : 1) * hopper_tile_n(plan->config);
    plan->stages_k = ceil_div(problem->k, STAGE_K);
    const int64_t padded_k = plan->stages_k * STAGE_K;
    plan->permute_scales = problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED || padded_k != problem->k;
    plan->a_bytes = round_up(problem->m * padded_k * (int64_t)sizeof(uint16_t), SCRATCH_ALIGNMENT);
    if (plan->permute_scales) {
        plan->scale_bytes = gpu_permuted_bytes(problem, plan->b_rows, padded_k);
    }
    return CUSTOM_KERNEL_OK;
}

static uint32_t a_box_rows(const struct extended_plan *plan) {
    return (uint32_t)(plan->problem->m < plan->config->tile_m ? plan->problem->m : plan->config->tile_m);
}

/* B's boxes hold tile_n rows, or as many pieces as make tile_n interleaved rows. */
static int32_t encode_b(const char *name, const struct extended_plan *plan, const uint8_t *fp4,
                        CUtensorMap *map) {
    const uint32_t tile_n = (uint32_t)hopper_tile_n(plan->config);
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

struct tensor_maps {
    CUtensorMap a, b1, b2;
};

static int32_t encode_maps(const struct extended_plan *plan, const uint8_t *a_fp16, struct tensor_maps *maps) {
    const struct problem *problem = plan->problem;
    const uint8_t *b2 =
        plan->joint ? problem->b1 + problem->extension->interleave * (problem->k / 2) : problem->b2;
    RETURN_IF_FAILED(hopper_encode_a("a", problem, plan->stages_k, a_fp16, a_box_rows(plan), &maps->a));
    RETURN_IF_FAILED(encode_b("b1", plan, problem->b1, &maps->b1));
    return encode_b("b2", plan, b2, &maps->b2);
}

/* Dequantizes A, or puts an A of 16 bits in the order of K that B's dequantization makes. */
static int32_t launch_dequantize(const struct extended_plan *plan, uint8_t *a_fp16) {
    struct dequantize_params params = hopper_dequantize_params(plan->problem, plan->stages_k, a_fp16);
    const bool halves = plan->problem->extension->a_type != CUSTOM_KERNEL_A_NVFP4;
    const int64_t units = halves ? params.row_units / ARRANGED_UNITS : params.row_units;
    int64_t threads = hopper_dequantize_threads(units);
    struct launch launch = {
        .kernel = halves ? hopper_arrange_kernel() : hopper_dequantize_kernel(),
        .grid = {plan->problem->m, ceil_div(units, threads), 1},
        .threads = threads,
        .cluster = 1,
        .pdl_variable = HOPPER_PDL_VARIABLE,
    };
    void *arguments[] = {&params};
    return gpu_launch(plan->problem, &launch, arguments);
}

static int32_t launch_permute_scales(const struct extended_plan *plan, uint8_t *sfb1, uint8_t *sfb2) {
    struct permute_scales_params params = {
        .tensors = {{plan->problem->sfb1, sfb1, plan->b_rows}, {plan->problem->sfb2, sfb2, plan->b_rows}},
        .tiles_k = plan->stages_k * STAGE_SCALE_TILES,
        .count = plan->joint ? 1 : 2,
    };
    return gpu_launch_permute_scales(plan->problem, hopper_permute_scales_kernel(), params,
                                     HOPPER_PDL_VARIABLE);
}

/* Every step that can fail because of the arguments comes before the first launch. */
static int32_t launch_all(const struct extended_plan *plan, uint8_t *scratch) {
    const struct problem *problem = plan->problem;
    const struct hopper_config *config = plan->config;
    const int tile_n = hopper_tile_n(config);
    uint8_t *sfb1 = scratch + plan->a_bytes, *sfb2 = sfb1 + plan->scale_bytes;
    struct tensor_maps maps;
    struct launch launch = {
        .kernel = hopper_extended_gemm_kernel(plan->tile, problem->extension->a_type),
        .grid = {ceil_div(problem->n, plan->tile_columns) * config->split_k,
                 ceil_div(problem->m, config->tile_m), 1},
        .threads = hopper_cta_threads(config),
        .cluster = config->split_k,
        .shared_bytes = hopper_shared_bytes(config),
        .pdl_variable = HOPPER_PDL_VARIABLE,
    };
    uint32_t tx_bytes = STAGE_BYTES((uint32_t)tile_n, a_box_rows(plan));
    if (plan->joint) {
        tx_bytes -=
            (uint32_t)((2 * SCALE_TILES_TOUCHED(tile_n) - JOINT_SCALE_TILES(tile_n)) * STAGE_SCALE_BYTES);
    }
    struct hopper_extended_params params = {
        .gemm =
            {
                .sfb1 = plan->permute_scales ? sfb1 : problem->sfb1,
                .sfb2 = plan->permute_scales ? sfb2 : problem->sfb2,
                .m = (int32_t)problem->m,
                .n = (int32_t)plan->b_rows,
                .a_box_rows = (int32_t)a_box_rows(plan),
                .stage_tx_bytes = tx_bytes,
                .stages_k = (int32_t)plan->stages_k,
                .scale_tiles_k = (int32_t)(plan->stages_k * STAGE_SCALE_TILES),
                .scales_by_previous_kernel = plan->permute_scales,
            },
        .epilogue = extended_params_of(problem),
        .interleave = problem->extension->interleave,
        .correction = hopper_correction(problem->extension->a_type),
    };
    RETURN_IF_FAILED(encode_maps(plan, scratch, &maps));
    RETURN_IF_FAILED(gpu_allow_shared_memory(problem->device, &launch));
    RETURN_IF_FAILED(launch_dequantize(plan, scratch));
    if (plan->permute_scales) {
        RETURN_IF_FAILED(launch_permute_scales(plan, sfb1, sfb2));
    }
    void *arguments[] = {&maps.a, &maps.b1, &maps.b2, &params};
    return gpu_launch(problem, &launch, arguments);
}

int32_t hopper_run_extended(const struct problem *problem) {
    struct extended_plan plan = {0};
    uint8_t *scratch = NULL;
    int sms = 0;
    RETURN_IF_FAILED(gpu_count_sms(problem->device, &sms));
    RETURN_IF_FAILED(select_tile(problem, sms, &plan.tile));
    if (plan.tile >= HOPPER_TILES) {
        return hopper_run_extended_narrow(problem, plan.tile - HOPPER_TILES, sms);
    }
    RETURN_IF_FAILED(make_plan(problem, &plan));
    RETURN_IF_FAILED(gpu_acquire_scratch(problem, plan.a_bytes + 2 * plan.scale_bytes, &scratch));
    int32_t status = launch_all(&plan, scratch);
    return gpu_release_scratch(problem, scratch, status);
}
