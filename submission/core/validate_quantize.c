/* Validation of custom_kernel_quantize()'s arguments. */
#include <math.h>

#include "checks.h"
#include "validate.h"

static const struct struct_type args_type = {
    .name = "custom_kernel_quantize_args",
    .bytes = sizeof(struct custom_kernel_quantize_args),
    .oldest_bytes = offsetof(struct custom_kernel_quantize_args, queue),
    .oldest_lacks = "queue and what follows it",
};

static int64_t number_bytes(const struct custom_kernel_quantize_args *args) {
    return args->x_type == CUSTOM_KERNEL_FP32 ? (int64_t)sizeof(float) : (int64_t)sizeof(uint16_t);
}

/* Numbers of a row of x; -1 if that overflows. */
static int64_t row_numbers(const struct custom_kernel_quantize_args *args) {
    int64_t numbers = args->k;
    if (args->form == CUSTOM_KERNEL_QUANTIZE_GATED && __builtin_add_overflow(args->k, args->k, &numbers)) {
        return -1;
    }
    return numbers;
}

static int32_t check_kinds(const struct custom_kernel_quantize_args *args) {
    /* This call has one layout more than the products. */
    const int32_t layout = args->scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED_8 ? CUSTOM_KERNEL_SCALES_BLOCKED
                                                                                : args->scale_layout;
    if (layout != CUSTOM_KERNEL_SCALES_BLOCKED && layout != CUSTOM_KERNEL_SCALES_ROWS) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "scale_layout is %d; expected 0 (blocked), 1 (rows) or 2 (blocks of 8 rows)",
                           layout);
    }
    RETURN_IF_FAILED(check_enums(args->backend, args->device, layout, args->queue));
    if (args->form < CUSTOM_KERNEL_QUANTIZE_PLAIN || args->form > CUSTOM_KERNEL_QUANTIZE_GATED) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "form is %d; expected 0 (plain), 1 (RMSNorm) or 2 (gated)", args->form);
    }
    if (args->x_type != CUSTOM_KERNEL_FP16 && args->x_type != CUSTOM_KERNEL_BF16 &&
        args->x_type != CUSTOM_KERNEL_FP32) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "x_type is %d; expected 0 (fp16), 1 (bf16) or 3 (fp32)", args->x_type);
    }
    return CUSTOM_KERNEL_OK;
}

static int32_t check_extents(const struct custom_kernel_quantize_args *args) {
    const int64_t least = row_numbers(args);
    RETURN_IF_FAILED(check_extent(NO_GROUP, "m", args->m, 0));
    RETURN_IF_FAILED(check_extent(NO_GROUP, "k", args->k, 1));
    if (args->k % NVFP4_GROUP_ELEMS != 0 || least < 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "k is %lld; expected a multiple of %d below 2^62",
                           (long long)args->k, NVFP4_GROUP_ELEMS);
    }
    return args->m > 1 ? check_extent(NO_GROUP, "x_row", args->x_row, least) : CUSTOM_KERNEL_OK;
}

static int32_t check_number(const char *name, float value, bool valid, const char *expected) {
    return valid ? CUSTOM_KERNEL_OK
                 : set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is %g; expected %s", name, (double)value,
                               expected);
}

static int32_t check_absent(const char *name, const void *pointer, const char *when) {
    return pointer == NULL
               ? CUSTOM_KERNEL_OK
               : set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is %p; expected NULL %s", name, pointer, when);
}

/* Values that the form leaves unused must be zero: one there is probably a mistake. */
static int32_t check_options(const struct custom_kernel_quantize_args *args) {
    if (args->form == CUSTOM_KERNEL_QUANTIZE_NORM) {
        RETURN_IF_FAILED(check_number("epsilon", args->epsilon, args->epsilon >= 0 && isfinite(args->epsilon),
                                      "a finite number of at least 0"));
    } else {
        RETURN_IF_FAILED(check_number("epsilon", args->epsilon, args->epsilon == 0, "0 without RMSNorm"));
        RETURN_IF_FAILED(check_absent("weight", args->weight, "without RMSNorm"));
        RETURN_IF_FAILED(check_absent("residual", args->residual, "without RMSNorm"));
    }
    if (args->residual == NULL) {
        RETURN_IF_FAILED(check_absent("sum", args->sum, "without a residual"));
    }
    if (args->form == CUSTOM_KERNEL_QUANTIZE_GATED) {
        RETURN_IF_FAILED(
            check_number("limit", args->limit, args->limit >= 0, "0 for no limit, or a positive number"));
        RETURN_IF_FAILED(check_number("alpha", args->alpha, isfinite(args->alpha), "a finite number"));
        return check_number("beta", args->beta, isfinite(args->beta), "a finite number");
    }
    RETURN_IF_FAILED(check_number("limit", args->limit, args->limit == 0, "0 without a gate"));
    RETURN_IF_FAILED(check_number("alpha", args->alpha, args->alpha == 0, "0 without a gate"));
    return check_number("beta", args->beta, args->beta == 0, "0 without a gate");
}

