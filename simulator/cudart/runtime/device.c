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

/* A property of the chip; 0 for features that the simulator does not have. */
static int attribute_of(enum cudaDeviceAttr attribute) {
    const struct chip *chip = runtime_chip();
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
        return chip->major;
    case cudaDevAttrComputeCapabilityMinor:
        return chip->minor;
    case cudaDevAttrMultiProcessorCount:
        return runtime_sms();
    case cudaDevAttrMaxSharedMemoryPerBlock:
        return SHARED_DEFAULT_BYTES;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        return chip->shared_bytes;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        return chip->shared_sm_bytes;
    case cudaDevAttrReservedSharedMemoryPerBlock:
        return RESERVED_BYTES;
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
        return BLOCK_THREADS;
    case cudaDevAttrMaxBlockDimZ:
        return 64;
    case cudaDevAttrMaxGridDimX:
        return INT_MAX;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
        return UINT16_MAX;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        return chip->sm_threads;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
        return chip->sm_blocks;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
        return REGISTERS;
    case cudaDevAttrWarpSize:
        return 32;
    case cudaDevAttrL2CacheSize:
        return chip->l2_bytes;
    case cudaDevAttrClusterLaunch:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrMemoryPoolsSupported:
        return 1;
    case cudaDevAttrAsyncEngineCount:
        return chip->copy_engines;
    default:
        return common_limit(attribute);
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
    p->sharedMemPerBlock = SHARED_DEFAULT_BYTES;
    p->sharedMemPerBlockOptin = chip->shared_bytes;
    p->sharedMemPerMultiprocessor = chip->shared_sm_bytes;
    p->reservedSharedMemPerBlock = RESERVED_BYTES;
    p->regsPerBlock = p->regsPerMultiprocessor = REGISTERS;
    p->warpSize = attribute_of(cudaDevAttrWarpSize);
    p->maxThreadsPerBlock = BLOCK_THREADS;
    p->maxThreadsPerMultiProcessor = chip->sm_threads;
    p->maxBlocksPerMultiProcessor = chip->sm_blocks;
    for (int i = 0; i < 3; i++) {
        p->maxThreadsDim[i] = attribute_of((enum cudaDeviceAttr)(cudaDevAttrMaxBlockDimX + i));
        p->maxGridSize[i] = attribute_of((enum cudaDeviceAttr)(cudaDevAttrMaxGridDimX + i));
    }
    p->major = chip->major;
    p->minor = chip->minor;
    p->multiProcessorCount = runtime_sms();
    p->l2CacheSize = chip->l2_bytes;
    p->asyncEngineCount = chip->copy_engines;
    common_limits_of(p);
    p->concurrentKernels = p->unifiedAddressing = p->managedMemory = p->cooperativeLaunch = p->clusterLaunch =
        1;
    p->memoryPoolsSupported = p->canMapHostMemory = p->hostRegisterSupported = p->concurrentManagedAccess = 1;
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
