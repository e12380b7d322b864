/* The Blackwell back end's host side: plans, encodes the tensor maps, launches the kernels.
 *
 * Kept between calls, beside what gpu/host.h keeps: which kernels were given their shared memory, and how many
 * of their clusters run at once. */
#include <stdbool.h>

#include "../gpu/block_scales.h"
#include "../gpu/host.h"
#include "kernels.h"
#include "tile_selection.h"

#define CONFIG_VARIABLE           "NVFP4_BLACKWELL_CONFIG"
#define DEPENDENT_LAUNCH_VARIABLE "NVFP4_BLACKWELL_DEPENDENT_LAUNCH"

enum {
    SCRATCH_ALIGNMENT = 256,
    MAX_DIMENSION = INT32_MAX / 8, /* coordinates and offsets inside a row are 32 bits */
    SCALE_ELEM_BYTES = 2,          /* of the scale tiles' tensor maps */
    SCALE_BOX_ELEMS = SCALE_TILE_BYTES / SCALE_ELEM_BYTES, /* HW: a box has at most 256 elements a dimension */
};

/* What a call launches. */
struct plan {
    const struct blackwell_config *config;
    int index;
    bool block_scales;            /* the scale factors have to be brought into blocks */
    int64_t sfa_bytes, sfb_bytes; /* of the blocks, in scratch memory */
};

/* A configuration's launch, but for its grid; its kernel is given its shared memory. */
static int32_t make_launch(int32_t device, int index, struct launch *launch) {
    static atomic_bool allowed[MAX_DEVICES][MAX_CONFIGS];
    const struct blackwell_config *config = &blackwell_configs[index];
    *launch = (struct launch){
        .kernel = blackwell_dual_gemm_kernel(index),
        .grid = {(int64_t)config->ctas * config->splits, 1, 1},
        .threads = BLOCK_THREADS,
        .cluster = (int64_t)config->ctas * config->splits,
        .shared_bytes = shared_bytes(config),
        .variable = DEPENDENT_LAUNCH_VARIABLE,
    };
    return gpu_allow_shared_memory(&allowed[device][index], launch->kernel, launch->shared_bytes);
}

/* Clusters of each configuration that run at once: only the driver knows how a chip's SMs lie.  Asked once on
 * each device; where it does not say, they are taken to lie as on a B200. */
static int32_t find_clusters_at_once(int32_t device, int *clusters) {
    static atomic_int known[MAX_DEVICES][MAX_CONFIGS]; /* and one: 0 is unknown */
    int sms = 0;
    for (int i = 0; i < blackwell_config_count; i++) {
        clusters[i] = atomic_load(&known[device][i]) - 1;
        if (clusters[i] >= 0) {
            continue;
        }
        struct launch launch;
        int32_t status = make_launch(device, i, &launch);
        if (status != CUSTOM_KERNEL_OK) {
            return status;
        }
        clusters[i] = gpu_clusters_at_once(&launch);
        if (clusters[i] < 0) {
            CHECK_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
            clusters[i] = blackwell_clusters_at_once(&blackwell_configs[i], sms);
        }
        atomic_store(&known[device][i], clusters[i] + 1);
    }
    return CUSTOM_KERNEL_OK;
}

static int32_t choose_config(const struct problem *problem, int *index) {
    int clusters[MAX_CONFIGS];
    int32_t status = gpu_wanted_tile(CONFIG_VARIABLE, blackwell_tile_name, index);
    if (status != CUSTOM_KERNEL_OK || *index >= 0) {
        return status;
    }
    status = find_clusters_at_once(problem->device, clusters);
    if (status == CUSTOM_KERNEL_OK) {
        *index = blackwell_select_tile(problem->m, problem->n, problem->k, problem->l, clusters);
    }
    return status;
}

static int64_t blocked_bytes(const struct problem *problem, int64_t rows) {
    return problem->l * scale_batch_bytes(CUSTOM_KERNEL_SCALES_BLOCKED, rows, problem->k / NVFP4_GROUP_ELEMS);
}

