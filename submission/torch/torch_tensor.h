/* Tensors of torch in C: what an operator reads of an argument, checks of it with messages that name the
 * tensor, what it has and what is expected, and new tensors.  Functions that return int32_t return an enum
 * custom_kernel_status, after set_message() if that is an error.  Internal. */
#ifndef TORCH_TORCH_TENSOR_H
#define TORCH_TORCH_TENSOR_H

#include "../core/backend.h"
#include "torch_shim.h"

enum { TORCH_MAX_DIMENSIONS = 8 };

struct torch_call;

struct torch_tensor {
    const char *name;
    void *handle;                             /* NULL: None was given */
    int32_t dtype, device_type, device_index; /* torch's numbers */
    int64_t dimensions;
    const int64_t *sizes, *strides; /* strides in elements */
};

/* Sizes of a tensor, and the dimensions' places in memory from the outermost to the innermost. */
struct torch_shape {
    int dimensions;
    int64_t sizes[TORCH_MAX_DIMENSIONS];
    int8_t order[TORCH_MAX_DIMENSIONS];
};

/* Reads everything but the memory. */
int32_t read_tensor(const char *name, void *handle, struct torch_tensor *tensor);

/* A set of dtypes, for check_dtype(). */
#define DTYPE_SET(name) (1u << DTYPE_##name)
#define CODE_DTYPES     (DTYPE_SET(float4_e2m1fn_x2) | DTYPE_SET(uint8))
#define SCALE_DTYPES    (DTYPE_SET(float8_e4m3fn) | DTYPE_SET(uint8))

/* "torch.float16" of torch's number of it. */
const char *dtype_text(int32_t number);
bool has_dtype(const struct torch_tensor *tensor, enum torch_dtype dtype);
int32_t check_dtype(const struct torch_tensor *tensor, uint32_t set);

/* Shapes in row-major order: the first `of` dimensions of a tensor (of may be NULL), then one more. */
struct torch_shape shape_of(const struct torch_tensor *of, int dimensions, int64_t last);
struct torch_shape shape_like(const struct torch_tensor *tensor);
struct torch_shape shape_2d(int64_t rows, int64_t columns);
bool same_shape(const struct torch_tensor *tensor, const struct torch_shape *shape);
int64_t elements_of(const struct torch_tensor *tensor);
int32_t check_shape(const struct torch_tensor *tensor, const struct torch_shape *shape);
/* The tensor, of that shape, has no gaps and that order in memory. */
int32_t check_strides(const struct torch_tensor *tensor, const struct torch_shape *shape);
int32_t check_device(const struct torch_tensor *tensor, const struct torch_tensor *as);
/* dtype, shape, strides and device, in this order. */
int32_t check_tensor(const struct torch_tensor *tensor, uint32_t dtypes, const struct torch_shape *shape,
                     const struct torch_tensor *as);

/* "(2, 3)" as Python writes it, cut to the size of `text`. */
struct shape_text {
    char text[128];
};
struct shape_text sizes_text(int64_t dimensions, const int64_t *sizes);
struct shape_text shape_text(const struct torch_shape *shape);
struct shape_text tensor_text(const struct torch_tensor *tensor);

/* The address of a tensor whose shape is checked; refuses one whose storage was shrunk. */
int32_t tensor_data(const struct torch_tensor *tensor, void **data);

/* A new tensor on the device of `as`, uninitialized, with the memory order of `shape`: a result of the call, in
 * the order of the schema, or one that lives until the call returns. */
int32_t new_result(struct torch_call *call, const struct torch_shape *shape, enum torch_dtype dtype,
                   const struct torch_tensor *as, void **data);
int32_t new_copy(struct torch_call *call, int64_t bytes, bool zeroed, const struct torch_tensor *as,
                 void **data);

/* Copies bytes on the device of `as`: sizes and strides of both sides, in bytes. */
int32_t copy_bytes(const struct torch_tensor *as, int dimensions, const int64_t *sizes, void *into,
                   const int64_t *into_strides, const void *from, const int64_t *from_strides);

/* `device` and `queue` of an argument struct, for a call on the tensor's device. */
int32_t device_and_queue(const struct torch_tensor *tensor, int32_t *device, void **queue);

#endif
