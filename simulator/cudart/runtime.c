/* The CUDA runtime's functions that the back ends and small programs call.  One device; every launch has run
 * when its call returns, so that the queue argument means nothing. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry.h"

static _Thread_local cudaError_t last_error;

static cudaError_t result(cudaError_t error) {
    if (error != cudaSuccess) {
        last_error = error;
    }
    return error;
}

/* ---- device ---- */

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    return result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    const int shared = 227 * 1024, l2 = 50 << 20;
    if (device != 0) {
        return result(cudaErrorInvalidDevice);
    }
    *value = attribute == cudaDevAttrComputeCapabilityMajor             ? runtime_major()
             : attribute == cudaDevAttrComputeCapabilityMinor           ? 0
             : attribute == cudaDevAttrMultiProcessorCount              ? runtime_sms()
             : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin     ? shared
             : attribute == cudaDevAttrMaxSharedMemoryPerMultiprocessor ? shared + 1024
             : attribute == cudaDevAttrMaxThreadsPerBlock               ? 1024
             : attribute == cudaDevAttrWarpSize                         ? 32
             : attribute == cudaDevAttrL2CacheSize                      ? l2
             : attribute == cudaDevAttrClusterLaunch                    ? 1
                                                                        : 0;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) {
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t queue) {
    (void)queue;
    return cudaSuccess;
}

/* ---- errors ---- */

cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void) {
    return last_error;
}

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorInvalidKernelImage, "cudaErrorInvalidKernelImage", "device kernel image is invalid"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "the simulator found an error; see its report"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported by the simulator"},
};

const char *cudaGetErrorName(cudaError_t error) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].error == error) {
            return errors[i].name;
        }
    }
    return "cudaErrorUnknown";
}

const char *cudaGetErrorString(cudaError_t error) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].error == error) {
            return errors[i].text;
        }
    }
    return "unknown error";
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    struct sim *sim = runtime_lock();
    *memory = sim_alloc(sim, bytes, "cudaMalloc");
    runtime_unlock();
    return result(*memory == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaFree(void *memory) {
    if (memory == NULL) {
        return cudaSuccess;
    }
    struct sim *sim = runtime_lock();
    int status = sim_free(sim, memory);
    runtime_unlock();
    return result(status == SIM_OK ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t queue) {
    (void)queue;
    return cudaMalloc(memory, bytes);
}

cudaError_t cudaMallocFromPoolAsync(void **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t queue) {
    (void)pool;
    (void)queue;
    return cudaMalloc(memory, bytes);
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t queue) {
    (void)queue;
    return cudaFree(memory);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties) {
    static char the_pool;
    (void)properties;
    *pool = (cudaMemPool_t)(void *)&the_pool;
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    (void)pool;
    (void)attribute;
    (void)value;
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    struct sim *sim = runtime_lock();
    int status = kind == cudaMemcpyHostToDevice   ? sim_write(sim, to, from, bytes)
                 : kind == cudaMemcpyDeviceToHost ? sim_read(sim, to, from, bytes)
                                                  : (memmove(to, from, bytes), SIM_OK);
    runtime_unlock();
    return result(status == SIM_OK ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t queue) {
    (void)queue;
    return cudaMemcpy(to, from, bytes, kind);
}

cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    memset(to, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t queue) {
    (void)queue;
    return cudaMemset(to, value, bytes);
}

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol) {
    (void)runtime_lock();
    *address = registry_variable(symbol, NULL);
    runtime_unlock();
    return result(*address == NULL ? cudaErrorInvalidValue : cudaSuccess);
}

/* ---- driver entry points ---- */

/* Programs linked against libcuda call it by name. */
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
    struct sim_tensor_map in = {.data_type = (uint32_t)type,
                                .rank = rank,
                                .address = address,
                                .interleave = (uint32_t)interleave,
                                .swizzle = (uint32_t)swizzle,
                                .l2_promotion = (uint32_t)promotion,
                                .oob_fill = (uint32_t)fill};
    char message[200];
    for (cuuint32_t i = 0; i < rank && i < 5; i++) {
        in.sizes[i] = sizes[i];
        in.box[i] = box[i];
        in.element_strides[i] = element_strides[i];
        in.strides[i] = i + 1 < rank ? strides[i] : 0;
    }
    if (sim_encode_tensor_map(map, &in, message, sizeof message) != 0) {
        (void)fprintf(stderr, "simulator: cuTensorMapEncodeTiled: %s\n", message);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **entry, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found) {
    CUresult (*function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                         const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                         CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) =
        cuTensorMapEncodeTiled;
    (void)version;
    (void)flags;
    bool known = strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
    *entry = NULL;
    if (known) {
        memcpy(entry, &function, sizeof *entry); /* ISO C has no cast from function to object pointer */
    }
    if (found != NULL) {
        *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    }
    return cudaSuccess;
}
