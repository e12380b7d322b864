/* Copies of rows and boxes of memory by the driver's descriptions.  Arrays are not modelled. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "cudart/shim.h"
#include "driver.h"

struct end {
    CUmemorytype type;
    struct cudaPitchedPtr memory;
    struct cudaPos at;
};

/* `rows`: of a slice; 0 is allowed for a single slice. */
static struct end end_of(CUmemorytype type, const void *host, CUdeviceptr device, size_t pitch, size_t rows,
                         struct cudaPos at) {
    void *address = (void *)(type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : (uintptr_t)device);
    return (struct end){type, {.ptr = address, .pitch = pitch, .xsize = pitch, .ysize = rows}, at};
}

static bool holds(const struct end *end, struct cudaExtent extent) {
    return (end->memory.pitch >= end->at.x + extent.width || extent.height * extent.depth <= 1) &&
           (end->memory.ysize >= end->at.y + extent.height || (extent.depth <= 1 && end->at.z == 0));
}

static enum cudaMemcpyKind kind_of(CUmemorytype from, CUmemorytype to) {
    if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED) {
        return cudaMemcpyDefault;
    }
    return from == CU_MEMORYTYPE_HOST
               ? (to == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice)
               : (to == CU_MEMORYTYPE_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice);
}

static CUresult copy(struct end from, struct end to, struct cudaExtent extent, CUstream queue, bool wait) {
    if (from.type == CU_MEMORYTYPE_ARRAY || to.type == CU_MEMORYTYPE_ARRAY) {
        return driver_result(runtime_result(runtime_unmodelled("cuMemcpy2D or cuMemcpy3D of an array")));
    }
    if (!holds(&from, extent) || !holds(&to, extent)) {
        return driver_result(runtime_result(cudaErrorInvalidValue));
    }
    const struct cudaMemcpy3DParms wanted = {.srcPtr = from.memory,
                                             .srcPos = from.at,
                                             .dstPtr = to.memory,
                                             .dstPos = to.at,
                                             .extent = extent,
                                             .kind = kind_of(from.type, to.type)};
    return driver_result(wait ? cudaMemcpy3D(&wanted) : cudaMemcpy3DAsync(&wanted, queue));
}

static CUresult copy_rows(const CUDA_MEMCPY2D *c, CUstream queue, bool wait) {
    return copy(end_of(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcPitch, 0,
                       (struct cudaPos){c->srcXInBytes, c->srcY, 0}),
                end_of(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstPitch, 0,
                       (struct cudaPos){c->dstXInBytes, c->dstY, 0}),
                (struct cudaExtent){c->WidthInBytes, c->Height, 1}, queue, wait);
}

static CUresult copy_box(const CUDA_MEMCPY3D *c, CUstream queue, bool wait) {
    return copy(end_of(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcPitch, c->srcHeight,
                       (struct cudaPos){c->srcXInBytes, c->srcY, c->srcZ}),
                end_of(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstPitch, c->dstHeight,
                       (struct cudaPos){c->dstXInBytes, c->dstY, c->dstZ}),
                (struct cudaExtent){c->WidthInBytes, c->Height, c->Depth}, queue, wait);
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D *wanted) {
    return copy_rows(wanted, NULL, true);
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *wanted) {
    return copy_rows(wanted, NULL, true);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *wanted, CUstream queue) {
    return copy_rows(wanted, queue, false);
}

CUresult cuMemcpy3D(const CUDA_MEMCPY3D *wanted) {
    return copy_box(wanted, NULL, true);
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *wanted, CUstream queue) {
    return copy_box(wanted, queue, false);
}
