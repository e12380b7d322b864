/* The driver's memory functions: the runtime's under other names. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "cudart/shim.h"
#include "driver.h"

static void *at(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

SAME_AS_RUNTIME(cuMemAlloc, (CUdeviceptr * address, size_t bytes), cudaMalloc((void **)(void *)address, bytes))
SAME_AS_RUNTIME(cuMemAllocAsync, (CUdeviceptr * address, size_t bytes, CUstream queue),
                cudaMallocAsync((void **)(void *)address, bytes, queue))
SAME_AS_RUNTIME(cuMemAllocManaged, (CUdeviceptr * address, size_t bytes, unsigned flags),
                cudaMallocManaged((void **)(void *)address, bytes, flags))
SAME_AS_RUNTIME(cuMemAllocHost, (void **memory, size_t bytes), cudaMallocHost(memory, bytes))

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    (void)flags;
    return cuMemAllocHost(memory, bytes);
}

SAME_AS_RUNTIME(cuMemFree, (CUdeviceptr address), cudaFree(at(address)))
SAME_AS_RUNTIME(cuMemFreeAsync, (CUdeviceptr address, CUstream queue), cudaFreeAsync(at(address), queue))
SAME_AS_RUNTIME(cuMemFreeHost, (void *memory), cudaFree(memory))
SAME_AS_RUNTIME(cuMemGetInfo, (size_t *available, size_t *total), cudaMemGetInfo(available, total))
SAME_AS_RUNTIME(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
                cudaMemcpy(at(to), at(from), bytes, cudaMemcpyDefault))
SAME_AS_RUNTIME(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream queue),
                cudaMemcpyAsync(at(to), at(from), bytes, cudaMemcpyDefault, queue))
SAME_AS_RUNTIME(cuMemcpyHtoD, (CUdeviceptr to, const void *from, size_t bytes),
                cudaMemcpy(at(to), from, bytes, cudaMemcpyHostToDevice))
SAME_AS_RUNTIME(cuMemcpyHtoDAsync, (CUdeviceptr to, const void *from, size_t bytes, CUstream queue),
                cudaMemcpyAsync(at(to), from, bytes, cudaMemcpyHostToDevice, queue))
SAME_AS_RUNTIME(cuMemcpyDtoH, (void *to, CUdeviceptr from, size_t bytes),
                cudaMemcpy(to, at(from), bytes, cudaMemcpyDeviceToHost))
SAME_AS_RUNTIME(cuMemcpyDtoHAsync, (void *to, CUdeviceptr from, size_t bytes, CUstream queue),
                cudaMemcpyAsync(to, at(from), bytes, cudaMemcpyDeviceToHost, queue))
SAME_AS_RUNTIME(cuMemcpyDtoD, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
                cudaMemcpy(at(to), at(from), bytes, cudaMemcpyDeviceToDevice))
SAME_AS_RUNTIME(cuMemcpyDtoDAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream queue),
                cudaMemcpyAsync(at(to), at(from), bytes, cudaMemcpyDeviceToDevice, queue))
SAME_AS_RUNTIME(cuMemsetD8, (CUdeviceptr to, unsigned char value, size_t count),
                runtime_set(at(to), value, 1, count, NULL))
SAME_AS_RUNTIME(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream queue),
                runtime_set(at(to), value, 1, count, queue))
SAME_AS_RUNTIME(cuMemsetD16, (CUdeviceptr to, unsigned short value, size_t count),
                runtime_set(at(to), value, 2, count, NULL))
SAME_AS_RUNTIME(cuMemsetD16Async, (CUdeviceptr to, unsigned short value, size_t count, CUstream queue),
                runtime_set(at(to), value, 2, count, queue))
SAME_AS_RUNTIME(cuMemsetD32, (CUdeviceptr to, unsigned value, size_t count),
                runtime_set(at(to), value, 4, count, NULL))
SAME_AS_RUNTIME(cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t count, CUstream queue),
                runtime_set(at(to), value, 4, count, queue))

/* Answers what launchers ask: the kind of memory, its addresses, its device. */
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address) {
    struct cudaPointerAttributes known;
    cudaError_t error = cudaPointerGetAttributes(&known, at(address));
    const bool no_host = attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && known.hostPointer == NULL;
    if (error == cudaSuccess && (known.type == cudaMemoryTypeUnregistered || no_host)) {
        return CUDA_ERROR_INVALID_VALUE; /* as the driver returns for memory that it has not allocated */
    }
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(CUdeviceptr *)data = address;
        return driver_result(error);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = known.type == cudaMemoryTypeHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return driver_result(error);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)data = known.type == cudaMemoryTypeManaged;
        return driver_result(error);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = 0;
        return driver_result(error);
    default:
        return (CUresult)runtime_unmodelled("cuPointerGetAttribute of this attribute");
    }
}
