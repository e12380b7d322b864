/* Memory pools: there is one, which returns freed memory at once.  Its attributes are stored but have no
 * effect. */
#include <cuda_runtime_api.h>
#include <string.h>

#include "cudart/shim.h"

static cudaError_t the_pool(cudaMemPool_t *pool, int device) {
    static char one;
    *pool = (cudaMemPool_t)(void *)&one;
    return runtime_result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties) {
    return the_pool(pool, properties->location.type == cudaMemLocationTypeDevice ? properties->location.id : 0);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    return the_pool(pool, device);
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
    return the_pool(pool, device);
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    return the_pool(&pool, device);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    return runtime_result(pool == NULL ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) {
    (void)bytes;
    return cudaMemPoolDestroy(pool);
}

static bool is_switch(enum cudaMemPoolAttr attribute) {
    return attribute == cudaMemPoolReuseFollowEventDependencies ||
           attribute == cudaMemPoolReuseAllowOpportunistic ||
           attribute == cudaMemPoolReuseAllowInternalDependencies;
}

/* Switches are ints, all other attributes 64-bit numbers (driver_types.h, cudaMemPoolAttr). */
static unsigned long long kept[16];

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    if (pool == NULL || (size_t)attribute >= sizeof kept / sizeof *kept) {
        return runtime_result(cudaErrorInvalidValue);
    }
    kept[attribute] = 0;
    memcpy(&kept[attribute], value, is_switch(attribute) ? sizeof(int) : sizeof *kept);
    return runtime_result(cudaSuccess);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    if (pool == NULL || (size_t)attribute >= sizeof kept / sizeof *kept) {
        return runtime_result(cudaErrorInvalidValue);
    }
    memcpy(value, &kept[attribute], is_switch(attribute) ? sizeof(int) : sizeof *kept);
    return runtime_result(cudaSuccess);
}
