#include "checks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIZES_BYTES = 160 }; /* a message's four sizes */

/* True if a struct of `bytes` bytes ends after a member and has all required members. */
static bool valid_struct_bytes(const struct struct_type *type, uint32_t bytes) {
    bool ends_inside_member = bytes < type->bytes && bytes % sizeof(void *) != 0;
    return bytes >= type->oldest_bytes && bytes <= MAX_STRUCT_BYTES && !ends_inside_member;
}

int32_t read_struct(const char *argument, const char *bytes_name, const struct struct_type *type,
                    const void *from, uint32_t bytes, void *copy) {
    if (!valid_struct_bytes(type, bytes)) {
        if (type->oldest_lacks == NULL) {
            return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is %u; expected sizeof(struct %s) = %zu",
                               bytes_name, bytes, type->name, type->bytes);
        }
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "%s is %u; expected sizeof(struct %s) = %zu, or %zu without %s", bytes_name, bytes,
                           type->name, type->bytes, type->oldest_bytes, type->oldest_lacks);
    }
    const unsigned char *tail = from;
    for (uint32_t i = (uint32_t)type->bytes; i < bytes; i++) {
        if (tail[i] != 0) {
            return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                               "%s has a field at byte %u that this library (version %#x) does not know",
                               argument, i, CUSTOM_KERNEL_VERSION);
        }
    }
    memset(copy, 0, type->bytes);
    memcpy(copy, from, bytes < type->bytes ? bytes : type->bytes);
    return CUSTOM_KERNEL_OK;
}

int32_t check_enums(int32_t backend, int32_t device, int32_t scale_layout, const void *queue) {
    if (backend < CUSTOM_KERNEL_BACKEND_AUTO || backend > CUSTOM_KERNEL_BACKEND_GEFORCE) {
        return set_message(
            CUSTOM_KERNEL_ERROR_ARGUMENT,
            "backend is %d; expected 0 (auto), 1 (cpu), 2 (hopper), 3 (blackwell) or 4 (geforce)", backend);
    }
    if (device < CUSTOM_KERNEL_DEVICE_HOST) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "device is %d; expected a CUDA device ordinal, or -1 for host memory", device);
    }
    if (scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED && scale_layout != CUSTOM_KERNEL_SCALES_ROWS) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "scale_layout is %d; expected 0 (blocked) or 1 (rows)",
                           scale_layout);
    }
    if (device == CUSTOM_KERNEL_DEVICE_HOST && queue != NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "queue is not NULL; expected NULL for host memory");
    }
    return CUSTOM_KERNEL_OK;
}

/* Does not use snprintf, which takes a tenth of a microsecond: a call with many groups builds dozens of names
 * before it knows whether one is needed. */
struct member_name member_name(int32_t group, const char *member) {
    static const char prefix[] = "group[";
    struct member_name name = {{0}};
    size_t used = 0;
    if (group != NO_GROUP) {
        memcpy(name.text, prefix, sizeof prefix - 1);
        used = sizeof prefix - 1;
        int32_t digit = 1;
        while (group / digit >= 10) {
            digit *= 10;
        }
        for (; digit > 0; digit /= 10) {
            name.text[used++] = (char)('0' + group / digit % 10);
        }
        name.text[used++] = ']';
        if (member[0] != '\0') {
            name.text[used++] = '.';
        }
    }
    for (size_t i = 0; member[i] != '\0' && used < sizeof name.text - 1; i++) {
        name.text[used++] = member[i];
    }
    return name;
}

int32_t check_extent(int32_t group, const char *name, int64_t value, int64_t least) {
    if (value < least) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is %lld; expected at least %lld",
                           member_name(group, name).text, (long long)value, (long long)least);
    }
    return CUSTOM_KERNEL_OK;
}

int32_t check_k(int32_t group, int64_t k) {
    if (k % NVFP4_GROUP_ELEMS != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is %lld; expected a multiple of %d",
                           member_name(group, "k").text, (long long)k, NVFP4_GROUP_ELEMS);
    }
    return CUSTOM_KERNEL_OK;
}

bool tensor_bytes(int64_t rows, int64_t rows_unit, int64_t row_bytes, int64_t l, int64_t *bytes) {
    int64_t padded_rows;
    if (row_bytes < 0 || __builtin_add_overflow(rows, rows_unit - 1, &padded_rows)) {
        return false;
    }
    padded_rows -= padded_rows % rows_unit;
    return !__builtin_mul_overflow(padded_rows, row_bytes, bytes) && !__builtin_mul_overflow(*bytes, l, bytes);
}

int64_t output_row_bytes(int64_t n) {
    int64_t bytes;
    return __builtin_mul_overflow(n, (int64_t)sizeof(uint16_t), &bytes) ? -1 : bytes;
}

int32_t check_pointer(const struct tensor *tensor) {
    return check_pointer_aligned(tensor, POINTER_ALIGNMENT_BYTES);
}

