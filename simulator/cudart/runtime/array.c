/* CUDA arrays: allocation and copies. Mipmaps and cubes are not modelled. */
#include "array.h"

#include <stdlib.h>
#include <string.h>

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   enum cudaChannelFormatKind kind) {
    return (struct cudaChannelFormatDesc){x, y, z, w, kind};
}

size_t array_element(const struct cudaChannelFormatDesc *format) {
    return (size_t)(format->x + format->y + format->z + format->w) / 8;
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *format,
                              struct cudaExtent extent, unsigned flags) {
    const size_t row_align = 16; /* the largest element */
    *array = NULL;
    if ((flags & (cudaArrayCubemap | cudaArraySparse | cudaArrayDeferredMapping)) != 0) {
        return runtime_unmodelled("cudaMalloc3DArray of a cube or a sparse array");
    }
    struct cudaArray *made = malloc(sizeof *made);
    if (made == NULL || extent.width == 0 || array_element(format) == 0) {
        free(made);
        return runtime_result(made == NULL ? cudaErrorMemoryAllocation : cudaErrorInvalidValue);
    }
    const size_t rows = extent.height == 0 ? 1 : extent.height, slices = extent.depth == 0 ? 1 : extent.depth;
    const size_t pitch = (extent.width * array_element(format) + row_align - 1) / row_align * row_align;
    *made = (struct cudaArray){
        .format = *format, .extent = extent, .flags = flags, .pitch = pitch, .slice_pitch = pitch * rows};
    const cudaError_t error = cudaMalloc((void **)&made->data, made->slice_pitch * slices);
    if (error != cudaSuccess) {
        free(made);
        return error;
    }
    *array = made;
    return cudaSuccess;
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *format, size_t width,
                            size_t height, unsigned flags) {
    return cudaMalloc3DArray(array, format, (struct cudaExtent){width, height, 0}, flags);
}

cudaError_t cudaFreeArray(cudaArray_t array) {
    if (array == NULL) {
        return runtime_result(cudaSuccess);
    }
    const cudaError_t error = cudaFree(array->data);
    free(array);
    return error;
}

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *format, struct cudaExtent *extent, unsigned *flags,
                             cudaArray_t array) {
    if (format != NULL) {
        *format = array->format;
    }
    if (extent != NULL) {
        *extent = array->extent;
    }
    if (flags != NULL) {
        *flags = array->flags;
    }
    return runtime_result(cudaSuccess);
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *format, cudaArray_const_t array) {
    *format = array->format;
    return runtime_result(cudaSuccess);
}

/* ---- copies; offsets and widths are in bytes ---- */

static char *place(cudaArray_const_t array, size_t x, size_t y) {
    return array->data + y * array->pitch + x;
}

static bool holds(cudaArray_const_t array, size_t x, size_t y, size_t width, size_t height) {
    const size_t row = array->extent.width * array_element(&array->format);
    const size_t rows = array->extent.height == 0 ? 1 : array->extent.height;
    return x <= row && width <= row - x && y <= rows && height <= rows - y;
}

cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch,
                                     size_t width, size_t height, enum cudaMemcpyKind kind,
                                     cudaStream_t queue) {
    return holds(to, x, y, width, height)
               ? cudaMemcpy2DAsync(place(to, x, y), to->pitch, from, pitch, width, height, kind, queue)
               : runtime_result(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch,
                                size_t width, size_t height, enum cudaMemcpyKind kind) {
    return holds(to, x, y, width, height)
               ? cudaMemcpy2D(place(to, x, y), to->pitch, from, pitch, width, height, kind)
               : runtime_result(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                       size_t width, size_t height, enum cudaMemcpyKind kind,
                                       cudaStream_t queue) {
    return holds(from, x, y, width, height)
               ? cudaMemcpy2DAsync(to, pitch, place(from, x, y), from->pitch, width, height, kind, queue)
               : runtime_result(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y,
                                  size_t width, size_t height, enum cudaMemcpyKind kind) {
    return holds(from, x, y, width, height)
               ? cudaMemcpy2D(to, pitch, place(from, x, y), from->pitch, width, height, kind)
               : runtime_result(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t x,
                                     size_t y, size_t width, size_t height, enum cudaMemcpyKind kind) {
    return holds(from, x, y, width, height)
               ? cudaMemcpy2DToArray(to, to_x, to_y, place(from, x, y), from->pitch, width, height, kind)
               : runtime_result(cudaErrorInvalidValue);
}

/* `count` bytes, row after row of the array. */
static cudaError_t copy_rows(cudaArray_const_t array, size_t x, size_t y, char *memory, size_t count,
                             enum cudaMemcpyKind kind, bool to_array) {
    const size_t row = array->extent.width * array_element(&array->format);
    cudaError_t error = runtime_result(cudaSuccess);
    while (count > 0 && error == cudaSuccess) {
        const size_t part = row - x < count ? row - x : count;
        if (x >= row || !holds(array, x, y, part, 1)) {
            return runtime_result(cudaErrorInvalidValue);
        }
        error = cudaMemcpy(to_array ? place(array, x, y) : memory, to_array ? memory : place(array, x, y), part,
                           kind);
        memory += part;
        count -= part;
        x = 0;
        y++;
    }
    return error;
}

cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t count,
                              enum cudaMemcpyKind kind) {
    return copy_rows(to, x, y, (char *)(uintptr_t)from, count, kind, true);
}

cudaError_t cudaMemcpyFromArray(void *to, cudaArray_const_t from, size_t x, size_t y, size_t count,
                                enum cudaMemcpyKind kind) {
    return copy_rows(from, x, y, to, count, kind, false);
}

/* One end of a three-dimensional copy. */
struct end {
    char *at;
    size_t pitch, slice_pitch;
};

static struct end end_of(cudaArray_const_t array, const struct cudaPitchedPtr *memory,
                         const struct cudaPos *position) {
    struct end end = {.pitch = memory->pitch, .slice_pitch = memory->pitch * memory->ysize};
    size_t unit = 1;
    end.at = memory->ptr;
    if (array != NULL) { /* its positions count elements */
        end = (struct end){array->data, array->pitch, array->slice_pitch};
        unit = array_element(&array->format);
    }
    end.at += position->z * end.slice_pitch + position->y * end.pitch + position->x * unit;
    return end;
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *copy, cudaStream_t queue) {
    const cudaArray_const_t counted = copy->srcArray != NULL ? copy->srcArray : copy->dstArray;
    const struct end from = end_of(copy->srcArray, &copy->srcPtr, &copy->srcPos);
    const struct end to = end_of(copy->dstArray, &copy->dstPtr, &copy->dstPos);
    const size_t width = copy->extent.width * (counted != NULL ? array_element(&counted->format) : 1);
    cudaError_t error = runtime_result(cudaSuccess);
    if ((copy->srcArray == NULL && copy->srcPtr.ptr == NULL) ||
        (copy->dstArray == NULL && copy->dstPtr.ptr == NULL)) {
        return runtime_result(cudaErrorInvalidValue);
    }
    for (size_t z = 0; z < copy->extent.depth && error == cudaSuccess; z++) {
        error = cudaMemcpy2DAsync(to.at + z * to.slice_pitch, to.pitch, from.at + z * from.slice_pitch,
                                  from.pitch, width, copy->extent.height, copy->kind, queue);
    }
    return error;
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *copy) {
    const cudaError_t error = cudaMemcpy3DAsync(copy, NULL);
    return error == cudaSuccess ? cudaStreamSynchronize(NULL) : error;
}
