#include "torch_tensor.h"

#include <stdio.h>
#include <string.h>

#include "torch_operator.h"

static const struct {
    const char *name;
    int64_t bytes;
} dtypes[] = {
#define X(name, bytes) {"torch." #name, bytes},
    TORCH_DTYPES(X)
#undef X
};

/* A call of torch's interface failed, which says why on stderr. */
static int32_t torch_failed(const char *name, const char *what) {
    return set_message(CUSTOM_KERNEL_ERROR_DEVICE, "%s: torch could not %s", name, what);
}

int32_t read_tensor(const char *name, void *handle, struct torch_tensor *tensor) {
    int64_t *sizes = NULL, *strides = NULL;
    tensor->name = name;
    tensor->handle = handle;
    if (torch_shim.aoti_torch_get_dim(handle, &tensor->dimensions) != 0 ||
        torch_shim.aoti_torch_get_sizes(handle, &sizes) != 0 ||
        torch_shim.aoti_torch_get_strides(handle, &strides) != 0 ||
        torch_shim.aoti_torch_get_dtype(handle, &tensor->dtype) != 0 ||
        torch_shim.aoti_torch_get_device_type(handle, &tensor->device_type) != 0 ||
        torch_shim.aoti_torch_get_device_index(handle, &tensor->device_index) != 0) {
        bool given = true; /* torch passes None for a tensor that is not optional */
        return torch_shim.aoti_torch_is_defined(handle, &given) != 0 || given
                   ? torch_failed(name, "read the tensor's metadata")
                   : set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is None; expected a tensor", name);
    }
    tensor->sizes = sizes;
    tensor->strides = strides;
    return CUSTOM_KERNEL_OK;
}

/* The enum torch_dtype of one of torch's numbers; DTYPES for a dtype without a name here. */
static int dtype_of(int32_t number) {
    int dtype = 0;
    while (dtype < DTYPES && torch_shim.dtypes[dtype] != number) {
        dtype++;
    }
    return dtype;
}

const char *dtype_text(int32_t number) {
    const int dtype = dtype_of(number);
    return dtype < DTYPES ? dtypes[dtype].name : "of another kind";
}

bool has_dtype(const struct torch_tensor *tensor, enum torch_dtype dtype) {
    return tensor->dtype == torch_shim.dtypes[dtype];
}

int32_t check_dtype(const struct torch_tensor *tensor, uint32_t set) {
    const int found = dtype_of(tensor->dtype);
    if (found < DTYPES && (set >> found & 1) != 0) {
        return CUSTOM_KERNEL_OK;
    }
    char expected[128] = "";
    for (int i = 0; i < DTYPES; i++) {
        if ((set >> i & 1) != 0) {
            const size_t used = strlen(expected);
            (void)snprintf(expected + used, sizeof expected - used, "%s%s", used > 0 ? " or " : "",
                           dtypes[i].name);
        }
    }
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has dtype %s; expected %s", tensor->name,
                       dtype_text(tensor->dtype), expected);
}

struct shape_text sizes_text(int64_t dimensions, const int64_t *sizes) {
    struct shape_text result = {"("};
    size_t used = 1;
    for (int64_t i = 0; i < dimensions && used < sizeof result.text; i++) {
        used += (size_t)snprintf(result.text + used, sizeof result.text - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)sizes[i]);
    }
    if (used < sizeof result.text) {
        (void)snprintf(result.text + used, sizeof result.text - used, dimensions == 1 ? ",)" : ")");
    }
    return result;
}

struct shape_text shape_text(const struct torch_shape *shape) {
    return sizes_text(shape->dimensions, shape->sizes);
}

struct shape_text tensor_text(const struct torch_tensor *tensor) {
    return sizes_text(tensor->dimensions, tensor->sizes);
}

struct torch_shape shape_of(const struct torch_tensor *of, int dimensions, int64_t last) {
    struct torch_shape shape = {.dimensions = dimensions + 1};
    for (int i = 0; i < dimensions; i++) {
        shape.sizes[i] = of->sizes[i];
        shape.order[i] = (int8_t)i;
    }
    shape.sizes[dimensions] = last;
    shape.order[dimensions] = (int8_t)dimensions;
    return shape;
}

struct torch_shape shape_like(const struct torch_tensor *tensor) {
    const int dimensions = (int)tensor->dimensions;
    return dimensions > 0 ? shape_of(tensor, dimensions - 1, tensor->sizes[dimensions - 1])
                          : (struct torch_shape){.dimensions = 0};
}

struct torch_shape shape_2d(int64_t rows, int64_t columns) {
    return (struct torch_shape){.dimensions = 2, .sizes = {rows, columns}, .order = {0, 1}};
}

bool same_shape(const struct torch_tensor *tensor, const struct torch_shape *shape) {
    if (tensor->dimensions != shape->dimensions) {
        return false;
    }
    for (int i = 0; i < shape->dimensions; i++) {
        if (tensor->sizes[i] != shape->sizes[i]) {
            return false;
        }
    }
    return true;
}

int64_t elements_of(const struct torch_tensor *tensor) {
    int64_t elements = 1;
    for (int64_t i = 0; i < tensor->dimensions; i++) {
        elements *= tensor->sizes[i];
    }
    return elements;
}

int32_t check_shape(const struct torch_tensor *tensor, const struct torch_shape *shape) {
    return same_shape(tensor, shape)
               ? CUSTOM_KERNEL_OK
               : set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has shape %s; expected %s", tensor->name,
                             tensor_text(tensor).text, shape_text(shape).text);
}

