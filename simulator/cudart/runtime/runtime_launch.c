/* Launches of the CUDA runtime shim. */
#include <cuda_runtime_api.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudart/outcome.h"
#include "cudart/shim.h"
#include "cudart/undeclared.h"
#include "graph.h"
#include "kernel_properties.h"
#include "runtime_launch.h"

static bool fits_at_once(const struct sim_module *module, const struct kernel_entry *kernel,
                         const struct sim_launch_attributes *wanted) {
    const uint64_t threads = (uint64_t)wanted->block[0] * wanted->block[1] * wanted->block[2];
    const uint64_t of_sm = threads > INT_MAX ? 0
                                             : (uint64_t)kernel_blocks_of_sm(module, kernel, (int)threads,
                                                                             wanted->dynamic_shared_bytes);
    return (uint64_t)wanted->grid[0] * wanted->grid[1] * wanted->grid[2] <= of_sm * (uint64_t)runtime_sms();
}

cudaError_t runtime_launch(const void *function, const struct sim_launch_attributes *wanted, void **arguments,
                           cudaStream_t queue) {
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    struct kernel_entry *kernel = registry_kernel(function);
    cudaError_t error = cudaErrorInvalidDeviceFunction;
    struct sim_module *module = kernel == NULL ? NULL : registry_module(sim, kernel->binary, &error);
    if (error == cudaErrorMemoryAllocation) {
        sim_refuse(sim, kernel->name, "out of memory for its module");
    } else if (error != cudaSuccess) {
        sim_refuse(sim, kernel == NULL ? "?" : kernel->name,
                   kernel == NULL ? "no kernel was registered at this address" : registry_why(kernel->binary));
    } else if (wanted->dynamic_shared_bytes > 0 &&
               wanted->dynamic_shared_bytes > (unsigned)kernel_shared_limit(module, kernel)) {
        char why[120];
        (void)snprintf(why, sizeof why, "%u bytes of dynamic shared memory; cudaFuncSetAttribute allowed %d",
                       wanted->dynamic_shared_bytes, kernel_shared_limit(module, kernel));
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
    if (error == cudaSuccess && wanted->cooperative && !fits_at_once(module, kernel, wanted)) {
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

static struct sim_launch_attributes attributes_of(dim3 grid, dim3 block, size_t shared) {
    return (struct sim_launch_attributes){.grid = {grid.x, grid.y, grid.z},
                                          .block = {block.x, block.y, block.z},
                                          .dynamic_shared_bytes = (unsigned)shared};
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments) {
    struct sim_launch_attributes attributes =
        attributes_of(config->gridDim, config->blockDim, config->dynamicSmemBytes);
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
    const struct sim_launch_attributes attributes = attributes_of(grid, block, shared);
    return launch(function, &attributes, arguments, queue);
}

cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                        size_t shared, cudaStream_t queue) {
    struct sim_launch_attributes attributes = attributes_of(grid, block, shared);
    attributes.cooperative = 1;
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
