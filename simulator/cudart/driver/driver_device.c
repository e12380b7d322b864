/* The driver's device and its one context. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>

#include "cudart/shim.h"
#include "cudart/undeclared.h"
#include "driver.h"

CUresult cuInit(unsigned flags) {
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    *version = CUDA_VERSION > DRIVER_VERSION ? CUDA_VERSION : DRIVER_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = 0;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int *count) {
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int room, CUdevice device) {
    struct cudaDeviceProp properties;
    cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (error == cudaSuccess) {
        (void)snprintf(name, (size_t)room, "%s", properties.name);
    }
    return driver_result(error);
}

/* The attributes have the same numbers in both APIs (cuda.h, driver_types.h). */
SAME_AS_RUNTIME(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device),
                cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)attribute, device))

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
    (void)device;
    *bytes = runtime_memory_bytes();
    return driver_result(runtime_result(cudaSuccess));
}

/* ---- contexts: there is one, which is always current ---- */

static CUcontext the_context(void) {
    static char one;
    return (CUcontext)(void *)&one;
}

static CUresult give_context(CUcontext *context) {
    if (context != NULL) {
        *context = the_context();
    }
    return driver_result(runtime_result(cudaSuccess));
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    return device != 0 ? CUDA_ERROR_INVALID_DEVICE : give_context(context);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    return device != 0 ? CUDA_ERROR_INVALID_DEVICE : driver_result(runtime_result(cudaSuccess));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    *flags = 0;
    *active = 1;
    return cuDevicePrimaryCtxRelease(device);
}

CUresult cuCtxCreate(CUcontext *context, CUctxCreateParams *parameters, unsigned flags, CUdevice device) {
    (void)parameters;
    (void)flags;
    return cuDevicePrimaryCtxRetain(context, device);
}

CUresult cuCtxDestroy(CUcontext context) {
    (void)context;
    return driver_result(runtime_result(cudaSuccess));
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    return give_context(context);
}

CUresult cuCtxSetCurrent(CUcontext context) {
    return cuCtxDestroy(context);
}

CUresult cuCtxPushCurrent(CUcontext context) {
    return cuCtxDestroy(context);
}

CUresult cuCtxPopCurrent(CUcontext *context) {
    return give_context(context);
}

CUresult cuCtxGetDevice(CUdevice *device) {
    *device = 0;
    return driver_result(runtime_result(cudaSuccess));
}

SAME_AS_RUNTIME(cuCtxSynchronize, (void), cudaDeviceSynchronize())
