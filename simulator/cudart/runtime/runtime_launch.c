/* Kernel attributes and launches of the CUDA runtime shim. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudart/chip_properties.h"
#include "cudart/outcome.h"
#include "cudart/shim.h"
#include "cudart/undeclared.h"
#include "graph.h"
#include "runtime_launch.h"

#define PORTABLE_CLUSTER 8 /* HW: CTAs that every chip with clusters holds (CUDA C++ Programming Guide) */

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value) {
    cudaError_t error = cudaSuccess;
    if (runtime_lock() == NULL) {
        return runtime_result(cudaErrorMemoryAllocation);
    }
    struct kernel_entry *kernel = registry_kernel(function);
    if (kernel == NULL) {
        error = cudaErrorInvalidDeviceFunction;
    } else if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        error = value < 0 || value > runtime_chip()->shared_bytes ? cudaErrorInvalidValue : cudaSuccess;
        kernel->shared_limit = error == cudaSuccess ? (size_t)value : kernel->shared_limit;
    } else if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) {
        kernel->wide_clusters = value != 0;
    }
    runtime_unlock();
    return runtime_result(error);
}

/* Assumes one CTA on each SM.  A cluster of more than two CTAs has to fit into one GPC. */
cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *function,
                                           const cudaLaunchConfig_t *config) {
    const struct chip *chip = runtime_chip();
    const int pair = 2, parts = chip->processing_clusters, sms = runtime_sms();
    int ctas = 1;
    (void)function;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
            ctas = (int)(config->attrs[i].val.clusterDim.x * config->attrs[i].val.clusterDim.y *
                         config->attrs[i].val.clusterDim.z);
        }
    }
    *clusters = ctas == 0 || ctas > chip->cluster_ctas ? 0
                : ctas <= pair || parts == 0           ? sms / ctas
                                                       : parts * (sms / parts / ctas);
    return runtime_result(cudaSuccess);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads,
                                                          size_t shared) {
    (void)function;
    (void)threads;
    (void)shared;
    *blocks = 1;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function,
                                                                   int threads, size_t shared, unsigned flags) {
    (void)flags;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *function, int blocks,
                                                      int threads) {
    const int reserved = 1024;
    (void)function;
    (void)threads;
    *bytes = blocks < 1 ? 0 : (size_t)((runtime_chip()->shared_bytes + reserved) / blocks - reserved);
    return runtime_result(blocks < 1 ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int *ctas, const void *function,
                                                 const cudaLaunchConfig_t *config) {
    (void)config;
    if (runtime_lock() == NULL) {
        return runtime_result(cudaErrorMemoryAllocation);
    }
    const struct kernel_entry *kernel = registry_kernel(function);
    *ctas = kernel != NULL && kernel->wide_clusters ? runtime_chip()->cluster_ctas : PORTABLE_CLUSTER;
    runtime_unlock();
    return runtime_result(cudaSuccess);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function) {
    if (runtime_lock() == NULL) {
        return runtime_result(cudaErrorMemoryAllocation);
    }
    const struct kernel_entry *kernel = registry_kernel(function);
    memset(attributes, 0, sizeof *attributes);
    if (kernel != NULL) {
        attributes->maxThreadsPerBlock = 1024;
        attributes->maxDynamicSharedSizeBytes = (int)kernel->shared_limit;
        attributes->ptxVersion = attributes->binaryVersion = 10 * runtime_chip()->major + runtime_chip()->minor;
    }
    runtime_unlock();
    return runtime_result(kernel == NULL ? cudaErrorInvalidDeviceFunction : cudaSuccess);
}

cudaError_t cudaFuncSetCacheConfig(const void *function, enum cudaFuncCache config) {
    (void)function;
    (void)config;
    return runtime_result(cudaSuccess);
}

static bool fits_at_once(const struct sim_launch_attributes *wanted) {
    const struct chip *chip = runtime_chip();
    uint64_t threads = (uint64_t)wanted->block[0] * wanted->block[1] * wanted->block[2], most = 0;
    if (threads > 0) {
        most = (uint64_t)chip->sm_threads / threads;
        most = most < (uint64_t)chip->sm_blocks ? most : (uint64_t)chip->sm_blocks;
    }
    return (uint64_t)wanted->grid[0] * wanted->grid[1] * wanted->grid[2] <= most * (uint64_t)runtime_sms();
}

cudaError_t runtime_launch(const void *function, const struct sim_launch_attributes *wanted, void **arguments,
                           cudaStream_t queue) {
    struct sim *sim = runtime_lock();
    if (sim == NULL) {
        return runtime_result(cudaErrorMemoryAllocation);
    }
    struct kernel_entry *kernel = registry_kernel(function);
    cudaError_t error = cudaErrorInvalidDeviceFunction;
    struct sim_module *module = kernel == NULL ? NULL : registry_module(sim, kernel->binary, &error);
    if (error == cudaErrorMemoryAllocation) {
        sim_refuse(sim, kernel->name, "out of memory for its module");
    } else if (error != cudaSuccess) {
        sim_refuse(sim, kernel == NULL ? "?" : kernel->name,
                   kernel == NULL ? "no kernel was registered at this address" : registry_why(kernel->binary));
    } else if (wanted->dynamic_shared_bytes > kernel->shared_limit) {
        char why[120];
        (void)snprintf(why, sizeof why, "%u bytes of dynamic shared memory; cudaFuncSetAttribute allowed %zu",
                       wanted->dynamic_shared_bytes, kernel->shared_limit);
        sim_refuse(sim, kernel->name, why);
        error = cudaErrorInvalidValue;
    }
    uint64_t ctas = (uint64_t)wanted->cluster[0] * wanted->cluster[1] * wanted->cluster[2];
    if (error == cudaSuccess && ctas > PORTABLE_CLUSTER && !kernel->wide_clusters) {
        sim_refuse(
            sim, kernel->name,
            "more than 8 CTAs in a cluster, which cudaFuncAttributeNonPortableClusterSizeAllowed has to allow");
        error = cudaErrorInvalidClusterSize;
    }
    if (error == cudaSuccess && wanted->cooperative && !fits_at_once(wanted)) {
        sim_refuse(sim, kernel->name, "a cooperative launch of more CTAs than the chip holds at once");
        error = cudaErrorCooperativeLaunchTooLarge;
    }
    bool shrunk = false;
    if (error == cudaSuccess) {
        struct sim_launch_attributes attributes = *wanted;
        int count = sim_parameter_count(module, kernel->name);
        attributes.arguments = arguments;
        attributes.argument_count = count < 0 ? 0 : (size_t)count;
        sim_queue_select(sim, runtime_queue(sim, queue));
        shrunk = outcome_shrink(sim, module, kernel->name, &attributes);
        int status = sim_launch(sim, module, kernel->name, &attributes);
        error = status == SIM_OK || status == SIM_RUN_ERROR ? cudaSuccess
                : status == SIM_NO_MEMORY                   ? cudaErrorMemoryAllocation
                : status == SIM_NO_KERNEL                   ? cudaErrorInvalidDeviceFunction
                                                            : cudaErrorInvalidConfiguration;
    }
    runtime_report(sim);
    if (shrunk) {
        sim_print_shrunk(sim, stderr);
    }
    runtime_unlock();
    return runtime_result(error);
}

static cudaError_t launch(const void *function, const struct sim_launch_attributes *wanted, void **arguments,
                          cudaStream_t queue) {
    cudaError_t error;
    return capture_kernel(queue, function, wanted, arguments, &error)
               ? runtime_result(error)
               : runtime_launch(function, wanted, arguments, queue);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments) {
    struct sim_launch_attributes attributes = {
        .grid = {config->gridDim.x, config->gridDim.y, config->gridDim.z},
        .block = {config->blockDim.x, config->blockDim.y, config->blockDim.z},
        .dynamic_shared_bytes = (unsigned)config->dynamicSmemBytes};
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute *attribute = &config->attrs[i];
        if (attribute->id == cudaLaunchAttributeClusterDimension) {
            attributes.cluster[0] = attribute->val.clusterDim.x;
            attributes.cluster[1] = attribute->val.clusterDim.y;
            attributes.cluster[2] = attribute->val.clusterDim.z;
        } else if (attribute->id == cudaLaunchAttributeCooperative) {
            attributes.cooperative = attribute->val.cooperative;
        } else if (attribute->id == cudaLaunchAttributeProgrammaticStreamSerialization) {
            attributes.programmatic_dependent = attribute->val.programmaticStreamSerializationAllowed;
        }
    }
    return launch(function, &attributes, arguments, config->stream);
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t queue) {
    struct sim_launch_attributes attributes = {.grid = {grid.x, grid.y, grid.z},
                                               .block = {block.x, block.y, block.z},
                                               .dynamic_shared_bytes = (unsigned)shared};
    return launch(function, &attributes, arguments, queue);
}

cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                        size_t shared, cudaStream_t queue) {
    struct sim_launch_attributes attributes = {.grid = {grid.x, grid.y, grid.z},
                                               .block = {block.x, block.y, block.z},
                                               .dynamic_shared_bytes = (unsigned)shared,
                                               .cooperative = 1};
    return launch(function, &attributes, arguments, queue);
}

/* ---- what the generated code calls for f<<<...>>>(...) ---- */

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *function) {
    memcpy(kernel, &function, sizeof function);
    return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                               cudaStream_t queue) {
    return cudaLaunchKernel((const void *)kernel, grid, block, arguments, shared, queue);
}

static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t queue;
} pushed;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *queue) {
    pushed.grid = grid;
    pushed.block = block;
    pushed.shared = shared;
    pushed.queue = queue;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *queue) {
    *grid = pushed.grid;
    *block = pushed.block;
    *shared = pushed.shared;
    memcpy(queue, &pushed.queue, sizeof pushed.queue);
    return cudaSuccess;
}
