#include "operands.h"

#include "../core/checks.h"

int64_t rows_of(const struct torch_tensor *tensor) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < tensor->dimensions; i++) {
        rows *= tensor->sizes[i];
    }
    return rows;
}

int32_t check_activations(const struct torch_tensor *a, bool of_16_bits) {
    if (a->dimensions < 2 || a->dimensions >= TORCH_MAX_DIMENSIONS) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has shape %s; expected (M, K/2)", a->name,
                           tensor_text(a).text);
    }
    const int64_t k = of_16_bits ? last_size(a) : k_of(a);
    if (k % NVFP4_GROUP_ELEMS != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has K = %lld; expected a multiple of %d", a->name,
                           (long long)k, NVFP4_GROUP_ELEMS);
    }
    const struct torch_shape shape = shape_like(a);
    return check_tensor(a, of_16_bits ? DTYPE_SET(float16) | DTYPE_SET(bfloat16) : CODE_DTYPES, &shape, a);
}

int32_t check_weight_codes(const struct torch_tensor *b, int64_t rows, int64_t k,
                           const struct torch_tensor *a) {
    const struct torch_shape shape = shape_2d(rows, k / 2);
    return check_tensor(b, CODE_DTYPES, &shape, a);
}
