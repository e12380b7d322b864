/* The driver's errors: their names, and how the runtime's map to them. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "cudart/shim.h"
#include "driver.h"

/* Both APIs use the same numbers, except for errors that only the runtime has. */
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

/* The error of a number; NULL: the driver does not have it. */
static const struct error_text *known(CUresult error) {
    const struct error_text *text = runtime_error_text((int)error);
    return text == NULL || text->driver_name == NULL ? NULL : text;
}

CUresult cuGetErrorName(CUresult error, const char **name) {
    *name = known(error) == NULL ? NULL : known(error)->driver_name;
    return *name == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = known(error) == NULL ? NULL : known(error)->text;
    return *text == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
