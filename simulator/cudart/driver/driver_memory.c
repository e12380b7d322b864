/* The driver's memory functions: the runtime's under other names. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "cudart/shim.h"
#include "driver.h"

static void *at(CUdeviceptr address) {
    return (void *)(uintptr_t)address;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
    return driver_result(cudaMalloc((void **)(void *)address, bytes));
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream queue) {
    return driver_result(cudaMallocAsync((void **)(void *)address, bytes, queue));
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags) {
    return driver_result(cudaMallocManaged((void **)(void *)address, bytes, flags));
}

CUresult cuMemAllocHost(void **memory, size_t bytes) {
    return driver_result(cudaMallocHost(memory, bytes));
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    (void)flags;
    return cuMemAllocHost(memory, bytes);
}

CUresult cuMemFree(CUdeviceptr address) {
    return driver_result(cudaFree(at(address)));
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream queue) {
    return driver_result(cudaFreeAsync(at(address), queue));
}

CUresult cuMemFreeHost(void *memory) {
    return driver_result(cudaFree(memory));
}

CUresult cuMemGetInfo(size_t *available, size_t *total) {
    return driver_result(cudaMemGetInfo(available, total));
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return driver_result(cudaMemcpy(at(to), at(from), bytes, cudaMemcpyDefault));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream queue) {
    return driver_result(cudaMemcpyAsync(at(to), at(from), bytes, cudaMemcpyDefault, queue));
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
    return driver_result(cudaMemcpy(at(to), from, bytes, cudaMemcpyHostToDevice));
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream queue) {
    return driver_result(cudaMemcpyAsync(at(to), from, bytes, cudaMemcpyHostToDevice, queue));
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
    return driver_result(cudaMemcpy(to, at(from), bytes, cudaMemcpyDeviceToHost));
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream queue) {
    return driver_result(cudaMemcpyAsync(to, at(from), bytes, cudaMemcpyDeviceToHost, queue));
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return driver_result(cudaMemcpy(at(to), at(from), bytes, cudaMemcpyDeviceToDevice));
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream queue) {
    return driver_result(cudaMemcpyAsync(at(to), at(from), bytes, cudaMemcpyDeviceToDevice, queue));
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
    return driver_result(runtime_set(at(to), value, 1, count, NULL));
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream queue) {
    return driver_result(runtime_set(at(to), value, 1, count, queue));
}

CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
    return driver_result(runtime_set(at(to), value, 2, count, NULL));
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream queue) {
    return driver_result(runtime_set(at(to), value, 2, count, queue));
}

CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
    return driver_result(runtime_set(at(to), value, 4, count, NULL));
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream queue) {
    return driver_result(runtime_set(at(to), value, 4, count, queue));
}

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
