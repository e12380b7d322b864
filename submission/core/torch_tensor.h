/* A tensor of torch as C sees it, and the rules by which every tensor is examined: those that the operators get
 * (torch/torch_memory.h reads them), those that Python describes (describe.h), and those of the leaderboard's
 * lists (python_groups.h).  A check that fails returns a status after set_message(), which names the tensor,
 * what it has and what is expected.  Internal. */
#ifndef CORE_TORCH_TENSOR_H
#define CORE_TORCH_TENSOR_H

#include "backend.h"

enum { TORCH_MAX_DIMENSIONS = 8 };

/* Every dtype that messages name, as torch.NAME, and its bytes; a message lists several in this order.  The
 * operators need those up to int64; a torch may lack others. */
#define TORCH_DTYPES(X)                                                                                        \
    X(DTYPE_float4_e2m1fn_x2, "float4_e2m1fn_x2", 1)                                                           \
    X(DTYPE_float8_e4m3fn, "float8_e4m3fn", 1)                                                                 \
    X(DTYPE_uint8, "uint8", 1)                                                                                 \
    X(DTYPE_float16, "float16", 2)                                                                             \
    X(DTYPE_bfloat16, "bfloat16", 2)                                                                           \
    X(DTYPE_float32, "float32", 4)                                                                             \
    X(DTYPE_int32, "int32", 4)                                                                                 \
    X(DTYPE_int64, "int64", 8)                                                                                 \
    X(DTYPE_int8, "int8", 1)                                                                                   \
    X(DTYPE_int16, "int16", 2)                                                                                 \
    X(DTYPE_uint16, "uint16", 2)                                                                               \
    X(DTYPE_uint32, "uint32", 4)                                                                               \
    X(DTYPE_uint64, "uint64", 8)                                                                               \
    X(DTYPE_float64, "float64", 8)                                                                             \
    X(DTYPE_float8_e5m2, "float8_e5m2", 1)                                                                     \
    X(DTYPE_float8_e8m0fnu, "float8_e8m0fnu", 1)                                                               \
    X(DTYPE_float8_e4m3fnuz, "float8_e4m3fnuz", 1)                                                             \
    X(DTYPE_float8_e5m2fnuz, "float8_e5m2fnuz", 1)                                                             \
    X(DTYPE_bool, "bool", 1)                                                                                   \
    X(DTYPE_complex64, "complex64", 8)                                                                         \
    X(DTYPE_complex128, "complex128", 16)

enum torch_dtype {
#define X(dtype, name, bytes) dtype,
    TORCH_DTYPES(X)
#undef X
        DTYPES, /* any other */
    DTYPES_NEEDED = DTYPE_int64 + 1,
};

/* "torch.float16" */
const char *dtype_text(enum torch_dtype dtype);
/* The dtype of that text; DTYPES for one that has no name here. */
enum torch_dtype dtype_named(const char *text);
/* 1 for DTYPES. */
int64_t dtype_bytes(enum torch_dtype dtype);

enum torch_device { TORCH_CPU, TORCH_CUDA, TORCH_ELSEWHERE };

struct torch_tensor {
    const char *name;
    void *handle;   /* AtenTensorHandle, or the description; NULL: None was given */
    bool described; /* it has no memory */
    enum torch_dtype dtype;
    enum torch_device device;
    int32_t device_index;
    int64_t dimensions;
    const int64_t *sizes, *strides; /* strides in elements */
};

/* Sizes of a tensor, and the dimensions' places in memory from the outermost to the innermost. */
struct torch_shape {
    int dimensions;
    int64_t sizes[TORCH_MAX_DIMENSIONS];
    int8_t order[TORCH_MAX_DIMENSIONS];
};

/* Status of check_dtype(), which Python makes a TypeError; the others are CUSTOM_KERNEL_ERROR_ARGUMENT. */
enum { WRONG_DTYPE = -1 };

/* A set of dtypes, for check_dtype(). */
#define DTYPE_SET(dtype) (1u << (dtype))
#define CODE_DTYPES      (DTYPE_SET(DTYPE_float4_e2m1fn_x2) | DTYPE_SET(DTYPE_uint8))
#define SCALE_DTYPES     (DTYPE_SET(DTYPE_float8_e4m3fn) | DTYPE_SET(DTYPE_uint8))

/* Shapes in row-major order: the first `dimensions` of a tensor (`of` may be NULL for none), then one more. */
struct torch_shape shape_of(const struct torch_tensor *of, int dimensions, int64_t last);
struct torch_shape shape_like(const struct torch_tensor *tensor);
struct torch_shape shape_2d(int64_t rows, int64_t columns);
/* The view (32, 4, ceil(rows/128), 4, ceil(groups/4)) of blocked scale factors. */
struct torch_shape view_shape(int64_t rows, int64_t groups);
/* With a last dimension L, which is the outermost in memory. */
struct torch_shape batched(struct torch_shape shape, int64_t l);
/* Strides without gaps. */
void packed_strides(const struct torch_shape *shape, int64_t strides[TORCH_MAX_DIMENSIONS]);

int64_t elements_of(const struct torch_tensor *tensor);
bool same_shape(const struct torch_tensor *tensor, const struct torch_shape *shape);

int32_t check_dtype(const struct torch_tensor *tensor, uint32_t set);
int32_t check_shape(const struct torch_tensor *tensor, const struct torch_shape *shape);
/* The tensor, of that shape, has no gaps and that order in memory. */
int32_t check_strides(const struct torch_tensor *tensor, const struct torch_shape *shape);
int32_t check_device(const struct torch_tensor *tensor, const struct torch_tensor *as);
/* dtype, shape, strides and device, in this order. */
int32_t check_tensor(const struct torch_tensor *tensor, uint32_t dtypes, const struct torch_shape *shape,
                     const struct torch_tensor *as);
/* The tensor's values lie within its storage, which may have been shrunk; `held`: bytes of the storage from the
 * first value on. */
int32_t check_storage(const struct torch_tensor *tensor, int64_t held);

/* "(2, 3)" as Python writes it, cut to the size of `text`. */
struct shape_text {
    char text[128];
};
struct shape_text sizes_text(int64_t dimensions, const int64_t *sizes);
struct shape_text shape_text(const struct torch_shape *shape);
struct shape_text tensor_text(const struct torch_tensor *tensor);
/* "cuda:1" */
struct shape_text device_text(const struct torch_tensor *tensor);

#endif
