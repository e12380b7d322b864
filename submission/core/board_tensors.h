/* The tensors of the leaderboards' problems: the form that each must have, and the examination of tensors that
 * Python describes.  For the Python shims alone; their calls compare tensors with these forms, and what is not
 * equal is examined here, which says what is wrong. */
#ifndef CORE_BOARD_TENSORS_H
#define CORE_BOARD_TENSORS_H

#include "torch_tensor.h"

enum board_role {
    BOARD_A,
    BOARD_B,
    BOARD_SFA,
    BOARD_SFB,
    BOARD_C,
    /* b of a product: for N = 1 it may have 128 rows, of which the first counts, as its scale factors then
     * have. */
    BOARD_PADDED_B,
};

struct board_sizes {
    int64_t m, n, k, l;
    int64_t b_rows; /* n, or those of a padded b */
};

/* (rows, columns, L) or, for blocked scale factors, (32, 4, ceil(rows/128), 4, K/64, L); L is the outermost in
 * memory. */
struct torch_shape board_shape(enum board_role role, const struct board_sizes *sizes, int32_t scale_layout);
enum torch_dtype board_dtype(enum board_role role);

/* ---- what Python calls ---- */

struct tensor_form {
    const char *dtype; /* "torch.float16" */
    int64_t dimensions, sizes[TORCH_MAX_DIMENSIONS], strides[TORCH_MAX_DIMENSIONS];
};

/* Fills *form for sizes m, n, k and l. */
CUSTOM_KERNEL_API void custom_kernel_tensor_form(int32_t role, int32_t scale_layout, const int64_t *sizes,
                                                 struct tensor_form *form);

/* `device` of a tensor that is neither in host memory nor on a CUDA device. */
#define DEVICE_ELSEWHERE (-2)

struct tensor_description {
    const char *name;
    const char *dtype; /* as torch writes it; NULL: None instead of a tensor */
    int64_t dimensions;
    const int64_t *sizes, *strides;
    int64_t held;   /* bytes of its storage from its first value on */
    int32_t device; /* CUDA device ordinal, CUSTOM_KERNEL_DEVICE_HOST or DEVICE_ELSEWHERE */
    int32_t role;   /* enum board_role */
};

/* The tensor of a description; its handle is NULL for None. */
struct torch_tensor described_tensor(const struct tensor_description *description);

/* Examines the tensors of one product, or of the dual GEMM, and of all its batches: one A, one or two B, their
 * scale factors, one C.  sizes: m, n and k of a group, or NULL for those that a, b and c say.  device_of: the
 * tensor on whose device all must be.  Returns CUSTOM_KERNEL_ERROR_ARGUMENT, or -1 for a wrong dtype. */
CUSTOM_KERNEL_API int32_t custom_kernel_examine(const struct tensor_description *given, int32_t count,
                                                int32_t scale_layout, const int64_t *sizes,
                                                const struct tensor_description *device_of);

#endif
