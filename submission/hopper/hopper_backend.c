/* The Hopper back end's host side: plans, encodes the tensor maps, launches the kernels.
 *
 * Kept between calls, beside what gpu/host.h keeps: which kernels were given their shared memory. */
#include <stdbool.h>

#include "../gpu/host.h"
#include "kernels.h"
#include "tile_selection.h"

#define CONFIG_VARIABLE           "NVFP4_HOPPER_CONFIG"
#define DEPENDENT_LAUNCH_VARIABLE "NVFP4_HOPPER_DEPENDENT_LAUNCH"

enum {
    SCRATCH_ALIGNMENT = 256,
    MAX_BLOCK_SCALES_GRID = 1 << 16, /* its threads take as many words as there are */
    MAX_DIMENSION = INT32_MAX / 8,   /* coordinates and offsets inside a row are 32 bits */
};

static int32_t choose_config(const struct problem *problem, int *index) {
    int32_t status = gpu_wanted_tile(CONFIG_VARIABLE, hopper_tile_name, index);
    if (status != CUSTOM_KERNEL_OK || *index >= 0) {
        return status;
    }
    int sms = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, problem->device));
    *index = hopper_select_tile(problem->m, problem->n, problem->k, problem->l, sms);
    return CUSTOM_KERNEL_OK;
}

/* What a call launches. */
struct plan {
    const struct hopper_config *config;
    int index;
    bool block_scales; /* sfb1 and sfb2 have to be brought into padded blocks */
    int64_t stages_k, activation_bytes, scale_bytes;
};

static int32_t make_plan(const struct problem *problem, struct plan *plan) {
    int32_t status = choose_config(problem, &plan->index);
    if (status != CUSTOM_KERNEL_OK) {
        return status;
    }
    plan->config = &hopper_configs[plan->index];
    plan->stages_k = ceil_div(problem->k, STAGE_K);
    int64_t padded_k = plan->stages_k * STAGE_K, padded_n = round_up(problem->n, SCALE_TILE_ROWS);
    int64_t token_tiles = ceil_div(problem->m, plan->config->tile_tokens);
    if (problem->m > MAX_DIMENSION || problem->n > MAX_DIMENSION || problem->k > MAX_DIMENSION ||
        problem->l > MAX_GRID_YZ || token_tiles > MAX_GRID_YZ) {
        return set_message(
            CUSTOM_KERNEL_ERROR_UNSUPPORTED,
            "m %lld, n %lld, k %lld, l %lld: expected n and k up to %d, m up to %d tiles of %d and l "
            "up to %d on the hopper back end",
            (long long)problem->m, (long long)problem->n, (long long)problem->k, (long long)problem->l,
            MAX_DIMENSION, MAX_GRID_YZ, plan->config->tile_tokens, MAX_GRID_YZ);
    }
    plan->block_scales = problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED || padded_k != problem->k;
    plan->activation_bytes = round_up(problem->l * problem->m * padded_k * 2, SCRATCH_ALIGNMENT);
    plan->scale_bytes =
        plan->block_scales ? round_up(problem->l * padded_n * (padded_k / NVFP4_GROUP_ELEMS), SCRATCH_ALIGNMENT)
                           : 0;
    return CUSTOM_KERNEL_OK;
}

static int32_t launch_expand(const struct problem *problem, const struct plan *plan, uint8_t *scratch) {
    bool blocked = problem->scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED;
    int64_t groups = problem->k / NVFP4_GROUP_ELEMS;
    struct expand_params params = {
        .a = problem->a,
        .sfa = problem->sfa,
        .activations = (uint16_t *)(void *)scratch,
        .code_row_bytes = problem->k / 2,
        .scale_batch_bytes = scale_batch_bytes(problem->scale_layout, problem->m, groups),
        .scale_tile_step = SCALE_TILE_ROWS * groups,
        .scale_quarter_step = blocked ? 4 : (uint32_t)(32 * groups),
        .scale_row_step = blocked ? 16 : (uint32_t)groups,
        .scale_chunk_step = blocked ? 2 * SCALE_TILE_BYTES : 2 * SCALE_TILE_GROUPS,
        .scale_half_step = blocked ? SCALE_TILE_BYTES : SCALE_TILE_GROUPS,
        .units = (uint32_t)(plan->stages_k * UNITS_OF_CHUNK),
        .whole_chunks = (uint32_t)(problem->k / STAGE_K),
    };
    int64_t threads = params.units < MAX_EXPAND_THREADS ? params.units : MAX_EXPAND_THREADS;
    struct launch launch = {
        .kernel = hopper_expand_kernel(),
        .grid = {problem->m, ceil_div(params.units, threads), problem->l},
        .threads = threads,
        .cluster = 1,
        .variable = DEPENDENT_LAUNCH_VARIABLE,
    };
    void *arguments[] = {&params};
    return gpu_launch(problem, &launch, arguments);
}

