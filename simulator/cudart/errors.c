/* The runtime's errors, and the refusal of what is not modelled. */
#include <cuda_runtime_api.h>
#include <stdio.h>

#include "shim.h"

static _Thread_local cudaError_t last_error;

cudaError_t runtime_result(cudaError_t error) {
    cudaError_t sticky = runtime_sticky();
    if (sticky != cudaSuccess) {
        return sticky;
    }
    if (error != cudaSuccess) {
        last_error = error;
    }
    return error;
}

cudaError_t runtime_unmodelled(const char *what) {
    (void)fprintf(stderr, "simulator: %s is not modelled\n", what);
    return runtime_result(cudaErrorNotSupported);
}

cudaError_t cudaGetLastError(void) {
    cudaError_t error = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return error;
}

/* A failed launch is never taken back: any further call returns its error (CUDA runtime API,
 * cudaErrorLaunchFailure). */
cudaError_t cudaPeekAtLastError(void) {
    cudaError_t sticky = runtime_sticky();
    return sticky != cudaSuccess ? sticky : last_error;
}

#define ERROR(number) number, #number

static const struct error_text errors[] = {
    {ERROR(cudaSuccess), "CUDA_SUCCESS", "no error"},
    {ERROR(cudaErrorInvalidValue), "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {ERROR(cudaErrorMemoryAllocation), "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {ERROR(cudaErrorInvalidConfiguration), NULL, "invalid configuration argument"},
    {ERROR(cudaErrorInvalidDevice), "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {ERROR(cudaErrorInvalidDeviceFunction), NULL, "invalid device function"},
    {ERROR(cudaErrorInvalidKernelImage), "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {ERROR(cudaErrorInvalidSymbol), NULL, "invalid device symbol"},
    {ERROR(cudaErrorFileNotFound), "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {ERROR(cudaErrorSymbolNotFound), "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {ERROR(cudaErrorHostMemoryAlreadyRegistered), NULL,
     "part or all of the requested memory range is already mapped"},
    {ERROR(cudaErrorHostMemoryNotRegistered), NULL,
     "pointer does not correspond to a registered memory region"},
    {ERROR(cudaErrorInvalidResourceHandle), "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {ERROR(cudaErrorAssert), "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {ERROR(cudaErrorLaunchFailure), "CUDA_ERROR_LAUNCH_FAILED", "the simulator found an error; see its report"},
    {ERROR(cudaErrorInvalidClusterSize), "CUDA_ERROR_INVALID_CLUSTER_SIZE",
     "cluster size is too large for the kernel or its configuration"},
    {ERROR(cudaErrorCooperativeLaunchTooLarge), "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
     "too many blocks in cooperative launch"},
    {ERROR(cudaErrorNotSupported), "CUDA_ERROR_NOT_SUPPORTED", "operation not supported by the simulator"},
    {ERROR(cudaErrorStreamCaptureUnsupported), NULL, "operation not permitted when stream is capturing"},
    {ERROR(cudaErrorStreamCaptureUnmatched), NULL, "the capture was not initiated in this stream"},
    {ERROR(cudaErrorStreamCaptureUnjoined), NULL, "capturing stream has unjoined work"},
    {ERROR(cudaErrorStreamCaptureIsolation), NULL, "dependency created on uncaptured work in another stream"},
    {ERROR(cudaErrorGraphExecUpdateFailure), NULL,
     "the graph update was not performed because it included changes which violated constraints specific to "
     "instantiated graph update"},
    {ERROR(cudaErrorIllegalState), NULL, "the operation cannot be performed in the present state"},
};

const struct error_text *runtime_error_text(int number) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if ((int)errors[i].error == number) {
            return &errors[i];
        }
    }
    return NULL;
}

const char *cudaGetErrorName(cudaError_t error) {
    const struct error_text *known = runtime_error_text((int)error);
    return known == NULL ? "cudaErrorUnknown" : known->name;
}

const char *cudaGetErrorString(cudaError_t error) {
    const struct error_text *known = runtime_error_text((int)error);
    return known == NULL ? "unknown error" : known->text;
}
