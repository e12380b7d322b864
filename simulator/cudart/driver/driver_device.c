/* The driver's functions that host programs call by name or through the runtime's query. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "cudart/registry.h"
#include "cudart/undeclared.h"
#include "driver.h"

CUresult cuInit(unsigned flags) {
    (void)flags;
    return CUDA_SUCCESS;
}

/* Both have the same numbers, but for what only the runtime says. */
CUresult driver_result(cudaError_t error) {
    switch (error) {
    case cudaErrorInvalidConfiguration:
        return CUDA_ERROR_INVALID_VALUE;
    case cudaErrorInvalidDeviceFunction:
        return CUDA_ERROR_INVALID_HANDLE;
    default:
        return (CUresult)error;
    }
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

/* Both APIs number the attributes alike (cuda.h, driver_types.h). */
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    return driver_result(cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)attribute, device));
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
    (void)device;
    *bytes = runtime_memory_bytes();
    return driver_result(runtime_result(cudaSuccess));
}

/* ---- contexts: there is one, and it is always current ---- */

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

CUresult cuCtxSynchronize(void) {
    return driver_result(cudaDeviceSynchronize());
}

static const struct {
    CUresult error;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "the simulator found an error; see its report"},
    {CUDA_ERROR_INVALID_CLUSTER_SIZE, "CUDA_ERROR_INVALID_CLUSTER_SIZE",
     "cluster size is too large for the kernel or its configuration"},
    {CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
     "too many blocks in cooperative launch"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported by the simulator"},
};

static CUresult describe(CUresult error, const char **text, bool name) {
    *text = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].error == error) {
            *text = name ? errors[i].name : errors[i].text;
        }
    }
    return *text == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
    return describe(error, name, true);
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    return describe(error, text, false);
}

/* ---- by name ---- */

typedef void entry_point(void);

static entry_point *entry_named(const char *name) {
    static const struct {
        const char *name;
        entry_point *function;
    } calls[] = {
#define CALL(name) {#name, (entry_point *)name},
        DRIVER_CALLS(CALL)
#undef CALL
    };
    size_t length = strlen(name);
    const char *version = strrchr(name, '_'); /* cuMemAlloc_v2 is asked for too */
    if (version != NULL && (version[1] == 'v' || strcmp(version, "_ptsz") == 0)) {
        length = (size_t)(version - name);
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strlen(calls[i].name) == length && strncmp(calls[i].name, name, length) == 0) {
            return calls[i].function;
        }
    }
    (void)fprintf(stderr, "simulator: %s is not modelled\n", name);
    return NULL;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **entry, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found) {
    entry_point *function = entry_named(symbol);
    (void)version;
    (void)flags;
    *entry = NULL;
    if (function != NULL) {
        memcpy(entry, &function, sizeof *entry); /* ISO C has no cast from function to object pointer */
    }
    if (found != NULL) {
        *found = function != NULL ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    }
    return runtime_result(cudaSuccess);
}

CUresult cuGetProcAddress(const char *symbol, void **entry, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *found) {
    (void)version;
    (void)flags;
    (void)cudaGetDriverEntryPointByVersion(symbol, entry, CUDA_VERSION, 0, NULL);
    if (found != NULL) {
        *found = *entry != NULL ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    return *entry != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* Of CUDA 12; deprecated, and still called. */
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **entry, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *found) {
    return cudaGetDriverEntryPointByVersion(symbol, entry, CUDA_VERSION, flags, found);
}