static int32_t launch_block_scales(const struct problem *problem, const struct plan *plan, uint8_t *scratch) {
    struct block_scales_params params = {
        .sfb1 = problem->sfb1,
        .sfb2 = problem->sfb2,
        .blocked_sfb1 = scratch + plan->activation_bytes,
        .blocked_sfb2 = scratch + plan->activation_bytes + plan->scale_bytes,
        .n = problem->n,
        .k = problem->k,
        .l = problem->l,
        .scale_layout = problem->scale_layout,
    };
    int64_t blocks = ceil_div(plan->scale_bytes / (int64_t)sizeof(uint32_t), BLOCK_SCALES_THREADS);
    blocks = blocks < MAX_BLOCK_SCALES_GRID ? blocks : MAX_BLOCK_SCALES_GRID;
    struct launch launch = {
        .kernel = hopper_block_scales_kernel(),
        .grid = {blocks, 1, 1},
        .threads = BLOCK_SCALES_THREADS,
        .cluster = 1,
        .variable = DEPENDENT_LAUNCH_VARIABLE,
    };
    void *arguments[] = {&params};
    return gpu_launch(problem, &launch, arguments);
}

static int32_t launch_dual_gemm(const struct problem *problem, const struct plan *plan, uint8_t *scratch) {
    const struct hopper_config *config = plan->config;
    CUtensorMap activations, b1, b2;
    struct tensor_3d activation_tensor = {
        .address = scratch,
        .type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        .row_elems = plan->stages_k * STAGE_K,
        .rows = problem->m,
        .batches = problem->l,
        .element_bytes = 2,
        .box_elems = ACTIVATION_BOX_K,
        .box_rows = (uint32_t)config->tile_tokens,
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
    };
    struct tensor_3d weight_tensor = {
        .address = problem->b1,
        .type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
        .row_elems = problem->k / 2,
        .rows = problem->n,
        .batches = problem->l,
        .element_bytes = 1,
        .box_elems = STAGE_CODE_BYTES,
        .box_rows = (uint32_t)tile_features(config),
        .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE,
    };
    int32_t status = gpu_encode("a", &activation_tensor, &activations);
    if (status == CUSTOM_KERNEL_OK) {
        status = gpu_encode("b1", &weight_tensor, &b1);
    }
    weight_tensor.address = problem->b2;
    if (status == CUSTOM_KERNEL_OK) {
        status = gpu_encode("b2", &weight_tensor, &b2);
    }
    struct launch launch = {
        .kernel = hopper_dual_gemm_kernel(plan->index),
        .grid = {ceil_div(problem->n, tile_features(config)) * config->splits,
                 ceil_div(problem->m, config->tile_tokens), problem->l},
        .threads = block_threads(config),
        .cluster = config->splits,
        .shared_bytes = shared_bytes(config),
        .variable = DEPENDENT_LAUNCH_VARIABLE,
    };
    static atomic_bool allowed[MAX_DEVICES][MAX_CONFIGS];
    if (status == CUSTOM_KERNEL_OK) {
        status =
            gpu_allow_shared_memory(&allowed[problem->device][plan->index], launch.kernel, launch.shared_bytes);
    }
    if (status != CUSTOM_KERNEL_OK) {
        return status;
    }

    uint8_t *blocked_sfb1 = scratch + plan->activation_bytes, *blocked_sfb2 = blocked_sfb1 + plan->scale_bytes;
    int64_t padded_n = round_up(problem->n, SCALE_TILE_ROWS);
    int64_t scale_tiles_k = plan->stages_k * (STAGE_SCALE_BYTES / SCALE_TILE_BYTES);
    struct dual_gemm_params params = {
        .sfb1 = plan->block_scales ? blocked_sfb1 : problem->sfb1,
        .sfb2 = plan->block_scales ? blocked_sfb2 : problem->sfb2,
        .c = problem->c,
        .scale_batch_bytes = padded_n / SCALE_TILE_ROWS * scale_tiles_k * SCALE_TILE_BYTES,
        .m = (int32_t)problem->m,
        .n = (int32_t)problem->n,
        .stages_k = (int32_t)plan->stages_k,
        .scale_tiles_k = (int32_t)scale_tiles_k,
        .scales_made_here = plan->block_scales,
    };
    void *arguments[] = {&activations, &b1, &b2, &params};
    return gpu_launch(problem, &launch, arguments);
}

static int32_t launch(const struct problem *problem, const void *plan, uint8_t *scratch) {
    int32_t status = launch_expand(problem, plan, scratch);
    if (status == CUSTOM_KERNEL_OK && ((const struct plan *)plan)->block_scales) {
        status = launch_block_scales(problem, plan, scratch);
    }
    return status == CUSTOM_KERNEL_OK ? launch_dual_gemm(problem, plan, scratch) : status;
}

static int32_t run_on_current_device(const struct problem *problem) {
    struct plan plan = {0};
    int32_t status = make_plan(problem, &plan);
    if (status != CUSTOM_KERNEL_OK) {
        return status;
    }
    return gpu_with_scratch(problem, plan.activation_bytes + 2 * plan.scale_bytes, &plan, launch);
}

/* HW: sm_90a code runs on compute capability 9.0 only (CUDA programming guide) */
static int available(int32_t device, char *detail, size_t detail_bytes) {
    static const int capabilities[] = {CAPABILITY_H100};
    return gpu_available(device, capabilities, 1, detail, detail_bytes);
}

static int32_t run(const struct problem *problem) {
    return gpu_on_device(problem, run_on_current_device);
}

const struct backend hopper_backend = {
    .id = CUSTOM_KERNEL_BACKEND_HOPPER,
    .name = "hopper",
    .available = available,
    .run = run,
};
