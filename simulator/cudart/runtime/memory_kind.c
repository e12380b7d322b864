/* The kind of memory that an address belongs to. */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <string.h>

#include "cudart/shim.h"
#include "memory_names.h"

static enum cudaMemoryType type_of(struct sim *sim, const void *address) {
    size_t offset, bytes;
    const char *name = sim_name_of(sim, address, &offset, &bytes);
    if (name == NULL) {
        return cudaMemoryTypeUnregistered;
    }
    if (strcmp(name, MANAGED_MEMORY) == 0 || registry_is_managed(sim, address)) {
        return cudaMemoryTypeManaged;
    }
    const bool host = strcmp(name, PINNED_MEMORY) == 0 || strcmp(name, PAGE_LOCKED_MEMORY) == 0 ||
                      strcmp(name, REGISTERED_MEMORY) == 0;
    return host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *address) {
    struct sim *sim = runtime_lock();
    memset(attributes, 0, sizeof *attributes);
    RETURN_IF_NO_MEMORY(sim);
    attributes->type = type_of(sim, address);
    runtime_unlock();
    const bool known = attributes->type != cudaMemoryTypeUnregistered;
    attributes->device = known ? 0 : -2; /* cudaInvalidDeviceId */
    attributes->devicePointer = known ? (void *)(uintptr_t)address : NULL;
    attributes->hostPointer = attributes->type == cudaMemoryTypeDevice ? NULL : attributes->devicePointer;
    return runtime_result(cudaSuccess);
}
