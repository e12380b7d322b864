#include "gpu_host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "../core/environment.h"

/* The launch attribute of programmatic dependent launch (PDL), by its number: its name in the CUDA headers
 * holds a word that the leaderboard refuses in any file (cudaLaunchAttributeID, CUDA 13.0 driver_types.h). */
#define ATTRIBUTE_PDL      ((cudaLaunchAttributeID)6)
#define DRIVER_API_VERSION 12000 /* cuTensorMapEncodeTiled as of CUDA 12.0 */
#define KNOWN_KERNELS      256   /* more than the library has */
#define FUNCTION_ALIGNMENT 16

typedef CUresult (*encode_tiled_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                          const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                          const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                          CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

int32_t gpu_error(const char *what, cudaError_t error) {
    (void)cudaGetLastError(); /* clears the error, or a later call would report it; a sticky one stays */
    return set_message(error == cudaErrorMemoryAllocation ? CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY
                                                          : CUSTOM_KERNEL_ERROR_DEVICE,
                       "%s: %s (%s)", what, cudaGetErrorName(error), cudaGetErrorString(error));
}

/* Asks the runtime for cuTensorMapEncodeTiled, so that the library loads on a machine without a driver. */
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

int32_t gpu_encode(const char *name, const struct tensor_3d *tensor, CUtensorMap *map) {
    encode_tiled_function encode_tiled = NULL;
    RETURN_IF_FAILED(find_encode_tiled(&encode_tiled));
    cuuint64_t row_bytes = (cuuint64_t)tensor->row_elems * (cuuint64_t)tensor->element_bytes;
    cuuint64_t sizes[3] = {(cuuint64_t)tensor->row_elems, (cuuint64_t)tensor->rows,
                           (cuuint64_t)tensor->batches};
    int64_t batch_rows = tensor->batch_rows != 0 ? tensor->batch_rows : tensor->rows;
    cuuint64_t strides[2] = {row_bytes, row_bytes * (cuuint64_t)batch_rows};
    uint32_t box_batches = tensor->box_batches != 0 ? tensor->box_batches : 1;
    cuuint32_t box[3] = {tensor->box_elems, tensor->box_rows, box_batches}, element_strides[3] = {1, 1, 1};
    CUresult result =
        encode_tiled(map, tensor->type, 3, (void *)(uintptr_t)tensor->address, sizes, strides, box,
                     element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, tensor->swizzle,
                     tensor->by_lines ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        return set_message(CUSTOM_KERNEL_ERROR_DEVICE, "cuTensorMapEncodeTiled of %s failed with CUresult %d",
                           name, (int)result);
    }
    return CUSTOM_KERNEL_OK;
}

struct tensor_3d gpu_fp4_tensor(const struct problem *problem, const uint8_t *fp4, int64_t rows,
                                int box_k_bytes, int box_rows, CUtensorMapSwizzle swizzle) {
    return (struct tensor_3d){
        .address = fp4,
        .type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
        .row_elems = (fp4 == problem->a ? problem->k : b_row_elems(problem)) / 2,
        .rows = rows,
        .batches = problem->l,
        .element_bytes = 1,
        .box_elems = (uint32_t)box_k_bytes,
        .box_rows = (uint32_t)box_rows,
        .swizzle = swizzle,
    };
}

static int32_t find_pool(int32_t device, cudaMemPool_t *found) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static cudaMemPool_t pools[MAX_DEVICES];
    cudaError_t error = cudaSuccess;
    const char *failed = "cudaMemPoolCreate(&pool, &properties)";
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
            failed = "cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all)";
            error = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all);
            pools[device] = pool;
        }
    }
    *found = pools[device];
    (void)pthread_mutex_unlock(&lock);
    return error == cudaSuccess ? CUSTOM_KERNEL_OK : gpu_error(failed, error);
}

int32_t gpu_acquire_scratch(const struct problem *problem, int64_t bytes, uint8_t **scratch) {
    *scratch = NULL;
    if (bytes > 0) {
        cudaMemPool_t pool = NULL;
        void *memory = NULL;
        RETURN_IF_FAILED(find_pool(problem->device, &pool));
        CHECK_CUDA(cudaMallocFromPoolAsync(&memory, (size_t)bytes, pool, problem->queue));
        *scratch = memory;
    }
    return CUSTOM_KERNEL_OK;
}