static int32_t make_plan(const struct problem *problem, struct plan *plan) {
    int32_t status = choose_config(problem, &plan->index);
    if (status != CUSTOM_KERNEL_OK) {
        return status;
    }
    plan->config = &blackwell_configs[plan->index];
    int64_t rows = problem->m > problem->n ? problem->m : problem->n;
    if (rows > MAX_DIMENSION || problem->k > MAX_DIMENSION || problem->l > MAX_GRID_YZ ||
        ceil_div(problem->n, plan->config->features) > MAX_GRID_YZ ||
        ceil_div(rows, SCALE_TILE_ROWS) * (problem->k / STEP_K) > MAX_DIMENSION) {
        return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED,
                           "m %lld, n %lld, k %lld, l %lld: expected m, n, k and scale tiles up to %d, n up to "
                           "%d tiles of %d and "
                           "l up to %d on the blackwell back end",
                           (long long)problem->m, (long long)problem->n, (long long)problem->k,
                           (long long)problem->l, MAX_DIMENSION, MAX_GRID_YZ, plan->config->features,
                           MAX_GRID_YZ);
    }
    if (ceil_div(problem->k, STAGE_K) < plan->config->splits) {
        return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED,
                           "k is %lld; expected more than %d for configuration %s", (long long)problem->k,
                           (plan->config->splits - 1) * STAGE_K, plan->config->name);
    }
    plan->block_scales = problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED;
    plan->sfa_bytes = plan->block_scales ? round_up(blocked_bytes(problem, problem->m), SCRATCH_ALIGNMENT) : 0;
    plan->sfb_bytes = plan->block_scales ? round_up(blocked_bytes(problem, problem->n), SCRATCH_ALIGNMENT) : 0;
    return CUSTOM_KERNEL_OK;
}

/* The scale factors in blocks. */
struct scales {
    const uint8_t *a, *b1, *b2;
};

static int32_t launch_block_scales(const struct problem *problem, const struct plan *plan, uint8_t *scratch,
                                   struct scales *scales) {
    uint8_t *a = scratch, *b1 = a + plan->sfa_bytes, *b2 = b1 + plan->sfb_bytes;
    struct block_scales_params params = {
        .tensors = {{problem->sfa, a, problem->m},
                    {problem->sfb1, b1, problem->n},
                    {problem->sfb2, b2, problem->n}},
        .tiles_k = problem->k / STEP_K,
        .batches = problem->l,
    };
    int64_t most = plan->sfa_bytes > plan->sfb_bytes ? plan->sfa_bytes : plan->sfb_bytes;
    int64_t blocks = ceil_div(most / (int64_t)sizeof(uint32_t), BLOCK_SCALES_THREADS);
    blocks = blocks < BLOCK_SCALES_MAX_BLOCKS ? blocks : BLOCK_SCALES_MAX_BLOCKS;
    struct launch launch = {
        .kernel = blackwell_block_scales_kernel(),
        .grid = {blocks, 1, 1},
        .threads = BLOCK_SCALES_THREADS,
        .cluster = 1,
        .variable = DEPENDENT_LAUNCH_VARIABLE,
    };
    void *arguments[] = {&params};
    *scales = (struct scales){a, b1, b2};
    return gpu_launch(problem, &launch, arguments);
}

static int32_t encode_codes(const char *name, const struct problem *problem, const uint8_t *codes, int64_t rows,
                            int box_rows, CUtensorMap *map) {
    struct tensor_3d tensor = {
        .address = codes,
        .type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
        .row_elems = problem->k / 2,
        .rows = rows,
        .batches = problem->l,
        .element_bytes = 1,
        .box_elems = STAGE_CODE_BYTES,
        .box_rows = (uint32_t)box_rows,
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
    };
    return gpu_encode(name, &tensor, map);
}

