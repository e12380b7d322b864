/* Attributes and occupancy of kernels. */
#include "kernel_properties.h"

#include <cuda_runtime_api.h>
#include <string.h>

#include "cudart/chip_properties.h"

/* HW: the same on all chips (CUDA C++ Programming Guide, compute capabilities; cuda_occupancy.h: units). */
enum {
    WARP = 32,
    BLOCK_THREADS = 1024,
    SM_REGISTERS = 64 * 1024,
    THREAD_REGISTERS = 255,
    REGISTER_UNIT = 8, /* of a thread */
    SHARED_UNIT = 128,
    SHARED_RESERVED = 1024,     /* of a block */
    SHARED_DEFAULT = 48 * 1024, /* of a block, static and dynamic */
};

static size_t up(size_t value, size_t unit) {
    return (value + unit - 1) / unit * unit;
}

static int least(int a, int b) {
    return a < b ? a : b;
}

int kernel_shared_limit(const struct sim_module *module, const struct kernel_entry *kernel) {
    struct sim_kernel_needs needs = {0};
    return kernel->shared_limit >= 0                        ? kernel->shared_limit
           : sim_kernel_needs(module, kernel->name, &needs) ? SHARED_DEFAULT - (int)needs.shared_bytes
                                                            : SHARED_DEFAULT;
}

/* Reads under the lock what a kernel needs, and the dynamic shared memory that it is allowed. */
static cudaError_t find(const void *function, struct sim_kernel_needs *needs, int *shared_limit) {
    struct sim *sim = runtime_lock();
    *needs = (struct sim_kernel_needs){0};
    *shared_limit = 0;
    RETURN_IF_NO_MEMORY(sim);
    cudaError_t error = cudaErrorInvalidDeviceFunction;
    const struct kernel_entry *kernel = registry_kernel(function);
    const struct sim_module *module = kernel == NULL ? NULL : registry_module(sim, kernel->binary, &error);
    if (module != NULL) {
        error = sim_kernel_needs(module, kernel->name, needs) ? cudaSuccess : cudaErrorInvalidKernelImage;
        *shared_limit = kernel_shared_limit(module, kernel);
    }
    runtime_unlock();
    return error;
}

static unsigned most_threads(const struct sim_kernel_needs *needs) {
    return needs->threads == 0 || needs->threads > BLOCK_THREADS ? BLOCK_THREADS : needs->threads;
}

/* ptxas chooses the registers.  Without machine code this is the most that it may give each thread. */
static int registers_of(const struct sim_kernel_needs *needs) {
    const unsigned blocks = needs->ctas_of_sm == 0 ? 1 : needs->ctas_of_sm;
    const int bound = (int)(SM_REGISTERS / (up(most_threads(needs), WARP) * blocks));
    return needs->registers != 0        ? (int)needs->registers
           : needs->most_registers != 0 ? least((int)needs->most_registers, THREAD_REGISTERS)
                                        : least(bound / REGISTER_UNIT * REGISTER_UNIT, THREAD_REGISTERS);
}

static int blocks_of_sm(const struct sim_kernel_needs *needs, int threads, size_t dynamic_shared) {
    const struct chip *chip = runtime_chip();
    const size_t shared = needs->shared_bytes + dynamic_shared;
    if (threads < 1 || (unsigned)threads > most_threads(needs) || dynamic_shared > (size_t)chip->shared_bytes ||
        shared > (size_t)chip->shared_bytes) {
        return 0;
    }
    const int whole = (int)up((size_t)threads, WARP);
    const int by_shared = chip->shared_sm_bytes / (int)up(shared + SHARED_RESERVED, SHARED_UNIT);
    const int registers = (int)up(needs->registers, REGISTER_UNIT) * whole;
    const int by_registers = registers == 0 ? chip->sm_blocks : SM_REGISTERS / registers;
    return least(least(chip->sm_threads / whole, chip->sm_blocks), least(by_shared, by_registers));
}

