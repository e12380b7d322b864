/* Texture and surface objects: a description that kernels read (sim.h, sim_texture), whose address is the
 * handle. */
#include <string.h>

#include "array.h"

/* Allocates the description; *error says whether it succeeded. */
static unsigned long long make(const struct sim_texture *texture, cudaError_t *error) {
    struct sim *sim = runtime_lock();
    void *memory = sim == NULL ? NULL : sim_alloc(sim, sizeof *texture, "a texture or surface object");
    if (memory != NULL) {
        memcpy(memory, texture, sizeof *texture);
    }
    if (sim != NULL) {
        runtime_unlock();
    }
    *error = memory == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
    return (uintptr_t)memory;
}

static bool set_format(struct sim_texture *texture, const struct cudaChannelFormatDesc *format) {
    const int bits[] = {format->x, format->y, format->z, format->w};
    texture->channels = 0;
    while (texture->channels < 4 && bits[texture->channels] != 0) {
        if (bits[texture->channels++] != format->x) {
            return false;
        }
    }
    texture->channel_bits = (unsigned)format->x;
    texture->kind = format->f == cudaChannelFormatKindFloat      ? SIM_TEXTURE_FLOAT
                    : format->f == cudaChannelFormatKindUnsigned ? SIM_TEXTURE_UNSIGNED
                                                                 : SIM_TEXTURE_SIGNED;
    return texture->channels != 0 && format->f <= cudaChannelFormatKindFloat &&
           (format->x == 8 || format->x == 16 || format->x == 32);
}

static void set_array(struct sim_texture *texture, cudaArray_const_t array) {
    const struct cudaExtent extent = array->extent;
    const bool layered = (array->flags & cudaArrayLayered) != 0;
    texture->data = array->data;
    texture->pitch = array->pitch;
    texture->slice_pitch = array->slice_pitch;
    texture->dimensions = extent.depth != 0 && !layered ? 3 : extent.height != 0 ? 2 : 1;
    texture->size[0] = (unsigned)extent.width;
    texture->size[1] = extent.height == 0 ? 1 : (unsigned)extent.height;
    texture->size[2] = extent.depth == 0 || layered ? 1 : (unsigned)extent.depth;
    texture->layers = layered ? (unsigned)extent.depth : 1;
}

/* Sets where the texels are; cudaErrorNotSupported: in no way that is modelled. */
static cudaError_t set_resource(struct sim_texture *texture, const struct cudaResourceDesc *resource) {
    const struct cudaChannelFormatDesc *format;
    *texture = (struct sim_texture){.magic = SIM_TEXTURE_MAGIC, .layers = 1, .size = {1, 1, 1}};
    if (resource->resType == cudaResourceTypeArray) {
        format = &resource->res.array.array->format;
        set_array(texture, resource->res.array.array);
    } else if (resource->resType == cudaResourceTypeLinear) {
        format = &resource->res.linear.desc;
        texture->data = resource->res.linear.devPtr;
        texture->dimensions = 1;
        texture->linear_memory = true;
        texture->size[0] =
            (unsigned)(array_element(format) == 0 ? 0
                                                  : resource->res.linear.sizeInBytes / array_element(format));
    } else if (resource->resType == cudaResourceTypePitch2D) {
        format = &resource->res.pitch2D.desc;
        texture->data = resource->res.pitch2D.devPtr;
        texture->dimensions = 2;
        texture->size[0] = (unsigned)resource->res.pitch2D.width;
        texture->size[1] = (unsigned)resource->res.pitch2D.height;
        texture->pitch = resource->res.pitch2D.pitchInBytes;
    } else {
        return runtime_unmodelled("a texture of a mipmapped array");
    }
    return set_format(texture, format) ? cudaSuccess
                                       : runtime_unmodelled("a texture with this format of its channels");
}

cudaError_t cudaCreateTextureObject(cudaTextureObject_t *object, const struct cudaResourceDesc *resource,
                                    const struct cudaTextureDesc *how,
                                    const struct cudaResourceViewDesc *view) {
    struct sim_texture texture;
    cudaError_t error = set_resource(&texture, resource);
    *object = 0;
    if (error != cudaSuccess) {
        return error;
    }
    if (view != NULL || how->sRGB != 0) {
        return runtime_unmodelled(view != NULL ? "a texture with a resource view" : "an sRGB texture");
    }
    for (int i = 0; i < 3; i++) {
        texture.address_mode[i] = how->addressMode[i];
    }
    memcpy(texture.border, how->borderColor, sizeof texture.border);
    texture.filter_linear = how->filterMode == cudaFilterModeLinear;
    texture.normalized = how->normalizedCoords != 0;
    texture.read_normalized = how->readMode == cudaReadModeNormalizedFloat;
    if ((texture.filter_linear || texture.read_normalized) && texture.kind != SIM_TEXTURE_FLOAT &&
        (!texture.read_normalized || texture.channel_bits == 32)) {
        return runtime_result(texture.read_normalized ? cudaErrorInvalidNormSetting
                                                      : cudaErrorInvalidFilterSetting);
    }
    *object = make(&texture, &error);
    return runtime_result(error);
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *object, const struct cudaResourceDesc *resource) {
    struct sim_texture texture;
    *object = 0;
    if (resource->resType != cudaResourceTypeArray) {
        return runtime_result(cudaErrorInvalidValue);
    }
    cudaError_t error = set_resource(&texture, resource);
    if (error != cudaSuccess) {
        return error;
    }
    texture.is_surface = true;
    *object = make(&texture, &error);
    return runtime_result(error);
}

cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
    return cudaFree((void *)(uintptr_t)object);
}

cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) {
    return cudaFree((void *)(uintptr_t)object);
}
