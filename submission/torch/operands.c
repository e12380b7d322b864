#include "operands.h"

#include <stdio.h>
#include <string.h>

#include "../core/checks.h"

/* The fields of `options`. */
enum {
    LAYOUT_BITS = 4,
    OUTPUT_SHIFT = 2 * LAYOUT_BITS,
    OUTPUT_BITS = 4,
    WEIGHTS_SHIFT = OUTPUT_SHIFT + OUTPUT_BITS,
    WEIGHTS_BITS = 8,
    ACTIVATION_SHIFT = WEIGHTS_SHIFT + WEIGHTS_BITS + 2,
    ACTIVATION_BITS = 4,
};

static int32_t field(int64_t options, int shift, int bits) {
    return (int32_t)(options >> shift & ((1 << bits) - 1));
}

static bool is_weights(int32_t weights) {
    return weights == CUSTOM_KERNEL_WEIGHTS_APART || weights == CUSTOM_KERNEL_WEIGHTS_STACKED ||
           weights == CUSTOM_KERNEL_WEIGHTS_INTERLEAVED_8 || weights == CUSTOM_KERNEL_WEIGHTS_INTERLEAVED_32 ||
           weights == CUSTOM_KERNEL_WEIGHTS_INTERLEAVED_64;
}

int32_t read_options(const struct torch_call *call, int place, int64_t allowed, bool nvfp4,
                     struct options *options) {
    const int64_t given = call->argument[place].integer;
    *options = (struct options){
        .sfa_layout = field(given, 0, LAYOUT_BITS) - 1,
        .sfb_layout = field(given, LAYOUT_BITS, LAYOUT_BITS) - 1,
        .output = field(given, OUTPUT_SHIFT, OUTPUT_BITS),
        .weights = field(given, WEIGHTS_SHIFT, WEIGHTS_BITS),
        .activation = field(given, ACTIVATION_SHIFT, ACTIVATION_BITS),
        .plain = (given & OPTION_PLAIN) != 0,
        .ends = (given & OPTION_ENDS) != 0,
    };
    const bool output_fits =
        nvfp4 ? options->output == CUSTOM_KERNEL_NVFP4 : options->output < CUSTOM_KERNEL_NVFP4;
    if ((given & ~allowed) == 0 && options->sfa_layout < FACTOR_LAYOUTS &&
        options->sfb_layout < FACTOR_LAYOUTS && output_fits && is_weights(options->weights)) {
        return CUSTOM_KERNEL_OK;
    }
    return set_message(
        CUSTOM_KERNEL_ERROR_ARGUMENT,
        "options is %#llx; expected layouts 0 to %d in bits 0-3 and 4-7, output %s in bits 8-11 and "
        "weights 0, 1, 8, 32 or 64 in bits 12-19 and an activation in bits 22-25, of which the operator takes "
        "%#llx",
        (unsigned long long)given, FACTOR_LAYOUTS, nvfp4 ? "2" : "0 or 1", (unsigned long long)allowed);
}

int32_t name_message(int32_t status, const char *name, const char *callers) {
    enum { MESSAGE_BYTES = 512 };
    const char *message = custom_kernel_message();
    const size_t length = strlen(name);
    char rest[MESSAGE_BYTES];
    if (status == CUSTOM_KERNEL_OK || strncmp(message, name, length) != 0 || message[length] != ' ') {
        return status;
    }
    (void)snprintf(rest, sizeof rest, "%s", message + length); /* set_message() overwrites the message */
    return set_message(status, "%s%s", callers, rest);
}

int32_t name_plain(int32_t status) {
    (void)name_message(status, "b1", "b");
    (void)name_message(status, "scale_gate", "scale");
    return name_message(status, "bias_gate", "bias");
}

enum torch_dtype output_dtype(const struct options *options) {
    return options->output == CUSTOM_KERNEL_FP16   ? DTYPE_float16
           : options->output == CUSTOM_KERNEL_BF16 ? DTYPE_bfloat16
                                                   : DTYPE_uint8;
}

int64_t rows_of(const struct torch_tensor *tensor) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < tensor->dimensions; i++) {
        rows *= tensor->sizes[i];
    }
    return rows;
}

int32_t check_a_and_sfa(const struct torch_tensor *a, const struct torch_tensor *sfa) {
    const bool halves = is_16_bits(a);
    if (halves == (sfa == NULL)) {
        return CUSTOM_KERNEL_OK;
    }
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "a has dtype %s; expected %s, as sfa is %s",
                       dtype_text(a->dtype),
                       halves ? "torch.float4_e2m1fn_x2 or torch.uint8" : "torch.float16 or torch.bfloat16",
                       halves ? "given" : "None");
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
    return check_tensor(a, of_16_bits ? DTYPES_OF_16_BITS : CODE_DTYPES, &shape, a);
}

int32_t check_weight_codes(const struct torch_tensor *b, int64_t rows, int64_t k,
                           const struct torch_tensor *a) {
    const struct torch_shape shape = shape_2d(rows, k / 2);
    return check_tensor(b, CODE_DTYPES, &shape, a);
}

static bool has_gaps(const struct torch_tensor *tensor) {
    int64_t distance = 1;
    for (int64_t i = tensor->dimensions - 1; i >= 0; i--) {
        if (tensor->sizes[i] != 1 && tensor->strides[i] != distance) {
            return elements_of(tensor) > 0;
        }
        distance *= tensor->sizes[i];
    }
    return false;
}

int32_t numbers_data(const struct torch_tensor *numbers, uint32_t dtypes, int64_t count,
                     const struct torch_tensor *as, void **data) {
    RETURN_IF_FAILED(check_dtype(numbers, dtypes));
    if (elements_of(numbers) != count) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has %lld numbers; expected %lld", numbers->name,
                           (long long)elements_of(numbers), (long long)count);
    }
    if (has_gaps(numbers)) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has strides %s; expected numbers without gaps",
                           numbers->name, sizes_text(numbers->dimensions, numbers->strides).text);
    }
    RETURN_IF_FAILED(check_device(numbers, as));
    return tensor_data(numbers, data);
}

int32_t read_numbers(const struct torch_tensor *numbers, int64_t count, const struct torch_tensor *as,
                     const void **data) {
    void *found = NULL;
    if (numbers != NULL) {
        RETURN_IF_FAILED(numbers_data(numbers, DTYPE_SET(DTYPE_float32), count, as, &found));
    }
    *data = found;
    return CUSTOM_KERNEL_OK;
}
