/* The one device of the CUDA runtime shim. */
#include <cuda_runtime_api.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cudart/chip_properties.h"
#include "cudart/common_limits.h"
#include "cudart/shim.h"
#include "cudart/undeclared.h"

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
    return runtime_result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

size_t runtime_memory_bytes(void) {
    return runtime_chip()->memory_bytes;
}

/* HW: the same on all chips (CUDA C++ Programming Guide, compute capabilities). */
enum {
    SHARED_DEFAULT_BYTES = 48 * 1024,
    RESERVED_BYTES = 1024,
    BLOCK_THREADS = 1024,
    REGISTERS = 64 * 1024,
};

/* X(attribute, member of cudaDeviceProp, value on the chip) */
#define CHIP_PROPERTIES(X)                                                                                     \
    X(ComputeCapabilityMajor, major, chip->major)                                                              \
    X(ComputeCapabilityMinor, minor, chip->minor)                                                              \
    X(MultiProcessorCount, multiProcessorCount, runtime_sms())                                                 \
    X(MaxSharedMemoryPerBlock, sharedMemPerBlock, SHARED_DEFAULT_BYTES)                                        \
    X(MaxSharedMemoryPerBlockOptin, sharedMemPerBlockOptin, chip->shared_bytes)                                \
    X(MaxSharedMemoryPerMultiprocessor, sharedMemPerMultiprocessor, chip->shared_sm_bytes)                     \
    X(ReservedSharedMemoryPerBlock, reservedSharedMemPerBlock, RESERVED_BYTES)                                 \
    X(MaxThreadsPerBlock, maxThreadsPerBlock, BLOCK_THREADS)                                                   \
    X(MaxBlockDimX, maxThreadsDim[0], BLOCK_THREADS)                                                           \
    X(MaxBlockDimY, maxThreadsDim[1], BLOCK_THREADS)                                                           \
    X(MaxBlockDimZ, maxThreadsDim[2], 64)                                                                      \
    X(MaxGridDimX, maxGridSize[0], INT_MAX)                                                                    \
    X(MaxGridDimY, maxGridSize[1], UINT16_MAX)                                                                 \
    X(MaxGridDimZ, maxGridSize[2], UINT16_MAX)                                                                 \
    X(MaxThreadsPerMultiProcessor, maxThreadsPerMultiProcessor, chip->sm_threads)                              \
    X(MaxBlocksPerMultiprocessor, maxBlocksPerMultiProcessor, chip->sm_blocks)                                 \
    X(MaxRegistersPerBlock, regsPerBlock, REGISTERS)                                                           \
    X(MaxRegistersPerMultiprocessor, regsPerMultiprocessor, REGISTERS)                                         \
    X(WarpSize, warpSize, 32)                                                                                  \
    X(L2CacheSize, l2CacheSize, chip->l2_bytes)                                                                \
    X(AsyncEngineCount, asyncEngineCount, chip->copy_engines)                                                  \
    X(ClusterLaunch, clusterLaunch, 1)                                                                         \
    X(CooperativeLaunch, cooperativeLaunch, 1)                                                                 \
    X(UnifiedAddressing, unifiedAddressing, 1)                                                                 \
    X(ManagedMemory, managedMemory, 1)                                                                         \
    X(ConcurrentManagedAccess, concurrentManagedAccess, 1)                                                     \
    X(CanMapHostMemory, canMapHostMemory, 1)                                                                   \
    X(HostRegisterSupported, hostRegisterSupported, 1)                                                         \
    X(ConcurrentKernels, concurrentKernels, 1)                                                                 \
    X(MemoryPoolsSupported, memoryPoolsSupported, 1)

#define CASE(attribute, member, value)                                                                         \
    case cudaDevAttr##attribute:                                                                               \
        return value;
#define CASE_WITHOUT_MEMBER(attribute, value) CASE(attribute, , value)
#define MEMBER(attribute, member, value)      p->member = value;

