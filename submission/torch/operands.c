#include "operands.h"

#include "../core/checks.h"

int64_t rows_of(const struct torch_tensor *tensor) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < tensor->dimensions; i++) {
        rows *= tensor->sizes[i];
    }
    return rows;
}

int32_t check_activation_codes(const struct torch_tensor *a) {
    if (a->dimensions < 2 || a->dimensions >= TORCH_MAX_DIMENSIONS) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has shape %s; expected (M, K/2)", a->name,
                           tensor_text(a).text);
    }
    if (k_of(a) % K_MULTIPLE_ELEMS != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has K = %lld; expected a multiple of %d", a->name,
                           (long long)k_of(a), K_MULTIPLE_ELEMS);
    }
    const struct torch_shape shape = shape_of(a, (int)a->dimensions - 1, last_size(a));
    return check_tensor(a, CODE_DTYPES, &shape, a);
}

int32_t check_weight_codes(const struct torch_tensor *b, int64_t rows, const struct torch_tensor *a) {
    const struct torch_shape shape = shape_2d(rows, last_size(a));
    return check_tensor(b, CODE_DTYPES, &shape, a);
}