int kernel_blocks_of_sm(const struct sim_module *module, const struct kernel_entry *kernel, int threads,
                        size_t dynamic_shared) {
    struct sim_kernel_needs needs;
    return sim_kernel_needs(module, kernel->name, &needs) ? blocks_of_sm(&needs, threads, dynamic_shared) : 0;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value) {
    struct sim_kernel_needs needs;
    int limit;
    cudaError_t error = find(function, &needs, &limit);
    if (error != cudaSuccess || runtime_lock() == NULL) {
        return runtime_result(error == cudaSuccess ? cudaErrorMemoryAllocation : error);
    }
    struct kernel_entry *kernel = registry_kernel(function);
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        error = value < 0 || value > runtime_chip()->shared_bytes - (int)needs.shared_bytes
                    ? cudaErrorInvalidValue
                    : cudaSuccess;
        kernel->shared_limit = error == cudaSuccess ? value : kernel->shared_limit;
    } else if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) {
        kernel->wide_clusters = value != 0;
    }
    runtime_unlock();
    return runtime_result(error);
}

cudaError_t cudaFuncGetName(const char **name, const void *function) {
    if (runtime_lock() == NULL) {
        return runtime_result(cudaErrorMemoryAllocation);
    }
    const struct kernel_entry *kernel = registry_kernel(function);
    *name = kernel == NULL ? NULL : kernel->name;
    runtime_unlock();
    return runtime_result(kernel == NULL ? cudaErrorInvalidDeviceFunction : cudaSuccess);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function) {
    struct sim_kernel_needs needs;
    int shared_limit;
    const cudaError_t error = find(function, &needs, &shared_limit);
    memset(attributes, 0, sizeof *attributes);
    if (error == cudaSuccess) {
        attributes->sharedSizeBytes = needs.shared_bytes;
        attributes->constSizeBytes = needs.constant_bytes;
        attributes->localSizeBytes = needs.local_bytes;
        attributes->maxThreadsPerBlock = (int)most_threads(&needs);
        attributes->numRegs = registers_of(&needs);
        attributes->maxDynamicSharedSizeBytes = shared_limit;
        attributes->ptxVersion = (int)needs.target;
        attributes->binaryVersion = 10 * runtime_chip()->major + runtime_chip()->minor;
    }
    return runtime_result(error);
}

cudaError_t cudaFuncSetCacheConfig(const void *function, enum cudaFuncCache config) {
    (void)function;
    (void)config;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads,
                                                          size_t shared) {
    struct sim_kernel_needs needs;
    int shared_limit;
    cudaError_t error = find(function, &needs, &shared_limit);
    *blocks = error == cudaSuccess ? blocks_of_sm(&needs, threads, shared) : 0;
    error = error == cudaSuccess && threads < 1 ? cudaErrorInvalidValue : error;
    return runtime_result(error);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function,
                                                                   int threads, size_t shared, unsigned flags) {
    (void)flags;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

/* The CTAs of a cluster lie on SMs of one GPC; those of a pair lie on two neighbouring SMs. */
cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *function,
                                           const cudaLaunchConfig_t *config) {
    const struct chip *chip = runtime_chip();
    const int pair = 2, parts = chip->processing_clusters, sms = runtime_sms();
    int ctas = 1, blocks;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
            ctas = (int)(config->attrs[i].val.clusterDim.x * config->attrs[i].val.clusterDim.y *
                         config->attrs[i].val.clusterDim.z);
        }
    }
    const dim3 block = config->blockDim;
    const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, function, (int)(block.x * block.y * block.z), config->dynamicSmemBytes);
    *clusters = blocks * (ctas <= 0 || ctas > chip->cluster_ctas ? 0
                          : ctas <= pair || parts == 0           ? sms / ctas
                                                                 : parts * (sms / parts / ctas));
    return error;
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *function, int blocks,
                                                      int threads) {
    struct sim_kernel_needs needs;
    int shared_limit;
    (void)find(function, &needs, &shared_limit);
    (void)threads;
    const size_t each = blocks < 1 ? 0 : (size_t)(runtime_chip()->shared_sm_bytes / blocks);
    const size_t taken = needs.shared_bytes + SHARED_RESERVED;
    *bytes = each <= taken ? 0 : (each - taken) / SHARED_UNIT * SHARED_UNIT;
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
