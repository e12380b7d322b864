/* The Hopper back end's host side: checks the device, encodes the tensor maps, launches the kernels.
 *
 * Nothing is kept between calls but each device's memory pool and which kernels were given their shared memory;
 * neither depends on data or addresses. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "plan.h"

#define CONFIG_VARIABLE           "NVFP4_HOPPER_CONFIG"
#define DEPENDENT_LAUNCH_VARIABLE "NVFP4_HOPPER_DEPENDENT_LAUNCH"

/* The launch attribute of programmatic dependent launch, by its number: its name in the CUDA headers holds a
 * word that the leaderboard refuses in any file (cudaLaunchAttributeID, CUDA 13.0 driver_types.h). */
#define ATTRIBUTE_DEPENDENT_LAUNCH ((cudaLaunchAttributeID)6)
#define DRIVER_API_VERSION         12000 /* cuTensorMapEncodeTiled as of CUDA 12.0 */

enum {
    HOPPER_MAJOR = 9, /* HW: sm_90a code runs on compute capability 9.0 only (CUDA programming guide) */
    HOPPER_MINOR = 0,
    MAX_DEVICES = 64,
    MAX_CONFIGS = 32,
    MAX_GRID_YZ = 65535, /* HW: CUDA programming guide, grid dimensions */
    SCRATCH_ALIGNMENT = 256,
    MAX_BLOCK_SCALES_GRID = 1 << 16, /* its threads take as many words as there are */
};

typedef CUresult (*encode_tiled_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                          const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                          const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                          CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static int64_t ceil_div(int64_t x, int64_t y) {
    return x / y + (x % y != 0);
}

static int64_t round_up(int64_t x, int64_t unit) {
    return ceil_div(x, unit) * unit;
}

static int32_t cuda_error(const char *what, cudaError_t error) {
    (void)cudaGetLastError(); /* a later call shall not be blamed for it; a sticky one stays */
    return set_message(error == cudaErrorMemoryAllocation ? CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY
                                                          : CUSTOM_KERNEL_ERROR_DEVICE,
                       "%s: %s (%s)", what, cudaGetErrorName(error), cudaGetErrorString(error));
}

#define CHECK_CUDA(call)                                                                                       \
    do {                                                                                                       \
        cudaError_t error_ = (call);                                                                           \
        if (error_ != cudaSuccess) {                                                                           \
            return cuda_error(#call, error_);                                                                  \
        }                                                                                                      \
    } while (0)

static int device_available(int32_t device, char *detail, size_t detail_bytes) {
    int major = 0, minor = 0, sms = 0;
    cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    }
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    }
    int right = error == cudaSuccess && major == HOPPER_MAJOR && minor == HOPPER_MINOR;
    if (detail == NULL) {
        return right;
    }
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        (void)snprintf(detail, detail_bytes, "CUDA device %d: %s", device, cudaGetErrorString(error));
    } else {
        (void)snprintf(detail, detail_bytes, "CUDA device %d, compute capability %d.%d, %d SMs%s", device,
                       major, minor, sms, right ? "" : "; it needs 9.0");
    }
    return right;
}

static int available(int32_t device, char *detail, size_t detail_bytes) {
    if (device >= 0) {
        return device_available(device, detail, detail_bytes);
    }
    int devices = 0;
    cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0) {
        (void)cudaGetLastError();
        if (detail != NULL) {
            (void)snprintf(detail, detail_bytes, "no CUDA device (%s)", cudaGetErrorString(error));
        }
        return 0;
    }
    for (int i = 0; i < devices; i++) {
        if (device_available(i, detail, detail_bytes)) {
            return 1;
        }
    }
    return 0;
}

