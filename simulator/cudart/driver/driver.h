/* The functions of the driver, and what they share. */
#ifndef SIM_CUDART_DRIVER_H
#define SIM_CUDART_DRIVER_H

#include <cuda.h>
#include <cuda_runtime_api.h>

/* The driver's error that corresponds to an error of the runtime. */
CUresult driver_result(cudaError_t error);

/* Defines a function of the driver that is a call of the runtime under another name. */
#define SAME_AS_RUNTIME(name, parameters, call)                                                                \
    CUresult name parameters {                                                                                 \
        return driver_result(call);                                                                            \
    }

/* Every function of the driver that programs can ask for by name: X(name). */
#define DRIVER_CALLS(X)                                                                                        \
    X(cuInit)                                                                                                  \
    X(cuDriverGetVersion)                                                                                      \
    X(cuGetProcAddress)                                                                                        \
    X(cuGetErrorName)                                                                                          \
    X(cuGetErrorString)                                                                                        \
    X(cuDeviceGet)                                                                                             \
    X(cuDeviceGetCount)                                                                                        \
    X(cuDeviceGetName)                                                                                         \
    X(cuDeviceGetAttribute)                                                                                    \
    X(cuDeviceTotalMem)                                                                                        \
    X(cuDevicePrimaryCtxRetain)                                                                                \
    X(cuDevicePrimaryCtxRelease)                                                                               \
    X(cuDevicePrimaryCtxGetState)                                                                              \
    X(cuCtxCreate)                                                                                             \
    X(cuCtxDestroy)                                                                                            \
    X(cuCtxGetCurrent)                                                                                         \
    X(cuCtxSetCurrent)                                                                                         \
    X(cuCtxPushCurrent)                                                                                        \
    X(cuCtxPopCurrent)                                                                                         \
    X(cuCtxGetDevice)                                                                                          \
    X(cuCtxSynchronize)                                                                                        \
    X(cuTensorMapEncodeTiled)                                                                                  \
    X(cuTensorMapEncodeIm2col)                                                                                 \
    X(cuTensorMapEncodeIm2colWide)                                                                             \
    X(cuTensorMapReplaceAddress)                                                                               \
    X(cuLibraryLoadData)                                                                                       \
    X(cuLibraryLoadFromFile)                                                                                   \
    X(cuLibraryUnload)                                                                                         \
    X(cuLibraryGetKernel)                                                                                      \
    X(cuLibraryGetKernelCount)                                                                                 \
    X(cuLibraryEnumerateKernels)                                                                               \
    X(cuLibraryGetModule)                                                                                      \
    X(cuLibraryGetGlobal)                                                                                      \
    X(cuModuleLoad)                                                                                            \
    X(cuModuleLoadData)                                                                                        \
    X(cuModuleLoadDataEx)                                                                                      \
    X(cuModuleLoadFatBinary)                                                                                   \
    X(cuModuleUnload)                                                                                          \
    X(cuModuleGetFunction)                                                                                     \
    X(cuModuleGetGlobal)                                                                                       \
    X(cuKernelGetFunction)                                                                                     \
    X(cuKernelGetName)                                                                                         \
    X(cuKernelGetAttribute)                                                                                    \
    X(cuKernelSetAttribute)                                                                                    \
    X(cuFuncGetName)                                                                                           \
    X(cuFuncGetAttribute)                                                                                      \
    X(cuFuncSetAttribute)                                                                                      \
    X(cuFuncSetCacheConfig)                                                                                    \
    X(cuFuncLoad)                                                                                              \
    X(cuLaunchKernel)                                                                                          \
    X(cuLaunchKernelEx)                                                                                        \
    X(cuLaunchCooperativeKernel)                                                                               \
    X(cuLaunchHostFunc)                                                                                        \
    X(cuOccupancyMaxActiveClusters)                                                                            \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor)                                                             \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)                                                    \
    X(cuMemAlloc)                                                                                              \
    X(cuMemAllocAsync)                                                                                         \
    X(cuMemAllocManaged)                                                                                       \
    X(cuMemAllocHost)                                                                                          \
    X(cuMemHostAlloc)                                                                                          \
    X(cuMemFree)                                                                                               \
    X(cuMemFreeAsync)                                                                                          \
    X(cuMemFreeHost)                                                                                           \
    X(cuMemPrefetchAsync)                                                                                      \
    X(cuMemAdvise)                                                                                             \
    X(cuMemGetInfo)                                                                                            \
    X(cuMemcpy)                                                                                                \
    X(cuMemcpyAsync)                                                                                           \
    X(cuMemcpyHtoD)                                                                                            \
    X(cuMemcpyHtoDAsync)                                                                                       \
    X(cuMemcpyDtoH)                                                                                            \
    X(cuMemcpyDtoHAsync)                                                                                       \
    X(cuMemcpyDtoD)                                                                                            \
    X(cuMemcpyDtoDAsync)                                                                                       \
    X(cuMemcpy2D)                                                                                              \
    X(cuMemcpy2DAsync)                                                                                         \
    X(cuMemcpy2DUnaligned)                                                                                     \
    X(cuMemcpy3D)                                                                                              \
    X(cuMemcpy3DAsync)                                                                                         \
    X(cuMemsetD8)                                                                                              \
    X(cuMemsetD8Async)                                                                                         \
    X(cuMemsetD16)                                                                                             \
    X(cuMemsetD16Async)                                                                                        \
    X(cuMemsetD32)                                                                                             \
    X(cuMemsetD32Async)                                                                                        \
    X(cuPointerGetAttribute)                                                                                   \
    X(cuStreamCreate)                                                                                          \
    X(cuStreamCreateWithPriority)                                                                              \
    X(cuStreamDestroy)                                                                                         \
    X(cuStreamSynchronize)                                                                                     \
    X(cuStreamQuery)                                                                                           \
    X(cuStreamWaitEvent)                                                                                       \
    X(cuStreamIsCapturing)                                                                                     \
    X(cuStreamGetId)                                                                                           \
    X(cuEventCreate)                                                                                           \
    X(cuEventDestroy)                                                                                          \
    X(cuEventRecord)                                                                                           \
    X(cuEventSynchronize)                                                                                      \
    X(cuEventQuery)                                                                                            \
    X(cuEventElapsedTime)

#endif
