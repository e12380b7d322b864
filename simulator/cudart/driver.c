/* The driver's functions that host programs call by name or through the runtime's query. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "registry.h"
#include "undeclared.h"

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

static const struct {
    CUresult error;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
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
    return runtime_result(cudaSuccess);
}

/* Of CUDA 12; deprecated, and still called. */
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **entry, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *found) {
    return cudaGetDriverEntryPointByVersion(symbol, entry, CUDA_VERSION, flags, found);
}