enum { CODES, SCALES, SUM, SATURATED, OUTPUTS, X = OUTPUTS, SCALE, WEIGHT, RESIDUAL, TENSORS };

/* Bytes of x, without what follows its last row's numbers. */
static bool x_bytes(const struct custom_kernel_quantize_args *args, int64_t *bytes) {
    int64_t rows = 0;
    return !__builtin_mul_overflow(args->m - 1, args->x_row, &rows) &&
           !__builtin_add_overflow(rows, row_numbers(args), &rows) &&
           !__builtin_mul_overflow(rows, number_bytes(args), bytes);
}

static int32_t check_tensors(const struct custom_kernel_quantize_args *args) {
    const int number = (int)number_bytes(args);
    const int64_t k = args->k, groups = k / NVFP4_GROUP_ELEMS, whole = (int64_t)1 << 60,
                  row_bytes = k < whole ? k * number : -1;
    const int64_t rows_unit = quantized_rows_unit(args->scale_layout),
                  row_scales = scale_row_bytes(args->scale_layout, groups);
    struct {
        struct tensor tensor;
        int64_t rows, rows_unit, row_bytes;
        int alignment;
        bool present;
    } all[TENSORS] = {
        [CODES] = {{"codes", args->codes, 0, NO_GROUP}, args->m, 1, k / 2, POINTER_ALIGNMENT_BYTES, true},
        [SCALES] = {{"scales", args->scales, 0, NO_GROUP},
                    args->m,
                    rows_unit,
                    row_scales,
                    POINTER_ALIGNMENT_BYTES,
                    true},
        [SUM] = {{"sum", args->sum, 0, NO_GROUP}, args->m, 1, row_bytes, number, args->residual != NULL},
        [SATURATED] = {{"saturated", args->saturated, 0, NO_GROUP},
                       1,
                       1,
                       sizeof(int64_t),
                       sizeof(int64_t),
                       args->saturated != NULL},
        [X] = {{"x", args->x, 0, NO_GROUP}, 1, 1, 0, number, true},
        [SCALE] =
            {{"scale", args->scale, 0, NO_GROUP}, 1, 1, sizeof(float), sizeof(float), args->scale != NULL},
        [WEIGHT] = {{"weight", args->weight, 0, NO_GROUP}, 1, 1, row_bytes, number, args->weight != NULL},
        [RESIDUAL] =
            {{"residual", args->residual, 0, NO_GROUP}, args->m, 1, row_bytes, number, args->residual != NULL},
    };
    for (int i = 0; i < TENSORS; i++) {
        if (!all[i].present) {
            continue;
        }
        const bool fits =
            i == X ? x_bytes(args, &all[i].tensor.bytes)
                   : tensor_bytes(all[i].rows, all[i].rows_unit, all[i].row_bytes, 1, &all[i].tensor.bytes);
        if (!fits) {
            return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                               "%s of m %lld, k %lld, x_row %lld has 2^63 bytes or more; expected fewer",
                               all[i].tensor.name, (long long)args->m, (long long)k, (long long)args->x_row);
        }
        RETURN_IF_FAILED(check_pointer_aligned(&all[i].tensor, all[i].alignment));
    }
    for (int output = 0; output < OUTPUTS; output++) {
        for (int i = output + 1; i < TENSORS; i++) {
            if (all[output].present && all[i].present && overlap(&all[i].tensor, &all[output].tensor)) {
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

int32_t validate_quantize(const struct custom_kernel_quantize_args *caller_args,
                          struct quantization *quantization, int32_t *backend) {
    struct custom_kernel_quantize_args args;
    if (caller_args == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_NULL_POINTER,
                           "args is NULL; expected a struct custom_kernel_quantize_args");
    }
    RETURN_IF_FAILED(
        read_struct("args", "args->struct_bytes", &args_type, caller_args, caller_args->struct_bytes, &args));
    RETURN_IF_FAILED(check_kinds(&args));
    RETURN_IF_FAILED(check_extents(&args));
    RETURN_IF_FAILED(check_options(&args));
    if (args.m > 0) {
        RETURN_IF_FAILED(check_tensors(&args));
    }
    *backend = args.backend;
    *quantization = (struct quantization){
        .problem = {.m = args.m,
                    .k = args.k,
                    .l = 1,
                    .scale_layout = args.scale_layout,
                    .device = args.device,
                    .queue = args.queue},
        .x = args.x,
        .weight = args.weight,
        .residual = args.residual,
        .sum = args.sum,
        .scale = args.scale,
        .codes = args.codes,
        .scales = args.scales,
        .saturated = args.saturated,
        .x_row = args.x_row,
        .form = args.form,
        .type = args.x_type,
        .epsilon = args.epsilon,
        .limit = args.limit == 0 ? INFINITY : args.limit,
        .alpha = args.alpha == 0 ? 1 : args.alpha,
        .beta = args.beta,
    };
    return CUSTOM_KERNEL_OK;
}
