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

static bool is_gated(const struct custom_kernel_quantize_args *args) {
    return args->form == CUSTOM_KERNEL_QUANTIZE_GATED;
}

/* Numbers of a row of x; -1 if that overflows. */
static int64_t row_numbers(const struct custom_kernel_quantize_args *args) {
    int64_t numbers = args->k;
    if (is_gated(args) && __builtin_add_overflow(args->k, args->k, &numbers)) {
        return -1;
    }
    return numbers;
}

static int64_t rows_of_x(const struct custom_kernel_quantize_args *args) {
    return args->rows != NULL ? args->x_rows : args->m;
}

static struct activation given_activation(const struct custom_kernel_quantize_args *args) {
    return (struct activation){
        .function = args->activation, .alpha = args->alpha, .limit = args->limit, .beta = args->beta};
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
    if (args->form < CUSTOM_KERNEL_QUANTIZE_ALONE || args->form > CUSTOM_KERNEL_QUANTIZE_GATED) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "form is %d; expected 0 (alone), 1 (RMSNorm) or 2 (gated)", args->form);
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
    RETURN_IF_FAILED(check_extent(NO_GROUP, "x_rows", args->x_rows, args->rows != NULL ? 1 : 0));
    if (args->x_rows != 0 && args->rows == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "x_rows is %lld; expected 0 without rows",
                           (long long)args->x_rows);
    }
    return rows_of_x(args) > 1 ? check_extent(NO_GROUP, "x_row", args->x_row, least) : CUSTOM_KERNEL_OK;
}

/* Values that the form leaves unused must be zero: one there is probably a mistake. */
static int32_t check_form_options(const struct custom_kernel_quantize_args *args) {
    if (args->form != CUSTOM_KERNEL_QUANTIZE_ALONE) {
        RETURN_IF_FAILED(check_absent("rows", args->rows, "after RMSNorm or a gate"));
        RETURN_IF_FAILED(check_absent("token_scale", args->token_scale, "after RMSNorm or a gate"));
    }
    if (args->token_scale != NULL) {
        RETURN_IF_FAILED(check_absent("scale", args->scale, "with token_scale"));
        RETURN_IF_FAILED(check_absent("saturated", args->saturated, "with token_scale"));
    }
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
    if (!is_gated(args) && args->activation != CUSTOM_KERNEL_ACTIVATION_DEFAULT) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "activation is %d; expected 0 without a gate",
                           args->activation);
    }
    if (args->reserved != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "reserved is %u; expected 0", args->reserved);
    }
    const struct activation activation = given_activation(args);
    return check_activation(&activation, is_gated(args));
}

/* Bytes of x, without what follows its last row's numbers; -1 if that overflows. */
static int64_t x_bytes(const struct custom_kernel_quantize_args *args) {
    int64_t numbers = 0, bytes = 0;
    return !__builtin_mul_overflow(rows_of_x(args) - 1, args->x_row, &numbers) &&
                   !__builtin_add_overflow(numbers, row_numbers(args), &numbers) &&
                   !__builtin_mul_overflow(numbers, number_bytes(args), &bytes)
               ? bytes
               : -1;
}

static int32_t check_tensors(const struct custom_kernel_quantize_args *args) {
    enum { OUTPUTS = 5, TENSORS = 10 };
    const int number = (int)number_bytes(args), wide = POINTER_ALIGNMENT_BYTES, one = sizeof(float);
    const int64_t k = args->k, m = args->m, whole = (int64_t)1 << 60, row_bytes = k < whole ? k * number : -1,
                  unit = quantized_rows_unit(args->scale_layout), count = sizeof(int64_t),
                  row_scales = scale_row_bytes(args->scale_layout, k / NVFP4_GROUP_ELEMS);
    struct member all[TENSORS] = {
        {MEMBER(args, x), 1, 1, x_bytes(args), 1, number, true},
        {MEMBER(args, scale), 1, 1, one, 1, one, args->scale != NULL},
        {MEMBER(args, weight), 1, 1, row_bytes, 1, number, args->weight != NULL},
        {MEMBER(args, residual), m, 1, row_bytes, 1, number, args->residual != NULL},
        {MEMBER(args, rows), m, 1, one, 1, one, args->rows != NULL},
        {MEMBER(args, codes), m, 1, k / 2, 1, wide, true},
        {MEMBER(args, scales), m, unit, row_scales, 1, wide, true},
        {MEMBER(args, sum), m, 1, row_bytes, 1, number, args->residual != NULL},
        {MEMBER(args, saturated), 1, 1, count, 1, (int)count, args->saturated != NULL},
        {MEMBER(args, token_scale), m, 1, one, 1, one, args->token_scale != NULL},
    };
    const struct size sizes[] = {{"m", m}, {"k", k}, {"x_row", args->x_row}, {NULL, 0}};
    return check_members(all, TENSORS, OUTPUTS, sizes);
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
    RETURN_IF_FAILED(check_form_options(&args));
    if (args.m > 0) {
        RETURN_IF_FAILED(check_tensors(&args));
    }
    const struct activation activation = given_activation(&args);
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
        .activation = complete_activation(&activation, is_gated(&args)),
        .rows = args.rows,
        .x_rows = args.x_rows,
        .token_scale = args.token_scale,
    };
    return CUSTOM_KERNEL_OK;
}