int32_t check_pointer_aligned(const struct tensor *tensor, int alignment) {
    uintptr_t address = (uintptr_t)tensor->pointer;
    if (tensor->pointer == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_NULL_POINTER, "%s is NULL; expected %lld bytes",
                           member_name(tensor->group, tensor->name).text, (long long)tensor->bytes);
    }
    if (address % (uintptr_t)alignment != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is at %p; expected an address aligned to %d bytes",
                           member_name(tensor->group, tensor->name).text, tensor->pointer, alignment);
    }
    if (address + (uintptr_t)tensor->bytes < address) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s at %p with %lld bytes runs past the address space",
                           member_name(tensor->group, tensor->name).text, tensor->pointer,
                           (long long)tensor->bytes);
    }
    return CUSTOM_KERNEL_OK;
}

bool overlap(const struct tensor *x, const struct tensor *y) {
    uintptr_t x_begin = (uintptr_t)x->pointer, y_begin = (uintptr_t)y->pointer;
    return x_begin < y_begin + (uintptr_t)y->bytes && y_begin < x_begin + (uintptr_t)x->bytes;
}

static int32_t too_large(const char *name, const struct size *sizes) {
    char text[SIZES_BYTES] = "";
    for (int i = 0; sizes[i].name != NULL; i++) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "%s%s %lld", i > 0 ? ", " : "", sizes[i].name,
                       (long long)sizes[i].value);
    }
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s of %s has 2^63 bytes or more; expected fewer", name,
                       text);
}

int32_t check_members(struct member *all, int count, int outputs, const struct size *sizes) {
    for (int i = 0; i < count; i++) {
        struct member *member = &all[i];
        if (!member->present) {
            continue;
        }
        if (!tensor_bytes(member->rows, member->rows_unit, member->row_bytes, member->batches,
                          &member->tensor.bytes)) {
            return too_large(member->tensor.name, sizes);
        }
        RETURN_IF_FAILED(check_pointer_aligned(&member->tensor, member->alignment));
    }
    for (int output = outputs; output < count; output++) {
        for (int i = 0; i < count; i++) {
            if (i != output && all[output].present && all[i].present &&
                overlap(&all[i].tensor, &all[output].tensor)) {
                return set_message(
                    CUSTOM_KERNEL_ERROR_ARGUMENT,
                    "%s at %p with %lld bytes overlaps %s at %p; expected outputs that overlap no other tensor",
                    all[output].tensor.name, all[output].tensor.pointer, (long long)all[output].tensor.bytes,
                    all[i].tensor.name, all[i].tensor.pointer);
            }
        }
    }
    return CUSTOM_KERNEL_OK;
}

int32_t check_number(const char *name, float value, bool valid, const char *expected) {
    return valid ? CUSTOM_KERNEL_OK
                 : set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is %g; expected %s", name, (double)value,
                               expected);
}

int32_t check_activation(const struct activation *given, bool gated) {
    const int32_t function = given->function;
    const float limit = given->limit, alpha = given->alpha, beta = given->beta;
    if (function < CUSTOM_KERNEL_ACTIVATION_DEFAULT || function > CUSTOM_KERNEL_ACTIVATION_RELU2) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "activation is %d; expected 0 (default), 1 (SiLU), 2 (GELU, tanh) or 3 (ReLU^2)",
                           function);
    }
    if (!gated) {
        RETURN_IF_FAILED(check_number("limit", limit, limit == 0, "0 without a gate"));
        RETURN_IF_FAILED(check_number("alpha", alpha, alpha == 0, "0 without a gate"));
        return check_number("beta", beta, beta == 0, "0 without a gate");
    }
    RETURN_IF_FAILED(check_number("limit", limit, limit >= 0, "0 for no limit, or a positive number"));
    RETURN_IF_FAILED(check_number("alpha", alpha, isfinite(alpha), "a finite number"));
    RETURN_IF_FAILED(check_number("alpha", alpha,
                                  function <= CUSTOM_KERNEL_ACTIVATION_SILU || alpha == 0 || alpha == 1,
                                  "0 or 1 for an activation other than SiLU"));
    return check_number("beta", beta, isfinite(beta), "a finite number");
}

struct activation complete_activation(const struct activation *given, bool gated) {
    struct activation complete = *given;
    if (gated && given->function == CUSTOM_KERNEL_ACTIVATION_DEFAULT) {
        complete.function = CUSTOM_KERNEL_ACTIVATION_SILU;
    }
    complete.limit = given->limit == 0 ? INFINITY : given->limit;
    complete.alpha = given->alpha == 0 ? 1 : given->alpha;
    if (given->function == CUSTOM_KERNEL_ACTIVATION_GELU_TANH) {
        complete.alpha = 1.595769122f; /* 2 sqrt(2 / pi) */
        complete.cubic = 0.071354813f; /* 0.044715 of it */
    }
    return complete;
}

int32_t check_absent(const char *name, const void *pointer, const char *when) {
    return pointer == NULL
               ? CUSTOM_KERNEL_OK
               : set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is %p; expected NULL %s", name, pointer, when);
}
