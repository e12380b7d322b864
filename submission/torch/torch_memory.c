#include "torch_memory.h"

#include "torch_operator.h"

/* A call of torch's interface failed, which says why on stderr. */
static int32_t torch_failed(const char *name, const char *what) {
    return set_message(CUSTOM_KERNEL_ERROR_DEVICE, "%s: torch could not %s", name, what);
}

/* The dtype of one of torch's numbers. */
static enum torch_dtype dtype_of(int32_t number) {
    int dtype = 0;
    while (dtype < DTYPES && torch_shim.dtypes[dtype] != number) {
        dtype++;
    }
    return (enum torch_dtype)dtype;
}

int32_t read_tensor(const char *name, void *handle, struct torch_tensor *tensor) {
    int64_t *sizes = NULL, *strides = NULL;
    int32_t dtype = 0, device = 0;
    tensor->name = name;
    tensor->handle = handle;
    tensor->described = false;
    if (torch_shim.aoti_torch_get_dim(handle, &tensor->dimensions) != 0 ||
        torch_shim.aoti_torch_get_sizes(handle, &sizes) != 0 ||
        torch_shim.aoti_torch_get_strides(handle, &strides) != 0 ||
        torch_shim.aoti_torch_get_dtype(handle, &dtype) != 0 ||
        torch_shim.aoti_torch_get_device_type(handle, &device) != 0 ||
        torch_shim.aoti_torch_get_device_index(handle, &tensor->device_index) != 0) {
        bool given = true; /* torch passes None for a tensor that is not optional */
        return torch_shim.aoti_torch_is_defined(handle, &given) != 0 || given
                   ? torch_failed(name, "read the tensor's metadata")
                   : set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is None; expected a tensor", name);
    }
    tensor->sizes = sizes;
    tensor->strides = strides;
    tensor->dtype = dtype_of(dtype);
    tensor->device = device == torch_shim.cpu    ? TORCH_CPU
                     : device == torch_shim.cuda ? TORCH_CUDA
                                                 : TORCH_ELSEWHERE;
    return CUSTOM_KERNEL_OK;
}

int32_t tensor_data(const struct torch_tensor *tensor, void **data) {
    int64_t held = 0, offset = 0;
    *data = NULL;
    if (tensor->described) {
        return CUSTOM_KERNEL_OK;
    }
    if (torch_shim.aoti_torch_get_storage_size(tensor->handle, &held) != 0 ||
        torch_shim.aoti_torch_get_storage_offset(tensor->handle, &offset) != 0) {
        return torch_failed(tensor->name, "read the tensor's storage");
    }
    RETURN_IF_FAILED(check_storage(tensor, held - offset * dtype_bytes(tensor->dtype)));
    return torch_shim.aoti_torch_get_data_ptr(tensor->handle, data) == 0
               ? CUSTOM_KERNEL_OK
               : torch_failed(tensor->name, "give the tensor's address");
}

/* torch's number of a device's type. */
static int32_t device_type(const struct torch_tensor *tensor) {
    return tensor->device == TORCH_CPU ? torch_shim.cpu : torch_shim.cuda;
}

static int32_t new_tensor(const struct torch_shape *shape, enum torch_dtype dtype,
                          const struct torch_tensor *as, void **handle, void **data) {
    int64_t strides[TORCH_MAX_DIMENSIONS];
    int64_t bytes = dtype_bytes(dtype);
    packed_strides(shape, strides);
    for (int i = 0; i < shape->dimensions; i++) {
        bytes *= shape->sizes[i];
    }
    if (torch_shim.aoti_torch_empty_strided(shape->dimensions, shape->sizes, strides, torch_shim.dtypes[dtype],
                                            device_type(as), as->device_index, handle) != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY,
                           "out of memory: torch could not allocate %lld bytes on %s", (long long)bytes,
                           device_text(as).text);
    }
    if (torch_shim.aoti_torch_get_data_ptr(*handle, data) != 0) {
        (void)torch_shim.aoti_torch_delete_tensor_object(*handle);
        return torch_failed("output", "give the tensor's address");
    }
    return CUSTOM_KERNEL_OK;
}

int32_t new_result(struct torch_call *call, const struct torch_shape *shape, enum torch_dtype dtype,
                   const struct torch_tensor *as, void **data) {
    *data = NULL;
    if (as->described) {
        return CUSTOM_KERNEL_OK;
    }
    RETURN_IF_FAILED(new_tensor(shape, dtype, as, &call->result[call->results], data));
    call->results++;
    return CUSTOM_KERNEL_OK;
}

int32_t new_copy(struct torch_call *call, int64_t bytes, bool zeroed, const struct torch_tensor *as,
                 void **data) {
    *data = NULL;
    if (as->described) {
        return CUSTOM_KERNEL_OK;
    }
    const struct torch_shape shape = {.dimensions = 1, .sizes = {bytes}, .order = {0}};
    RETURN_IF_FAILED(new_tensor(&shape, DTYPE_uint8, as, &call->copy[call->copies], data));
    call->copies++;
    return !zeroed || torch_shim.aoti_torch_zero_(call->copy[call->copies - 1]) == 0
               ? CUSTOM_KERNEL_OK
               : torch_failed(as->name, "fill a copy with zeros");
}

/* Bytes as a tensor that does not own them. */
static void *bytes_at(const struct torch_tensor *as, const void *data, int dimensions, const int64_t *sizes,
                      const int64_t *strides) {
    void *handle = NULL;
    const int32_t status = torch_shim.aoti_torch_create_tensor_from_blob(
        (void *)(uintptr_t)data, dimensions, sizes, strides, 0, torch_shim.dtypes[DTYPE_uint8], device_type(as),
        as->device_index, &handle);
    return status == 0 ? handle : NULL;
}

int32_t copy_bytes(const struct torch_tensor *as, int dimensions, const int64_t *sizes, void *into,
                   const int64_t *into_strides, const void *from, const int64_t *from_strides) {
    if (as->described) {
        return CUSTOM_KERNEL_OK;
    }
    void *target = bytes_at(as, into, dimensions, sizes, into_strides);
    void *source = bytes_at(as, from, dimensions, sizes, from_strides);
    const bool done = target != NULL && source != NULL && torch_shim.aoti_torch_copy_(target, source, 0) == 0;
    if (target != NULL) {
        (void)torch_shim.aoti_torch_delete_tensor_object(target);
    }
    if (source != NULL) {
        (void)torch_shim.aoti_torch_delete_tensor_object(source);
    }
    return done ? CUSTOM_KERNEL_OK : torch_failed(as->name, "copy the tensor");
}

int32_t device_and_queue(const struct torch_tensor *tensor, int32_t *device, void **queue) {
    *device = CUSTOM_KERNEL_DEVICE_HOST;
    *queue = NULL;
    if (tensor->device == TORCH_CPU || tensor->described) {
        return CUSTOM_KERNEL_OK;
    }
    *device = tensor->device_index;
    return torch_shim.current_queue != NULL && torch_shim.current_queue(tensor->device_index, queue) == 0
               ? CUSTOM_KERNEL_OK
               : torch_failed(tensor->name, "say the current queue of the device");
}