/* A property of the chip; 0 for features that the simulator does not have. */
static int attribute_of(enum cudaDeviceAttr attribute) {
    const struct chip *chip = runtime_chip();
    switch (attribute) {
        CHIP_PROPERTIES(CASE)
        COMMON_LIMITS(CASE)
        COMMON_ATTRIBUTES(CASE_WITHOUT_MEMBER)
    default:
        return 0;
    }
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    if (device != 0) {
        return runtime_result(cudaErrorInvalidDevice);
    }
    *value = attribute_of(attribute);
    return runtime_result(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    if (device != 0) {
        return runtime_result(cudaErrorInvalidDevice);
    }
    const struct chip *chip = runtime_chip();
    memset(p, 0, sizeof *p);
    (void)snprintf(p->name, sizeof p->name, "simulated %s", chip->product);
    p->totalGlobalMem = chip->memory_bytes;
    CHIP_PROPERTIES(MEMBER)
    COMMON_LIMITS(MEMBER)
    return runtime_result(cudaSuccess);
}

/* A version recent enough that no work-around for older drivers starts: CUTLASS changes tensor maps
 * before 13.2. */
cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION > DRIVER_VERSION ? CUDART_VERSION : DRIVER_VERSION;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaDeviceSynchronize(void) {
    return runtime_synchronize(NULL, true);
}

/* Keeps the findings, which belong to the process. */
cudaError_t cudaDeviceReset(void) {
    return runtime_synchronize(NULL, true);
}

/* Limits of a process; the simulator's frames and buffers do not need the others' sizes. HW: the defaults of an
 * H200. */
static size_t limits[] = {[cudaLimitStackSize] = 1024,
                          [cudaLimitPrintfFifoSize] = 7 << 20,
                          [cudaLimitMallocHeapSize] = 8 << 20,
                          [cudaLimitDevRuntimeSyncDepth] = 2,
                          [cudaLimitDevRuntimePendingLaunchCount] = 2048,
                          [cudaLimitMaxL2FetchGranularity] = 64,
                          [cudaLimitPersistingL2CacheSize] = 0};

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value) {
    if ((unsigned)limit >= sizeof limits / sizeof *limits) {
        return runtime_result(cudaErrorUnsupportedLimit);
    }
    if (limit == cudaLimitMallocHeapSize) {
        struct sim *sim = runtime_lock();
        const bool set = sim != NULL && sim_set_heap(sim, value);
        if (sim != NULL) {
            runtime_unlock();
        }
        if (!set) { /* as on a card, once a kernel that calls malloc has run */
            return runtime_result(sim != NULL ? cudaErrorInvalidValue : cudaErrorMemoryAllocation);
        }
    }
    limits[limit] = value;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit) {
    if ((unsigned)limit >= sizeof limits / sizeof *limits) {
        return runtime_result(cudaErrorUnsupportedLimit);
    }
    *value = limits[limit];
    return runtime_result(cudaSuccess);
}

cudaError_t cudaInitDevice(int device, unsigned flags, unsigned device_flags) {
    (void)flags;
    (void)device_flags;
    return cudaSetDevice(device);
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
    (void)flags;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaGetDeviceFlags(unsigned *flags) {
    *flags = 0;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config) {
    (void)config;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaCtxResetPersistingL2Cache(void) {
    return runtime_result(cudaSuccess);
}

static const char bus_id[] = "0000:01:00.0";

cudaError_t cudaDeviceGetPCIBusId(char *id, int room, int device) {
    if (device != 0 || room <= 0) {
        return runtime_result(device != 0 ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    }
    (void)snprintf(id, (size_t)room, "%s", bus_id);
    return runtime_result(cudaSuccess);
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id) {
    *device = 0;
    return runtime_result(strcmp(id, bus_id) == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *wanted) {
    (void)wanted;
    return cudaGetDevice(device);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    *can = 0;
    return runtime_result(device == 0 && peer == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    (void)peer;
    (void)flags;
    return runtime_result(cudaErrorInvalidDevice); /* there is no other device */
}

cudaError_t cudaProfilerStart(void) {
    return cudaSuccess;
}

cudaError_t cudaProfilerStop(void) {
    return cudaSuccess;
}
