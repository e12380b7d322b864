/* What the operators' matrices have in common: checks of their codes, the shape of a result.  Internal. */
#ifndef TORCH_OPERANDS_H
#define TORCH_OPERANDS_H

#include "scale_factors.h"

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