static int32_t encode_scales(const char *name, const struct problem *problem, const uint8_t *scales,
                             int64_t rows, CUtensorMap *map) {
    struct tensor_3d tensor = {
        .address = scales,
        .type = CU_TENSOR_MAP_DATA_TYPE_UINT16,
        .row_elems = SCALE_BOX_ELEMS,
        .rows = ceil_div(rows, SCALE_TILE_ROWS) * (problem->k / STEP_K),
        .batches = problem->l,
        .element_bytes = SCALE_ELEM_BYTES,
        .box_elems = SCALE_BOX_ELEMS,
        .box_rows = STAGE_STEPS,
        .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE,
    };
    return gpu_encode(name, &tensor, map);
}

static int32_t encode_maps(const struct problem *problem, const struct plan *plan, const struct scales *scales,
                           struct dual_gemm_params *params) {
    int b_rows = plan->config->features / plan->config->ctas;
    int32_t status = encode_codes("a", problem, problem->a, problem->m, TILE_TOKENS, &params->a);
    if (status == CUSTOM_KERNEL_OK) {
        status = encode_codes("b1", problem, problem->b1, problem->n, b_rows, &params->b1);
    }
    if (status == CUSTOM_KERNEL_OK) {
        status = encode_codes("b2", problem, problem->b2, problem->n, b_rows, &params->b2);
    }
    if (status == CUSTOM_KERNEL_OK) {
        status = encode_scales("sfa", problem, scales->a, problem->m, &params->sfa);
    }
    if (status == CUSTOM_KERNEL_OK) {
        status = encode_scales("sfb1", problem, scales->b1, problem->n, &params->sfb1);
    }
    if (status == CUSTOM_KERNEL_OK) {
        status = encode_scales("sfb2", problem, scales->b2, problem->n, &params->sfb2);
    }
    return status;
}

static int32_t launch_dual_gemm(const struct problem *problem, const struct plan *plan,
                                const struct scales *scales) {
    const struct blackwell_config *config = plan->config;
    struct dual_gemm_params params = {
        .c = problem->c,
        .m = (int32_t)problem->m,
        .n = (int32_t)problem->n,
        .steps_k = (int32_t)(problem->k / STEP_K),
        .scales_made_here = plan->block_scales,
    };
    struct launch launch;
    int32_t status = make_launch(problem->device, plan->index, &launch);
    launch.grid[0] = round_up(ceil_div(problem->m, TILE_TOKENS), config->ctas) * config->splits;
    launch.grid[1] = ceil_div(problem->n, config->features);
    launch.grid[2] = problem->l;
    if (status == CUSTOM_KERNEL_OK) {
        status = encode_maps(problem, plan, scales, &params);
    }
    void *arguments[] = {&params};
    return status == CUSTOM_KERNEL_OK ? gpu_launch(problem, &launch, arguments) : status;
}

static int32_t run_with_blocked_scales(const struct problem *problem, const void *plan, uint8_t *scratch) {
    struct scales scales;
    int32_t status = launch_block_scales(problem, plan, scratch, &scales);
    return status == CUSTOM_KERNEL_OK ? launch_dual_gemm(problem, plan, &scales) : status;
}

static int32_t run_on_current_device(const struct problem *problem) {
    struct plan plan = {0};
    int32_t status = make_plan(problem, &plan);
    if (status != CUSTOM_KERNEL_OK) {
        return status;
    }
    struct scales scales = {problem->sfa, problem->sfb1, problem->sfb2};
    return plan.block_scales
               ? gpu_with_scratch(problem, plan.sfa_bytes + 2 * plan.sfb_bytes, &plan, run_with_blocked_scales)
               : launch_dual_gemm(problem, &plan, &scales);
}

/* HW: sm_100a code runs on compute capability 10.0 only, sm_103a code on 10.3 only. */
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

static int32_t run(const struct problem *problem) {
    return gpu_on_device(problem, run_on_current_device);
}

const struct backend blackwell_backend = {
    .id = CUSTOM_KERNEL_BACKEND_BLACKWELL,
    .name = "blackwell",
    .available = available,
    .run = run,
};
