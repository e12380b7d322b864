/* Memory of the CUDA runtime shim.  Device memory is host memory known to the simulator.  Every copy is
 * complete when its call returns. */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "memory_names.h"

static cudaError_t allocate(void **memory, size_t bytes, const char *name, bool device_only) {
    if (memory == NULL) {
        return runtime_result(cudaErrorInvalidValue);
    }
    struct sim *sim = runtime_lock();
    *memory = NULL;
    RETURN_IF_NO_MEMORY(sim);
    *memory = sim_alloc(sim, bytes, name);
    if (*memory != NULL && device_only) {
        sim_device_only(sim, *memory);
    } else if (*memory != NULL) {
        memset(*memory, 0, bytes); /* as the host's system gives pages, and programs rely on it */
    }
    runtime_unlock();
    return runtime_result(*memory == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    return allocate(memory, bytes, "cudaMalloc", true);
}

/* Waits for the device, as a card does. */
cudaError_t cudaFree(void *memory) {
    if (memory == NULL) {
        return runtime_result(cudaSuccess);
    }
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    int status = sim_free(sim, memory);
    (void)sim_queues_synchronize(sim);
    runtime_unlock();
    return runtime_result(status == SIM_OK ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t queue) {
    cudaError_t error;
    if (capture_refuses(queue, &error)) {
        return runtime_unmodelled("cudaMallocAsync in a captured stream (a memory node of a graph)");
    }
    struct sim *sim = runtime_lock();
    *memory = NULL;
    RETURN_IF_NO_MEMORY(sim);
    sim_queue_select(sim, runtime_queue(sim, queue));
    *memory = sim_alloc_in_queue(sim, bytes, "cudaMallocAsync");
    if (*memory != NULL) {
        sim_device_only(sim, *memory);
    }
    runtime_unlock();
    return runtime_result(*memory == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaMallocFromPoolAsync(void **memory, size_t bytes, cudaMemPool_t pool, cudaStream_t queue) {
    (void)pool;
    return cudaMallocAsync(memory, bytes, queue);
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t queue) {
    if (memory == NULL) {
        return runtime_result(cudaSuccess);
    }
    cudaError_t error;
    if (capture_refuses(queue, &error)) {
        return runtime_unmodelled("cudaFreeAsync in a captured stream (a memory node of a graph)");
    }
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    sim_queue_select(sim, runtime_queue(sim, queue));
    int status = sim_free_in_queue(sim, memory);
    runtime_unlock();
    return runtime_result(status == SIM_OK ? cudaSuccess : cudaErrorInvalidValue);
}

/* other: the error for a status that is not about memory. */
static cudaError_t result_of(int status, cudaError_t other) {
    return runtime_result(status == SIM_OK          ? cudaSuccess
                          : status == SIM_NO_MEMORY ? cudaErrorMemoryAllocation
                                                    : other);
}

/* `wait`: the host waits for the copy, which orders what it submits later. */
static cudaError_t copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t queue,
                        bool wait) {
    const struct graph_rows rows = {
        .to = to, .from = from, .width = bytes, .height = 1, .depth = 1, .kind = kind};
    cudaError_t error;
    if (wait ? capture_refuses(queue, &error) : capture_rows(queue, &rows, &error)) {
        return runtime_result(error);
    }
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    unsigned number = runtime_queue(sim, queue);
    sim_queue_select(sim, number);
    int status = kind == cudaMemcpyHostToDevice   ? sim_write(sim, to, from, bytes)
                 : kind == cudaMemcpyDeviceToHost ? sim_read(sim, to, from, bytes)
                                                  : sim_copy(sim, to, from, bytes);
    if (status == SIM_OK && wait) {
        sim_synchronize(sim);
        status = sim_queue_synchronize(sim, number);
    }
    runtime_report(sim);
    runtime_unlock();
    return result_of(status, cudaErrorInvalidValue);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    return copy(to, from, bytes, kind, NULL, true);
}

static cudaError_t copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                             size_t height, enum cudaMemcpyKind kind, cudaStream_t queue, bool wait) {
    cudaError_t error = runtime_result(cudaSuccess);
    for (size_t row = 0; row < height && error == cudaSuccess; row++) {
        error =
            copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width, kind, queue, wait);
    }
    return error;
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                         size_t height, enum cudaMemcpyKind kind) {
    return copy_rows(to, to_pitch, from, from_pitch, width, height, kind, NULL, true);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t queue) {
    return copy(to, from, bytes, kind, queue, false);
}

cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    return runtime_result(runtime_set(to, (unsigned)value, 1, bytes, NULL));
}

cudaError_t runtime_set(void *to, unsigned value, size_t bytes, size_t count, cudaStream_t queue) {
    const struct graph_rows rows = {
        .to = to, .width = count, .height = 1, .depth = 1, .value = value, .element_bytes = (unsigned)bytes};
    cudaError_t error;
    if (capture_rows(queue, &rows, &error)) {
        return error;
    }
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    sim_queue_select(sim, runtime_queue(sim, queue));
    int status = count > SIZE_MAX / bytes || (uintptr_t)to % bytes != 0
                     ? SIM_BAD_ARGUMENT
                     : sim_fill(sim, to, (int)value, bytes * count);
    for (size_t i = 0; status == SIM_OK && bytes > 1 && i < count; i++) {
        memcpy((char *)to + i * bytes, &value, bytes); /* little endian */
    }
    runtime_report(sim);
    runtime_unlock();
    return result_of(status, cudaErrorInvalidValue);
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t queue) {
    cudaError_t error = runtime_result(cudaSuccess);
    for (size_t row = 0; row < height && error == cudaSuccess; row++) {
        error = cudaMemsetAsync((char *)to + row * pitch, value, width, queue);
    }
    return error;
}

cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height) {
    return cudaMemset2DAsync(to, pitch, value, width, height, NULL);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t queue) {
    return runtime_result(runtime_set(to, (unsigned)value, 1, bytes, queue));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t queue) {
    return copy_rows(to, to_pitch, from, from_pitch, width, height, kind, queue, false);
}

/* There is one device, which is its own peer. */
cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes) {
    return to_device != 0 || from_device != 0 ? runtime_result(cudaErrorInvalidDevice)
                                              : cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t queue) {
    return to_device != 0 || from_device != 0
               ? runtime_result(cudaErrorInvalidDevice)
               : cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue);
}

cudaError_t cudaMallocPitch(void **memory, size_t *pitch, size_t width, size_t height) {
    const size_t unit = 512; /* HW: the pitch of cards is a multiple of 512 bytes */
    *pitch = (width + unit - 1) / unit * unit;
    return cudaMalloc(memory, *pitch * height);
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *memory, struct cudaExtent extent) {
    *memory = (struct cudaPitchedPtr){.xsize = extent.width, .ysize = extent.height};
    return cudaMallocPitch(&memory->ptr, &memory->pitch, extent.width, extent.height * extent.depth);
}

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr to, int value, struct cudaExtent extent,
                              cudaStream_t queue) {
    cudaError_t error = runtime_result(cudaSuccess);
    for (size_t slice = 0; slice < extent.depth && error == cudaSuccess; slice++) {
        char *at = (char *)to.ptr + slice * to.pitch * to.ysize;
        error = cudaMemset2DAsync(at, to.pitch, value, extent.width, extent.height, queue);
    }
    return error;
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr to, int value, struct cudaExtent extent) {
    return cudaMemset3DAsync(to, value, extent, NULL);
}

/* Makes memory of the host accessible to kernels. */
cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags) {
    struct sim *sim = runtime_lock();
    (void)flags;
    RETURN_IF_NO_MEMORY(sim);
    int status = sim_register(sim, memory, bytes, REGISTERED_MEMORY);
    runtime_unlock();
    return result_of(status, cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostUnregister(void *memory) {
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    int status = sim_unregister(sim, memory);
    runtime_unlock();
    return runtime_result(status == SIM_OK ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags) {
    (void)flags;
    *device = host;
    return runtime_result(cudaSuccess);
}

/* Host and device share an address space here, so managed memory is ordinary memory. */
cudaError_t cudaMallocManaged(void **memory, size_t bytes, unsigned flags) {
    (void)flags;
    return allocate(memory, bytes, MANAGED_MEMORY, false);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags) {
    (void)flags;
    return allocate(memory, bytes, PINNED_MEMORY, false);
}

cudaError_t cudaMallocHost(void **memory, size_t bytes) {
    return allocate(memory, bytes, PAGE_LOCKED_MEMORY, false);
}

cudaError_t cudaFreeHost(void *memory) {
    return cudaFree(memory);
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    *available = *total = runtime_memory_bytes();
    return runtime_result(cudaSuccess);
}

/* A copy to the symbol, or from it to `other`, of which the other is NULL. */
static cudaError_t copy_symbol(const void *symbol, void *other, const void *from, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind, cudaStream_t queue, bool wait) {
    size_t room = 0;
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    cudaError_t error;
    char *at = registry_variable(sim, symbol, &room, &error);
    runtime_unlock();
    if (at == NULL || offset > room || bytes > room - offset) {
        return runtime_result(at == NULL ? error : cudaErrorInvalidSymbol);
    }
    return copy(from != NULL ? at + offset : other, from != NULL ? from : at + offset, bytes, kind, queue,
                wait);
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind) {
    return copy_symbol(symbol, NULL, from, bytes, offset, kind, NULL, true);
}

cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset,
                                 enum cudaMemcpyKind kind) {
    return copy_symbol(symbol, to, NULL, bytes, offset, kind, NULL, true);
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset,
                                    enum cudaMemcpyKind kind, cudaStream_t queue) {
    return copy_symbol(symbol, NULL, from, bytes, offset, kind, queue, false);
}

cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t queue) {
    return copy_symbol(symbol, to, NULL, bytes, offset, kind, queue, false);
}

cudaError_t cudaGetSymbolSize(size_t *bytes, const void *symbol) {
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    cudaError_t error;
    (void)registry_variable(sim, symbol, bytes, &error);
    runtime_unlock();
    return runtime_result(error);
}

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol) {
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    cudaError_t error;
    *address = registry_variable(sim, symbol, NULL, &error);
    runtime_unlock();
    return runtime_result(error == cudaErrorInvalidSymbol ? cudaErrorInvalidValue : error);
}