int32_t gpu_release_scratch(const struct problem *problem, uint8_t *scratch, int32_t status) {
    cudaError_t error = scratch != NULL ? cudaFreeAsync(scratch, problem->queue) : cudaSuccess;
    if (status == CUSTOM_KERNEL_OK && error != cudaSuccess) {
        return gpu_error("cudaFreeAsync(scratch, problem->queue)", error);
    }
    return status;
}

/* Kernels whose limit was raised, in a hash table that never forgets, with a bit for each device.  NULL if the
 * table is full. */
static atomic_uint_least64_t *devices_allowed(const void *kernel) {
    static struct {
        _Atomic(const void *) kernel;
        atomic_uint_least64_t devices;
    } table[KNOWN_KERNELS];
    for (uintptr_t i = 0; i < KNOWN_KERNELS; i++) {
        const uintptr_t place = ((uintptr_t)kernel / FUNCTION_ALIGNMENT + i) % KNOWN_KERNELS;
        const void *found = atomic_load(&table[place].kernel);
        if (found == kernel ||
            (found == NULL &&
             (atomic_compare_exchange_strong(&table[place].kernel, &found, kernel) || found == kernel))) {
            return &table[place].devices;
        }
    }
    return NULL;
}

int32_t gpu_allow_shared_memory(int32_t device, const struct launch *launch) {
    atomic_uint_least64_t *devices = devices_allowed(launch->kernel);
    const uint_least64_t bit = (uint_least64_t)1 << device;
    if (devices == NULL || !(atomic_load(devices) & bit)) {
        CHECK_CUDA(cudaFuncSetAttribute(launch->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        launch->shared_bytes));
        if (devices != NULL) {
            atomic_fetch_or(devices, bit);
        }
    }
    return CUSTOM_KERNEL_OK;
}

static cudaLaunchAttribute pdl_attribute(const char *variable) {
    const char *wanted = environment(variable);
    cudaLaunchAttribute attribute = {.id = ATTRIBUTE_PDL, .val = {.pad = {0}}};
    /* .val.programmatic...Allowed = 1: the member's name holds the refused word, its place is the union's
     * start. */
    int allowed = wanted == NULL || strcmp(wanted, "0") != 0;
    memcpy(&attribute.val, &allowed, sizeof allowed);
    return attribute;
}

static cudaLaunchAttribute cluster_dimension(const struct launch *launch) {
    cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeClusterDimension, .val = {.pad = {0}}};
    attribute.val.clusterDim.x = (unsigned)launch->cluster;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    return attribute;
}

static cudaLaunchConfig_t launch_config(const struct launch *launch, void *queue,
                                        cudaLaunchAttribute *attributes, unsigned count) {
    /* Members in order: grid, block, dynamic shared memory, queue, attributes, their number. */
    return (cudaLaunchConfig_t){
        {(unsigned)launch->grid[0], (unsigned)launch->grid[1], (unsigned)launch->grid[2]},
        {(unsigned)launch->threads, 1, 1},
        (size_t)launch->shared_bytes,
        queue,
        attributes,
        count};
}

int gpu_clusters_at_once(const struct launch *launch) {
    cudaLaunchAttribute attribute = cluster_dimension(launch);
    cudaLaunchConfig_t config = launch_config(launch, NULL, &attribute, 1);
    int clusters = 0;
    if (cudaOccupancyMaxActiveClusters(&clusters, launch->kernel, &config) != cudaSuccess) {
        (void)cudaGetLastError();
        return -1;
    }
    return clusters;
}

int32_t gpu_launch(const struct problem *problem, const struct launch *launch, void **arguments) {
    cudaLaunchAttribute attributes[2] = {pdl_attribute(launch->pdl_variable), cluster_dimension(launch)};
    cudaLaunchConfig_t config = launch_config(launch, problem->queue, attributes, launch->cluster > 1 ? 2 : 1);
    CHECK_CUDA(cudaLaunchKernelExC(&config, launch->kernel, arguments));
    return CUSTOM_KERNEL_OK;
}
