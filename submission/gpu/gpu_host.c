#include "gpu_host.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The launch attribute of programmatic dependent launch (PDL), by its number: its name in the CUDA headers
 * holds a word that the leaderboard refuses in any file (cudaLaunchAttributeID, CUDA 13.0 driver_types.h). */
#define ATTRIBUTE_PDL      ((cudaLaunchAttributeID)6)
#define DRIVER_API_VERSION 12000 /* cuTensorMapEncodeTiled as of CUDA 12.0 */
#define NAMES_BYTES        256   /* for the names of a backend's tiles; longer lists are cut */

typedef CUresult (*encode_tiled_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                          const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                          const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                          CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

int32_t gpu_error(const char *what, cudaError_t error) {
    (void)cudaGetLastError(); /* or a later call would report it again; a sticky error stays */
    return set_message(error == cudaErrorMemoryAllocation ? CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY
                                                          : CUSTOM_KERNEL_ERROR_DEVICE,
                       "%s: %s (%s)", what, cudaGetErrorName(error), cudaGetErrorString(error));
}

/* The chips of a compute capability (NVIDIA, "CUDA GPU Compute Capability"). */
static const char *chips_of(int capability) {
    switch (capability) {
    case 90:
        return "H100, H200";
    case 100:
        return "B200";
    case 103:
        return "B300";
    case 120:
        return "RTX 50, RTX PRO 6000";
    case 121:
        return "GB10";
    default:
        return "unknown chips";
    }
}

/* Appends "; it needs 10.0 (B200) or 10.3 (B300)" to `detail`. */
static void add_needed(const int *capabilities, int count, char *detail, size_t detail_bytes) {
    for (int i = 0; i < count; i++) {
        size_t used = strlen(detail);
        (void)snprintf(detail + used, detail_bytes - used, "%s %d.%d (%s)", i == 0 ? "; it needs" : " or",
                       capabilities[i] / 10, capabilities[i] % 10, chips_of(capabilities[i]));
    }
}

static int device_available(int32_t device, const int *capabilities, int count, char *detail,
                            size_t detail_bytes) {
    int major = 0, minor = 0, sms = 0;
    cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    }
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    }
    int right = 0;
    for (int i = 0; i < count && error == cudaSuccess; i++) {
        right = right || capabilities[i] == 10 * major + minor;
    }
    if (detail == NULL) {
        return right;
    }
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        (void)snprintf(detail, detail_bytes, "CUDA device %d: %s", device, cudaGetErrorString(error));
        return right;
    }
    (void)snprintf(detail, detail_bytes, "CUDA device %d, compute capability %d.%d, %d SMs", device, major,
                   minor, sms);
    if (!right) {
        add_needed(capabilities, count, detail, detail_bytes);
    }
    return right;
}

int gpu_available(int32_t device, const int *capabilities, int count, char *detail, size_t detail_bytes) {
    if (device >= 0) {
        return device_available(device, capabilities, count, detail, detail_bytes);
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
        if (device_available(i, capabilities, count, detail, detail_bytes)) {
            return 1;
        }
    }
    return 0;
}

int32_t gpu_acquire_device(const struct problem *problem, int *before) {
    if (problem->device >= MAX_DEVICES) {
        return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED, "device is %d; expected at most %d",
                           problem->device, MAX_DEVICES - 1);
    }
    CHECK_CUDA(cudaGetDevice(before));
    if (*before != problem->device) {
        CHECK_CUDA(cudaSetDevice(problem->device));
    }
    return CUSTOM_KERNEL_OK;
}

int32_t gpu_release_device(const struct problem *problem, int before, int32_t status) {
    cudaError_t error = before != problem->device ? cudaSetDevice(before) : cudaSuccess;
    if (status == CUSTOM_KERNEL_OK && error != cudaSuccess) {
        return gpu_error("cudaSetDevice(before)", error);
    }
    return status;
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
    CUresult result = encode_tiled(map, tensor->type, 3, (void *)(uintptr_t)tensor->address, sizes, strides,
                                   box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, tensor->swizzle,
                                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
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
        .row_elems = problem->k / 2,
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

int32_t gpu_check_limits(const char *backend, const char *tile, const struct limit *limits, int count) {
    for (int i = 0; i < count; i++) {
        if (limits[i].found > limits[i].most) {
            return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED,
                               "%s is %lld; expected at most %lld on the %s backend%s%s", limits[i].what,
                               (long long)limits[i].found, (long long)limits[i].most, backend,
                               tile != NULL ? " with tile " : "", tile != NULL ? tile : "");
        }
    }
    return CUSTOM_KERNEL_OK;
}

int32_t gpu_wanted_tile(const char *variable, const char *(*name_of)(int index), int *index) {
    const char *wanted = getenv(variable);
    *index = -1;
    if (wanted == NULL || wanted[0] == '\0') {
        return CUSTOM_KERNEL_OK;
    }
    char names[NAMES_BYTES] = "";
    for (int i = 0; name_of(i) != NULL; i++) {
        if (strcmp(wanted, name_of(i)) == 0) {
            *index = i;
            return CUSTOM_KERNEL_OK;
        }
        size_t used = strlen(names);
        (void)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ", name_of(i));
    }
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is '%.64s'; expected one of %s", variable, wanted,
                       names);
}

int32_t gpu_allow_shared_memory(atomic_bool *allowed, const struct launch *launch) {
    if (!atomic_load(allowed)) {
        CHECK_CUDA(cudaFuncSetAttribute(launch->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        launch->shared_bytes));
        atomic_store(allowed, true);
    }
    return CUSTOM_KERNEL_OK;
}

static cudaLaunchAttribute pdl_attribute(const char *variable) {
    const char *wanted = getenv(variable);
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

static int64_t at_most(int64_t x, int64_t limit) {
    return x < limit ? x : limit;
}

int32_t gpu_launch_permute_scales(const struct problem *problem, const void *kernel,
                                  struct permute_scales_params params, const char *pdl_variable) {
    params.groups = problem->k / NVFP4_GROUP_ELEMS;
    params.batches = problem->l;
    params.scale_layout = problem->scale_layout;
    int64_t most_tile_rows = 0;
    for (int i = 0; i < params.count; i++) {
        int64_t tile_rows = scale_tile_rows(params.tensors[i].rows);
        most_tile_rows = tile_rows > most_tile_rows ? tile_rows : most_tile_rows;
    }
    struct launch launch = {
        .kernel = kernel,
        .grid = {ceil_div(params.tiles_k, PERMUTE_SCALES_CTA_TILES), at_most(most_tile_rows, MAX_GRID_YZ),
                 at_most(problem->l * params.count, MAX_GRID_YZ)},
        .threads = PERMUTE_SCALES_THREADS,
        .cluster = 1,
        .pdl_variable = pdl_variable,
    };
    void *arguments[] = {&params};
    return gpu_launch(problem, &launch, arguments);
}
