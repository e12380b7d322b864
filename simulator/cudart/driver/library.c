/* Kernels that a host program loads itself: modules of the driver, libraries of both APIs (CUDA driver API:
 * Module, Library and Execution Control; CUDA runtime API: Library Management).
 *
 * A module is PTX, as text or in a fat binary.  The handle of a kernel or function is its registry entry, which
 * also serves as the kernel's host address, so that every launch function accepts it. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudart/shim.h"
#include "driver.h"

static cudaError_t load(void **library, const void *image) {
    struct sim *sim = runtime_lock();
    cudaError_t error = cudaErrorMemoryAllocation;
    *library = NULL;
    if (sim == NULL) {
        return runtime_result(error);
    }
    void **binary = image == NULL ? NULL : registry_load(image);
    if (binary != NULL && registry_module(sim, binary, &error) != NULL) {
        *library = binary;
    }
    runtime_unlock();
    return runtime_result(image == NULL ? cudaErrorInvalidValue : *library == NULL ? error : cudaSuccess);
}

static cudaError_t load_file(void **library, const char *path) {
    const size_t room = (size_t)256 << 20;
    FILE *file = fopen(path, "rb");
    char *image = NULL;
    long bytes = -1;
    *library = NULL;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) {
        bytes = ftell(file);
        rewind(file);
    }
    if (bytes >= 0 && (size_t)bytes <= room) {
        image = calloc((size_t)bytes + 1, 1);
    }
    cudaError_t error = image == NULL ? cudaErrorFileNotFound : cudaSuccess;
    if (image != NULL && fread(image, 1, (size_t)bytes, file) == (size_t)bytes) {
        error = load(library, image); /* text is copied */
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    free(image);
    return runtime_result(error);
}

static cudaError_t find_kernel(void **kernel, void *library, const char *name) {
    cudaError_t error = cudaErrorMemoryAllocation;
    *kernel = NULL;
    if (library == NULL || name == NULL) {
        return runtime_result(cudaErrorInvalidResourceHandle);
    }
    struct sim *sim = runtime_lock();
    if (sim != NULL) {
        *kernel = registry_loaded_kernel(sim, library, name, &error);
        runtime_unlock();
    }
    return runtime_result(*kernel == NULL ? error : cudaSuccess);
}

static cudaError_t find_global(void **address, size_t *bytes, void *library, const char *name) {
    cudaError_t error = cudaErrorMemoryAllocation;
    void *found = NULL;
    size_t room = 0;
    if (library == NULL || name == NULL) {
        return runtime_result(cudaErrorInvalidResourceHandle);
    }
    struct sim *sim = runtime_lock();
    if (sim != NULL) {
        struct sim_module *module = registry_module(sim, library, &error);
        found = module == NULL ? NULL : sim_global(module, name, &room);
        error = module == NULL ? error : cudaErrorSymbolNotFound;
        runtime_unlock();
    }
    if (found != NULL && address != NULL) {
        *address = found;
    }
    if (found != NULL && bytes != NULL) {
        *bytes = room;
    }
    return runtime_result(found == NULL ? error : cudaSuccess);
}

/* Counts the kernels of a library and stores the handles of the first `room` in `kernels`. */
static cudaError_t list_kernels(void **kernels, unsigned room, unsigned *count, void *library) {
    cudaError_t error = cudaErrorInvalidResourceHandle;
    struct sim_module *module = NULL;
    unsigned found = 0;
    struct sim *sim = library == NULL ? NULL : runtime_lock();
    if (sim != NULL) {
        module = registry_module(sim, library, &error);
        for (const char *name; module != NULL && (name = sim_kernel_name(module, found)) != NULL; found++) {
            if (found < room) {
                kernels[found] = registry_loaded_kernel(sim, library, name, &error);
            }
        }
        runtime_unlock();
    }
    if (count != NULL) {
        *count = found;
    }
    return runtime_result(module == NULL ? error : cudaSuccess);
}

/* ---- the runtime's libraries ---- */

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jit,
                                void **values, unsigned count, enum cudaLibraryOption *options,
                                void **option_values, unsigned option_count) {
    (void)jit, (void)values, (void)count, (void)options, (void)option_values, (void)option_count;
    return load((void **)library, code);
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path, enum cudaJitOption *jit,
                                    void **values, unsigned count, enum cudaLibraryOption *options,
                                    void **option_values, unsigned option_count) {
    (void)jit, (void)values, (void)count, (void)options, (void)option_values, (void)option_count;
    return load_file((void **)library, path);
}