/* cuTensorMapEncodeTiled through the runtime, so that the library loads where there is no driver. */
static int32_t find_encode_tiled(encode_tiled_function *found) {
    static _Atomic(encode_tiled_function) known;
    *found = atomic_load(&known);
    if (*found == NULL) {
        void *entry = NULL;
        enum cudaDriverEntryPointQueryResult result;
        CHECK_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, DRIVER_API_VERSION,
                                                    cudaEnableDefault, &result));
        if (entry == NULL || result != cudaDriverEntryPointSuccess) {
            return set_message(CUSTOM_KERNEL_ERROR_UNAVAILABLE,
                               "the CUDA driver has no cuTensorMapEncodeTiled");
        }
        memcpy(found, &entry, sizeof entry); /* ISO C has no cast from object to function pointer */
        atomic_store(&known, *found);
    }
    return CUSTOM_KERNEL_OK;
}

/* A device's own memory pool for scratch: it keeps its memory, and reuse follows the order of the queue. */
static int32_t find_pool(int32_t device, cudaMemPool_t *found) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static cudaMemPool_t pools[MAX_DEVICES];
    cudaError_t error = cudaSuccess;
    (void)pthread_mutex_lock(&lock);
    if (pools[device] == NULL) {
        struct cudaMemPoolProps properties = {
            .allocType = cudaMemAllocationTypePinned,
            .handleTypes = cudaMemHandleTypeNone,
            .location = {.type = cudaMemLocationTypeDevice, .id = device},
        };
        cudaMemPool_t pool = NULL;
        uint64_t keep_all = UINT64_MAX;
        error = cudaMemPoolCreate(&pool, &properties);
        if (error == cudaSuccess) {
            error = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all);
            pools[device] = pool;
        }
    }
    *found = pools[device];
    (void)pthread_mutex_unlock(&lock);
    CHECK_CUDA(error);
    return CUSTOM_KERNEL_OK;
}

static int32_t choose_config(const struct problem *problem, int *index) {
    const char *wanted = getenv(CONFIG_VARIABLE);
    if (wanted != NULL && wanted[0] != '\0') {
        *index = hopper_config_named(wanted);
        if (*index < 0) {
            return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                               CONFIG_VARIABLE " is '%.64s'; expected a name of submission/hopper/config.h",
                               wanted);
        }
        return CUSTOM_KERNEL_OK;
    }
    int sms = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, problem->device));
    *index = hopper_choose(problem->m, problem->n, ceil_div(problem->k, STAGE_K), problem->l, sms);
    return CUSTOM_KERNEL_OK;
}

/* The kernel's shared memory has to be asked for once on each device. */
static int32_t allow_shared_memory(int32_t device, int index) {
    static atomic_bool allowed[MAX_DEVICES][MAX_CONFIGS];
    if (!atomic_load(&allowed[device][index])) {
        CHECK_CUDA(cudaFuncSetAttribute(hopper_dual_gemm_kernel(index),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        shared_bytes(&hopper_configs[index])));
        atomic_store(&allowed[device][index], true);
    }
    return CUSTOM_KERNEL_OK;
}

struct tensor_3d {
    const void *address;
    CUtensorMapDataType type;
    int64_t row_elems, rows, batches;
    int element_bytes;
    uint32_t box_elems, box_rows;
    CUtensorMapSwizzle swizzle;
};

