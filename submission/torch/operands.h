/* What the operators have in common: their options, checks of their matrices' codes.  Internal. */
#ifndef TORCH_OPERANDS_H
#define TORCH_OPERANDS_H

#include <float.h>
#include <math.h>

#include "scale_factors.h"

/* Argument `options` of the products: one integer, as each argument of an operator costs a call
 * time. submission/operators.py makes it.  Bits 0 to 3 and 4 to 7 hold the layouts of sfa and of b's scale
 * factors, 0 for one that is not stated, else 1 + enum factor_layout; bits 8 to 11 enum custom_kernel_output;
 * bits 12 to 19 enum custom_kernel_weights; bits 20 and 21 are those of enum option_bit; bits 22 to 25 hold
 * enum custom_kernel_activation. */
enum option_bit {
    OPTION_PLAIN = 1 << 20, /* products of experts: one product */
    OPTION_ENDS = 1 << 21,  /* products of experts: counts are ends */
};
/* The bits that an operator takes. */
enum {
    OPTIONS_DUAL = 0xFF,
    OPTIONS_PLAIN = 0x3C00FFF,
    OPTIONS_GATED = 0x3CFFFFF,
    OPTIONS_EXPERTS = 0x3FFFFFF,
};

struct options {
    int32_t sfa_layout, sfb_layout; /* enum factor_layout, or LAYOUT_NOT_STATED */
    int32_t output, weights, activation;
    bool plain, ends;
};
/* Reads place `place`; `allowed`: the bits that the operator takes; `nvfp4`: it returns codes and scale
 * factors. */
int32_t read_options(const struct torch_call *call, int place, int64_t allowed, bool nvfp4,
                     struct options *options);

/* The dtype of C, of codes for NVFP4 output. */
enum torch_dtype output_dtype(const struct options *options);

/* A tensor argument; NULL where None was given. */
static inline const struct torch_tensor *tensor_at(const struct torch_call *call, int place) {
    const struct torch_tensor *tensor = &call->argument[place].tensor;
    return tensor->handle != NULL ? tensor : NULL;
}

/* The address of `count` numbers of that dtype, without gaps. */
int32_t numbers_data(const struct torch_tensor *numbers, uint32_t dtypes, int64_t count,
                     const struct torch_tensor *as, void **data);
/* The address of `count` float32 numbers without gaps, or NULL where None is given. */
int32_t read_numbers(const struct torch_tensor *numbers, int64_t count, const struct torch_tensor *as,
                     const void **data);

/* alpha for the library, where 0 stands for 1; so small a number gives the same sigmoid as 0. */
static inline float library_alpha(double alpha) {
    return (float)alpha == 0 ? FLT_TRUE_MIN : (float)alpha;
}

/* limit for the library, where 0 stands for none: no other number becomes 0. */
static inline float library_limit(double limit) {
    const float found = (float)limit;
    return found == 0 && limit != 0 ? copysignf(FLT_TRUE_MIN, found) : found;
}

#define DTYPES_OF_16_BITS (DTYPE_SET(DTYPE_float16) | DTYPE_SET(DTYPE_bfloat16))
#define FLOAT_DTYPES      (DTYPES_OF_16_BITS | DTYPE_SET(DTYPE_float32))

/* enum custom_kernel_output of one of FLOAT_DTYPES. */
static inline int32_t number_type(enum torch_dtype dtype) {
    return dtype == DTYPE_float16    ? CUSTOM_KERNEL_FP16
           : dtype == DTYPE_bfloat16 ? CUSTOM_KERNEL_BF16
                                     : CUSTOM_KERNEL_FP32;
}

static inline bool is_16_bits(const struct torch_tensor *a) {
    return a->dtype == DTYPE_float16 || a->dtype == DTYPE_bfloat16;
}

/* enum custom_kernel_a_type */
static inline int32_t a_type_of(const struct torch_tensor *a) {
    return a->dtype == DTYPE_float16    ? CUSTOM_KERNEL_A_FP16
           : a->dtype == DTYPE_bfloat16 ? CUSTOM_KERNEL_A_BF16
                                        : CUSTOM_KERNEL_A_NVFP4;
}

/* Where the message of a failed call begins with the library's name of an argument, puts the caller's there.
 * Returns the status. */
int32_t name_message(int32_t status, const char *name, const char *callers);
/* The names of a plain product's arguments. */
int32_t name_plain(int32_t status);

/* An a of 16 bits has no scale factors, and codes have some. */
int32_t check_a_and_sfa(const struct torch_tensor *a, const struct torch_tensor *sfa);

/* a: codes (..., K/2), or 16-bit numbers (..., K); its rows are all dimensions but the last. */
int32_t check_activations(const struct torch_tensor *a, bool of_16_bits);
/* b: codes (rows, K/2). */
int32_t check_weight_codes(const struct torch_tensor *b, int64_t rows, int64_t k, const struct torch_tensor *a);

/* The product of all dimensions but the last. */
int64_t rows_of(const struct torch_tensor *tensor);

static inline int64_t last_size(const struct torch_tensor *tensor) {
    return tensor->sizes[tensor->dimensions - 1];
}

/* K of codes. */
static inline int64_t k_of(const struct torch_tensor *codes) {
    return 2 * last_size(codes);
}

#endif