/* Keeps the kernels: a program that launches one after this call is at fault itself. */
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
    return runtime_result(library == NULL ? cudaErrorInvalidResourceHandle : cudaSuccess);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
    return find_kernel((void **)kernel, library, name);
}

cudaError_t cudaLibraryGetKernelCount(unsigned *count, cudaLibrary_t library) {
    return list_kernels(NULL, 0, count, library);
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned room, cudaLibrary_t library) {
    return list_kernels((void **)kernels, room, NULL, library);
}

cudaError_t cudaLibraryGetGlobal(void **address, size_t *bytes, cudaLibrary_t library, const char *name) {
    return find_global(address, bytes, library, name);
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value,
                                            int device) {
    return device != 0 ? runtime_result(cudaErrorInvalidDevice)
                       : cudaFuncSetAttribute((const void *)kernel, attribute, value);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol) {
    *function = (cudaFunction_t)(uintptr_t)symbol;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *symbol) {
    *kernel = (cudaKernel_t)(uintptr_t)symbol;
    return runtime_result(cudaSuccess);
}

/* ---- the driver's ---- */

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **values,
                           unsigned count, CUlibraryOption *options, void **option_values,
                           unsigned option_count) {
    (void)jit, (void)values, (void)count, (void)options, (void)option_values, (void)option_count;
    return driver_result(load((void **)library, code));
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **values,
                               unsigned count, CUlibraryOption *options, void **option_values,
                               unsigned option_count) {
    (void)jit, (void)values, (void)count, (void)options, (void)option_values, (void)option_count;
    return driver_result(load_file((void **)library, path));
}

SAME_AS_RUNTIME(cuLibraryUnload, (CUlibrary library), cudaLibraryUnload((cudaLibrary_t)library))
SAME_AS_RUNTIME(cuLibraryGetKernel, (CUkernel * kernel, CUlibrary library, const char *name),
                find_kernel((void **)kernel, library, name))
SAME_AS_RUNTIME(cuLibraryGetKernelCount, (unsigned *count, CUlibrary library),
                list_kernels(NULL, 0, count, library))
SAME_AS_RUNTIME(cuLibraryEnumerateKernels, (CUkernel * kernels, unsigned room, CUlibrary library),
                list_kernels((void **)kernels, room, NULL, library))

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
    *module = (CUmodule)(void *)library;
    return driver_result(cudaSuccess);
}

SAME_AS_RUNTIME(cuLibraryGetGlobal, (CUdeviceptr * address, size_t *bytes, CUlibrary library, const char *name),
                find_global((void **)(void *)address, bytes, library, name))
SAME_AS_RUNTIME(cuModuleLoad, (CUmodule * module, const char *path), load_file((void **)module, path))
SAME_AS_RUNTIME(cuModuleLoadData, (CUmodule * module, const void *image), load((void **)module, image))

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                            void **values) {
    (void)count, (void)options, (void)values;
    return driver_result(load((void **)module, image));
}

SAME_AS_RUNTIME(cuModuleLoadFatBinary, (CUmodule * module, const void *image), load((void **)module, image))
SAME_AS_RUNTIME(cuModuleUnload, (CUmodule module), cudaLibraryUnload((cudaLibrary_t)(void *)module))
SAME_AS_RUNTIME(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name),
                find_kernel((void **)function, module, name))
SAME_AS_RUNTIME(cuModuleGetGlobal, (CUdeviceptr * address, size_t *bytes, CUmodule module, const char *name),
                find_global((void **)(void *)address, bytes, module, name))

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    *function = (CUfunction)(void *)kernel;
    return driver_result(cudaSuccess);
}

CUresult cuFuncGetName(const char **name, CUfunction function) {
    const struct kernel_entry *kernel = (const struct kernel_entry *)(const void *)function;
    *name = kernel == NULL ? NULL : kernel->name;
    return driver_result(kernel == NULL ? cudaErrorInvalidResourceHandle : cudaSuccess);
}

CUresult cuKernelGetName(const char **name, CUkernel kernel) {
    return cuFuncGetName(name, (CUfunction)(void *)kernel);
}