static int32_t encode(encode_tiled_function encode_tiled, const char *name, const struct tensor_3d *tensor,
                      CUtensorMap *map) {
    cuuint64_t row_bytes = (cuuint64_t)tensor->row_elems * (cuuint64_t)tensor->element_bytes;
    cuuint64_t sizes[3] = {(cuuint64_t)tensor->row_elems, (cuuint64_t)tensor->rows,
                           (cuuint64_t)tensor->batches};
    cuuint64_t strides[2] = {row_bytes, row_bytes * (cuuint64_t)tensor->rows};
    cuuint32_t box[3] = {tensor->box_elems, tensor->box_rows, 1}, element_strides[3] = {1, 1, 1};
    CUresult result = encode_tiled(map, tensor->type, 3, (void *)(uintptr_t)tensor->address, sizes, strides,
                                   box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, tensor->swizzle,
                                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        return set_message(CUSTOM_KERNEL_ERROR_DEVICE, "cuTensorMapEncodeTiled of %s failed with CUresult %d",
                           name, (int)result);
    }
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
    const int64_t limit = INT32_MAX / 2; /* coordinates are 32 bits, with a tile to spare */
    if (problem->m > limit || problem->n > limit || problem->k > limit || problem->l > MAX_GRID_YZ ||
        token_tiles > MAX_GRID_YZ ||
        plan->stages_k * UNITS_OF_CHUNK > (int64_t)MAX_GRID_YZ * MAX_EXPAND_THREADS) {
        return set_message(
            CUSTOM_KERNEL_ERROR_UNSUPPORTED,
            "m %lld, n %lld, k %lld, l %lld: expected n and k up to %lld, m up to %d tiles of %d and l "
            "up to %d on the hopper back end",
            (long long)problem->m, (long long)problem->n, (long long)problem->k, (long long)problem->l,
            (long long)limit, MAX_GRID_YZ, plan->config->tile_tokens, MAX_GRID_YZ);
    }
    plan->block_scales = problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED || padded_k != problem->k;
    plan->activation_bytes = round_up(problem->l * problem->m * padded_k * 2, SCRATCH_ALIGNMENT);
    plan->scale_bytes =
        plan->block_scales ? round_up(problem->l * padded_n * (padded_k / NVFP4_GROUP_ELEMS), SCRATCH_ALIGNMENT)
                           : 0;
    return CUSTOM_KERNEL_OK;
}

/* Launch attribute: a kernel may start before the one in front of it is complete, and waits for that itself. */
static cudaLaunchAttribute dependent_launch(void) {
    const char *wanted = getenv(DEPENDENT_LAUNCH_VARIABLE);
    cudaLaunchAttribute attribute = {.id = ATTRIBUTE_DEPENDENT_LAUNCH, .val = {.pad = {0}}};
    /* .val.programmatic...Allowed = 1: the member's name holds the refused word, its place is the union's
     * start. */
    int allowed = wanted == NULL || strcmp(wanted, "0") != 0;
    memcpy(&attribute.val, &allowed, sizeof allowed);
    return attribute;
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
    cudaLaunchAttribute attribute = dependent_launch();
    /* Members in order: grid, block, dynamic shared memory, queue, attributes, their number. */
    cudaLaunchConfig_t config = {
        {(unsigned)problem->m, (unsigned)ceil_div(params.units, threads), (unsigned)problem->l},
        {(unsigned)threads, 1, 1},
        0,
        problem->queue,
        &attribute,
        1};
    void *arguments[] = {&params};
    CHECK_CUDA(cudaLaunchKernelExC(&config, hopper_expand_kernel(), arguments));
    return CUSTOM_KERNEL_OK;
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
    cudaLaunchAttribute attribute = dependent_launch();
    cudaLaunchConfig_t config = {
        {(unsigned)blocks, 1, 1}, {BLOCK_SCALES_THREADS, 1, 1}, 0, problem->queue, &attribute, 1};
    void *arguments[] = {&params};
    CHECK_CUDA(cudaLaunchKernelExC(&config, hopper_block_scales_kernel(), arguments));
    return CUSTOM_KERNEL_OK;
}