static void packed_strides(const struct torch_shape *shape, int64_t strides[TORCH_MAX_DIMENSIONS]) {
    int64_t distance = 1;
    for (int i = shape->dimensions - 1; i >= 0; i--) {
        strides[shape->order[i]] = distance;
        distance *= shape->sizes[shape->order[i]] > 1 ? shape->sizes[shape->order[i]] : 1;
    }
}

int32_t check_strides(const struct torch_tensor *tensor, const struct torch_shape *shape) {
    int64_t strides[TORCH_MAX_DIMENSIONS];
    bool as_expected = true, empty = false;
    packed_strides(shape, strides);
    for (int i = 0; i < shape->dimensions; i++) { /* the stride of a dimension of size 1 means nothing */
        as_expected = as_expected && (shape->sizes[i] == 1 || tensor->strides[i] == strides[i]);
        empty = empty || shape->sizes[i] == 0;
    }
    return as_expected || empty
               ? CUSTOM_KERNEL_OK
               : set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has strides %s; expected %s", tensor->name,
                             sizes_text(tensor->dimensions, tensor->strides).text,
                             sizes_text(shape->dimensions, strides).text);
}

static struct shape_text device_text(const struct torch_tensor *tensor) {
    struct shape_text text = {"cpu"};
    if (tensor->device_type != torch_shim.cpu) {
        (void)snprintf(text.text, sizeof text.text, "%s:%d",
                       tensor->device_type == torch_shim.cuda ? "cuda" : "another device",
                       tensor->device_index);
    }
    return text;
}

int32_t check_device(const struct torch_tensor *tensor, const struct torch_tensor *as) {
    return tensor->device_type == as->device_type && tensor->device_index == as->device_index
               ? CUSTOM_KERNEL_OK
               : set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is on %s; expected %s, as %s", tensor->name,
                             device_text(tensor).text, device_text(as).text, as->name);
}

int32_t check_tensor(const struct torch_tensor *tensor, uint32_t set, const struct torch_shape *shape,
                     const struct torch_tensor *as) {
    RETURN_IF_FAILED(check_dtype(tensor, set));
    RETURN_IF_FAILED(check_shape(tensor, shape));
    RETURN_IF_FAILED(check_strides(tensor, shape));
    return check_device(tensor, as);
}

/* Elements from the first one to the last one. */
static int64_t extent_of(const struct torch_tensor *tensor) {
    int64_t last = 0;
    for (int64_t i = 0; i < tensor->dimensions; i++) {
        if (tensor->sizes[i] == 0) {
            return 0;
        }
        last += (tensor->sizes[i] - 1) * tensor->strides[i];
    }
    return last + 1;
}

int32_t tensor_data(const struct torch_tensor *tensor, void **data) {
    const int dtype = dtype_of(tensor->dtype);
    const int64_t element = dtype < DTYPES ? dtypes[dtype].bytes : 1;
    int64_t held = 0, offset = 0, bytes = extent_of(tensor) * element;
    if (torch_shim.aoti_torch_get_storage_size(tensor->handle, &held) != 0 ||
        torch_shim.aoti_torch_get_storage_offset(tensor->handle, &offset) != 0) {
        return torch_failed(tensor->name, "read the tensor's storage");
    }
    held = held > offset * element ? held - offset * element : 0;
    if (held < bytes) {
        return set_message(
            CUSTOM_KERNEL_ERROR_ARGUMENT,
            "%s has %lld bytes, of which its storage holds %lld; expected a storage that holds them "
            "all",
            tensor->name, (long long)bytes, (long long)held);
    }
    return torch_shim.aoti_torch_get_data_ptr(tensor->handle, data) == 0
               ? CUSTOM_KERNEL_OK
               : torch_failed(tensor->name, "give the tensor's address");
}

static int32_t new_tensor(const struct torch_shape *shape, enum torch_dtype dtype,
                          const struct torch_tensor *as, void **handle, void **data) {
    int64_t strides[TORCH_MAX_DIMENSIONS];
    int64_t bytes = dtypes[dtype].bytes;
    packed_strides(shape, strides);
    for (int i = 0; i < shape->dimensions; i++) {
        bytes *= shape->sizes[i];
    }
    if (torch_shim.aoti_torch_empty_strided(shape->dimensions, shape->sizes, strides, torch_shim.dtypes[dtype],
                                            as->device_type, as->device_index, handle) != 0) {
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
    RETURN_IF_FAILED(new_tensor(shape, dtype, as, &call->result[call->results], data));
    call->results++;
    return CUSTOM_KERNEL_OK;
}

int32_t new_copy(struct torch_call *call, int64_t bytes, bool zeroed, const struct torch_tensor *as,
                 void **data) {
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
        (void *)(uintptr_t)data, dimensions, sizes, strides, 0, torch_shim.dtypes[DTYPE_uint8], as->device_type,
        as->device_index, &handle);
    return status == 0 ? handle : NULL;
}

int32_t copy_bytes(const struct torch_tensor *as, int dimensions, const int64_t *sizes, void *into,
                   const int64_t *into_strides, const void *from, const int64_t *from_strides) {
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
    if (tensor->device_type == torch_shim.cpu) {
        return CUSTOM_KERNEL_OK;
    }
    *device = tensor->device_index;
    return torch_shim.current_queue != NULL && torch_shim.current_queue(tensor->device_index, queue) == 0
               ? CUSTOM_KERNEL_OK
               : torch_failed(tensor->name, "say the current queue of the device");
}
