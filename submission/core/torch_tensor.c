#include "torch_tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int64_t bytes;
} dtypes[] = {
#define X(dtype, name, bytes) {"torch." name, bytes},
    TORCH_DTYPES(X)
#undef X
};

const char *dtype_text(enum torch_dtype dtype) {
    return dtype < DTYPES ? dtypes[dtype].name : "of another kind";
}

enum torch_dtype dtype_named(const char *text) {
    int dtype = 0;
    while (dtype < DTYPES && strcmp(dtypes[dtype].name, text) != 0) {
        dtype++;
    }
    return (enum torch_dtype)dtype;
}

int64_t dtype_bytes(enum torch_dtype dtype) {
    return dtype < DTYPES ? dtypes[dtype].bytes : 1;
}

int32_t check_dtype(const struct torch_tensor *tensor, uint32_t set) {
    if (tensor->dtype < DTYPES && (set >> tensor->dtype & 1) != 0) {
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
    return set_message(WRONG_DTYPE, "%s has dtype %s; expected %s", tensor->name, dtype_text(tensor->dtype),
                       expected);
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

struct torch_shape view_shape(int64_t rows, int64_t groups) {
    return (struct torch_shape){.dimensions = 5,
                                .sizes = {SCALE_ENTRIES, SCALE_TILE_ROWS / SCALE_ENTRIES, scale_tile_rows(rows),
                                          SCALE_TILE_GROUPS, ceil_div(groups, SCALE_TILE_GROUPS)},
                                .order = {2, 4, 0, 1, 3}};
}

struct torch_shape batched(struct torch_shape shape, int64_t l) {
    for (int i = shape.dimensions; i > 0; i--) {
        shape.order[i] = shape.order[i - 1];
    }
    shape.order[0] = (int8_t)shape.dimensions;
    shape.sizes[shape.dimensions++] = l;
    return shape;
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

/* The product, or the largest number if that is less. */
static int64_t times(int64_t x, int64_t y) {
    int64_t product;
    return __builtin_mul_overflow(x, y, &product) ? INT64_MAX : product;
}

void packed_strides(const struct torch_shape *shape, int64_t strides[TORCH_MAX_DIMENSIONS]) {
    int64_t distance = 1;
    for (int i = shape->dimensions - 1; i >= 0; i--) {
        strides[shape->order[i]] = distance;
        distance = times(distance, shape->sizes[shape->order[i]] > 1 ? shape->sizes[shape->order[i]] : 1);
    }
}

/* True if the tensor, of that shape, has no gaps and that order in memory. */
static bool is_packed(const struct torch_tensor *tensor, const struct torch_shape *shape) {
    int64_t distance = 1;
    bool as_expected = true;
    for (int i = shape->dimensions - 1; i >= 0; i--) {
        const int place = shape->order[i];
        const int64_t size = shape->sizes[place];
        if (size == 0) {
            return true;
        }
        /* the stride of a dimension of size 1 means nothing */
        as_expected = as_expected && (size == 1 || tensor->strides[place] == distance);
        distance = times(distance, size);
    }
    return as_expected;
}

int32_t check_strides(const struct torch_tensor *tensor, const struct torch_shape *shape) {
    int64_t strides[TORCH_MAX_DIMENSIONS];
    if (is_packed(tensor, shape)) {
        return CUSTOM_KERNEL_OK;
    }
    packed_strides(shape, strides);
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has strides %s; expected %s", tensor->name,
                       sizes_text(tensor->dimensions, tensor->strides).text,
                       sizes_text(shape->dimensions, strides).text);
}

struct shape_text device_text(const struct torch_tensor *tensor) {
    struct shape_text text = {"another device"};
    if (tensor->device == TORCH_CPU) {
        (void)snprintf(text.text, sizeof text.text, "cpu");
    } else if (tensor->device == TORCH_CUDA) {
        (void)snprintf(text.text, sizeof text.text, "cuda:%d", tensor->device_index);
    }
    return text;
}

int32_t check_device(const struct torch_tensor *tensor, const struct torch_tensor *as) {
    return tensor->device == as->device && tensor->device_index == as->device_index
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

int32_t check_storage(const struct torch_tensor *tensor, int64_t held) {
    const int64_t bytes = extent_of(tensor) * dtype_bytes(tensor->dtype);
    return held >= bytes ? CUSTOM_KERNEL_OK
                         : set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                                       "%s has %lld bytes, of which its storage holds %lld; expected a storage "
                                       "that holds them all",
                                       tensor->name, (long long)bytes, (long long)(held > 0 ? held : 0));
}