static int32_t launch_dual_gemm(const struct problem *problem, const struct plan *plan, uint8_t *scratch) {
    const struct hopper_config *config = plan->config;
    encode_tiled_function encode_tiled = NULL;
    CUtensorMap activations, b1, b2, cm;
    int32_t status = find_encode_tiled(&encode_tiled);
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
    if (status == CUSTOM_KERNEL_OK) {
        status = encode(encode_tiled, "a", &activation_tensor, &activations);
    }
    if (status == CUSTOM_KERNEL_OK) {
        status = encode(encode_tiled, "b1", &weight_tensor, &b1);
    }
    struct tensor_3d output_tensor = {.address = problem->c, .type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16, .row_elems = problem->n, .rows = problem->m, .batches = problem->l, .element_bytes = 2, .box_elems = 32, .box_rows = (uint32_t)(config->tile_tokens / config->splits), .swizzle = CU_TENSOR_MAP_SWIZZLE_64B};
    if (status == CUSTOM_KERNEL_OK) {
        status = encode(encode_tiled, "c", &output_tensor, &cm);
    }
    weight_tensor.address = problem->b2;
    if (status == CUSTOM_KERNEL_OK) {
        status = encode(encode_tiled, "b2", &weight_tensor, &b2);
    }
    if (status == CUSTOM_KERNEL_OK) {
        status = allow_shared_memory(problem->device, plan->index);
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
    unsigned splits = (unsigned)config->splits;
    cudaLaunchAttribute attributes[2] = {
        dependent_launch(), {.id = cudaLaunchAttributeClusterDimension, .val.clusterDim = {splits, 1, 1}}};
    cudaLaunchConfig_t launch = {{(unsigned)ceil_div(problem->n, tile_features(config)) * splits,
                                  (unsigned)ceil_div(problem->m, config->tile_tokens), (unsigned)problem->l},
                                 {(unsigned)block_threads(config), 1, 1},
                                 (size_t)shared_bytes(config),
                                 problem->queue,
                                 attributes,
                                 splits > 1 ? 2 : 1};
    void *arguments[] = {&activations, &b1, &b2, &cm, &params};
    CHECK_CUDA(cudaLaunchKernelExC(&launch, hopper_dual_gemm_kernel(plan->index), arguments));
    return CUSTOM_KERNEL_OK;
}

static int32_t launch(const struct problem *problem, const struct plan *plan, uint8_t *scratch) {
    int32_t status = launch_expand(problem, plan, scratch);
    if (status == CUSTOM_KERNEL_OK && plan->block_scales) {
        status = launch_block_scales(problem, plan, scratch);
    }
    return status == CUSTOM_KERNEL_OK ? launch_dual_gemm(problem, plan, scratch) : status;
}

static int32_t run_on_current_device(const struct problem *problem) {
    struct plan plan;
    int32_t status = make_plan(problem, &plan);
    cudaMemPool_t pool = NULL;
    if (status == CUSTOM_KERNEL_OK) {
        status = find_pool(problem->device, &pool);
    }
    if (status != CUSTOM_KERNEL_OK) {
        return status;
    }
    void *scratch = NULL;
    size_t bytes = (size_t)(plan.activation_bytes + 2 * plan.scale_bytes);
    CHECK_CUDA(cudaMallocFromPoolAsync(&scratch, bytes, pool, problem->queue));
    status = launch(problem, &plan, scratch);
    cudaError_t error = cudaFreeAsync(scratch, problem->queue);
    if (status == CUSTOM_KERNEL_OK) {
        CHECK_CUDA(error);
    }
    return status;
}

static int32_t run(const struct problem *problem) {
    if (problem->device >= MAX_DEVICES) {
        return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED, "device is %d; expected less than %d",
                           problem->device, MAX_DEVICES);
    }
    int before = 0;
    CHECK_CUDA(cudaGetDevice(&before));
    if (before == problem->device) {
        return run_on_current_device(problem);
    }
    CHECK_CUDA(cudaSetDevice(problem->device));
    int32_t status = run_on_current_device(problem);
    cudaError_t error = cudaSetDevice(before);
    if (status == CUSTOM_KERNEL_OK) {
        CHECK_CUDA(error);
    }
    return status;
}

const struct backend hopper_backend = {
    .id = CUSTOM_KERNEL_BACKEND_HOPPER,
    .name = "hopper",
    .available = available,
    .run = run,
};