SAME_AS_RUNTIME(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value),
                cudaFuncSetAttribute((const void *)function, (enum cudaFuncAttribute)attribute, value))

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
    return device != 0 ? CUDA_ERROR_INVALID_DEVICE
                       : cuFuncSetAttribute((CUfunction)(void *)kernel, attribute, value);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    struct cudaFuncAttributes known;
    cudaError_t error = cudaFuncGetAttributes(&known, (const void *)function);
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK           ? known.maxThreadsPerBlock
             : attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? known.maxDynamicSharedSizeBytes
             : attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES             ? (int)known.sharedSizeBytes
             : attribute == CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES              ? (int)known.constSizeBytes
             : attribute == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES              ? (int)known.localSizeBytes
             : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS                      ? known.numRegs
             : attribute == CU_FUNC_ATTRIBUTE_PTX_VERSION                   ? known.ptxVersion
             : attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION                ? known.binaryVersion
                                                                            : 0;
    return driver_result(error);
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
    return device != 0 ? CUDA_ERROR_INVALID_DEVICE
                       : cuFuncGetAttribute(value, attribute, (CUfunction)(void *)kernel);
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
    (void)function, (void)config;
    return driver_result(runtime_result(cudaSuccess));
}

SAME_AS_RUNTIME(cuFuncLoad, (CUfunction function),
                function == NULL ? cudaErrorInvalidResourceHandle : cudaSuccess)

/* The attributes of both APIs have the same numbers and values (driver_types.h, cudaLaunchAttribute). */
_Static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute), "attributes of both APIs");
_Static_assert((int)CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION == (int)cudaLaunchAttributeClusterDimension,
               "attributes of both APIs");

static cudaLaunchConfig_t config_of(const CUlaunchConfig *config) {
    return (cudaLaunchConfig_t){.gridDim = {config->gridDimX, config->gridDimY, config->gridDimZ},
                                .blockDim = {config->blockDimX, config->blockDimY, config->blockDimZ},
                                .dynamicSmemBytes = config->sharedMemBytes,
                                .stream = config->hStream,
                                .attrs = (cudaLaunchAttribute *)(void *)config->attrs,
                                .numAttrs = config->numAttrs};
}

/* Finds the buffer in `extra` that holds all arguments, the alternative to a pointer for each; false without
 * one. */
static bool buffer_of(void **extra, const char **buffer) {
    *buffer = NULL;
    for (int i = 0; extra != NULL && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
            *buffer = extra[i + 1];
        }
    }
    return *buffer != NULL;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra) {
    enum { MOST_ARGUMENTS = 256 };
    cudaLaunchConfig_t wanted = config_of(config);
    void *pointers[MOST_ARGUMENTS];
    const char *buffer;
    if (arguments == NULL && buffer_of(extra, &buffer)) {
        if (!registry_arguments(function, buffer, pointers, MOST_ARGUMENTS)) {
            return driver_result(runtime_result(cudaErrorInvalidResourceHandle));
        }
        arguments = pointers;
    }
    return driver_result(cudaLaunchKernelExC(&wanted, (const void *)function, arguments));
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, CUstream queue,
                        void **arguments, void **extra) {
    CUlaunchConfig config = {.gridDimX = grid_x,
                             .gridDimY = grid_y,
                             .gridDimZ = grid_z,
                             .blockDimX = block_x,
                             .blockDimY = block_y,
                             .blockDimZ = block_z,
                             .sharedMemBytes = shared,
                             .hStream = queue};
    return cuLaunchKernelEx(&config, function, arguments, extra);
}

SAME_AS_RUNTIME(cuLaunchCooperativeKernel,
                (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                 unsigned block_y, unsigned block_z, unsigned shared, CUstream queue, void **arguments),
                cudaLaunchCooperativeKernel((const void *)function, (dim3){grid_x, grid_y, grid_z},
                                            (dim3){block_x, block_y, block_z}, arguments, shared, queue))

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config) {
    cudaLaunchConfig_t wanted = config_of(config);
    return driver_result(cudaOccupancyMaxActiveClusters(clusters, (const void *)function, &wanted));
}

SAME_AS_RUNTIME(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                (int *blocks, CUfunction function, int threads, size_t shared),
                cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void *)function, threads, shared))

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads,
                                                              size_t shared, unsigned flags) {
    (void)flags;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}
