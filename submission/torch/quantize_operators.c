/* torch.ops.nvfp4_gemm.quantize and its overloads: .sum adds a residual and returns the sum too, .rows gathers
 * rows of x, .token gives each row a scale of its own and returns them too; submission/quantize_operator.py
 * describes the arguments. */
#include "../core/checks.h"
#include "operands.h"

#define NUMBERS "int options=0, Tensor? global_scale=None, Tensor(a!)? saturated=None, Tensor? weight=None, "
#define OTHERS  "float epsilon=0.0, float limit=0.0, float alpha=0.0, float beta=0.0"

/* Places after x, and for .sum after the residual. */
enum { OPTIONS = 1, SCALE, SATURATED, WEIGHT, EPSILON, LIMIT, ALPHA, BETA, X = 0, RESIDUAL = 1 };

/* Bits 0 to 3 of the options hold enum custom_kernel_scale_layout, bits 4 to 7 enum
 * custom_kernel_quantize_form, bits 8 to 11 enum custom_kernel_activation. */
enum { MASK = 15, FORM_SHIFT = 4, ACTIVATION_SHIFT = 8 };

static int32_t read_kinds(int64_t options, struct custom_kernel_quantize_args *args) {
    const int64_t layout = options & MASK, form = options >> FORM_SHIFT & MASK,
                  activation = options >> ACTIVATION_SHIFT;
    if (layout > CUSTOM_KERNEL_SCALES_BLOCKED_8 || form > CUSTOM_KERNEL_QUANTIZE_GATED || activation < 0 ||
        activation > MASK) {
        return set_message(
            CUSTOM_KERNEL_ERROR_ARGUMENT,
            "options is %#llx; expected a layout 0 to 2 in bits 0-3 and a form 0 to 2 in bits 4-7, and "
            "an activation in bits 8-11",
            (unsigned long long)options);
    }
    args->scale_layout = (int32_t)layout;
    args->form = (int32_t)form;
    args->activation = (int32_t)activation;
    return CUSTOM_KERNEL_OK;
}

/* x: M rows of consecutive numbers, of any distance. */
static int32_t read_x(const struct torch_tensor *x, struct custom_kernel_quantize_args *args) {
    const bool gated = args->form == CUSTOM_KERNEL_QUANTIZE_GATED;
    const int64_t multiple = gated ? 2 * NVFP4_GROUP_ELEMS : NVFP4_GROUP_ELEMS;
    RETURN_IF_FAILED(check_dtype(x, FLOAT_DTYPES));
    if (x->dimensions != 2) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "x has shape %s; expected (M, %s)",
                           tensor_text(x).text, gated ? "2 K" : "K");
    }
    const int64_t columns = x->sizes[1];
    if (columns <= 0 || columns % multiple != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "x has %lld columns; expected a positive multiple of %lld", (long long)columns,
                           (long long)multiple);
    }
    if (x->strides[1] != 1 || (x->sizes[0] > 1 && x->strides[0] < columns)) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "x has strides %s; expected rows of consecutive numbers that do not overlap",
                           sizes_text(2, x->strides).text);
    }
    args->m = x->sizes[0];
    args->k = gated ? columns / 2 : columns;
    args->x_row = x->strides[0] > columns ? x->strides[0] : columns;
    args->x_type = number_type(x->dtype);
    return CUSTOM_KERNEL_OK;
}

/* The address of a tensor of x's dtype and that shape. */
static int32_t read_like_x(const struct torch_tensor *tensor, const struct torch_shape *shape,
                           const struct torch_tensor *x, const void **data) {
    void *found;
    RETURN_IF_FAILED(check_tensor(tensor, DTYPE_SET(x->dtype), shape, x));
    RETURN_IF_FAILED(tensor_data(tensor, &found));
    *data = found;
    return CUSTOM_KERNEL_OK;
}

static int32_t read_saturated(const struct torch_tensor *saturated, const struct torch_tensor *x, void **data) {
    return numbers_data(saturated, DTYPE_SET(DTYPE_int64), 1, x, data);
}

static int32_t new_outputs(struct torch_call *call, const struct torch_tensor *x,
                           struct custom_kernel_quantize_args *args) {
    const int64_t groups = args->k / NVFP4_GROUP_ELEMS;
    const struct torch_shape codes = shape_2d(args->m, args->k / 2),
                             scales = args->scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED
                                          ? view_shape(args->m, groups)
                                          : shape_2d(round_up(args->m, quantized_rows_unit(args->scale_layout)),
                                                     scale_row_bytes(args->scale_layout, groups));
    RETURN_IF_FAILED(new_result(call, &codes, DTYPE_uint8, x, &args->codes));
    return new_result(call, &scales, DTYPE_float8_e4m3fn, x, &args->scales);
}

static int32_t run_either(struct torch_call *call, const struct torch_tensor *residual) {
    const struct argument *argument = &call->argument[residual != NULL ? 1 : 0]; /* by the places above */
    const struct torch_tensor *x = tensor_at(call, X), *weight = &argument[WEIGHT].tensor,
                              *scale = &argument[SCALE].tensor, *saturated = &argument[SATURATED].tensor;
    struct custom_kernel_quantize_args args = {
        .struct_bytes = sizeof args,
        .epsilon = (float)argument[EPSILON].number,
        .limit = library_limit(argument[LIMIT].number),
        .beta = (float)argument[BETA].number,
    };
    void *data;
    RETURN_IF_FAILED(read_kinds(argument[OPTIONS].integer, &args));
    args.alpha = args.form == CUSTOM_KERNEL_QUANTIZE_GATED ? library_alpha(argument[ALPHA].number)
                                                           : (float)argument[ALPHA].number;
    RETURN_IF_FAILED(read_x(x, &args));
    RETURN_IF_FAILED(read_numbers(scale->handle != NULL ? scale : NULL, 1, x, &args.scale));
    if (weight->handle != NULL) {
        const struct torch_shape shape = {.dimensions = 1, .sizes = {args.k}};
        RETURN_IF_FAILED(read_like_x(weight, &shape, x, &args.weight));
    }
    if (residual != NULL) {
        const struct torch_shape shape = shape_2d(args.m, args.k);
        RETURN_IF_FAILED(read_like_x(residual, &shape, x, &args.residual));
    }
    if (saturated->handle != NULL) {
        RETURN_IF_FAILED(read_saturated(saturated, x, &args.saturated));
    }
    RETURN_IF_FAILED(tensor_data(x, &data));
    args.x = data;
    RETURN_IF_FAILED(device_and_queue(x, &args.device, &args.queue));
    RETURN_IF_FAILED(new_outputs(call, x, &args));
    if (residual != NULL) {
        const struct torch_shape shape = shape_2d(args.m, args.k);
        RETURN_IF_FAILED(new_result(call, &shape, x->dtype, x, &args.sum));
    }
    if (x->described) {
        args.m = 0;
        args.backend = CUSTOM_KERNEL_BACKEND_CPU;
    }
    return custom_kernel_quantize(&args);
}

static int32_t run(struct torch_call *call) {
    return run_either(call, NULL);
}

static int32_t run_sum(struct torch_call *call) {
    return run_either(call, tensor_at(call, RESIDUAL));
}

/* x, or rows of x; NULL for all in order. */
static int32_t run_plain(struct torch_call *call, int64_t options, const struct torch_tensor *rows,
                         const struct torch_tensor *scale, bool by_token) {
    const struct torch_tensor *x = tensor_at(call, X);
    struct custom_kernel_quantize_args args = {.struct_bytes = sizeof args};
    void *data;
    RETURN_IF_FAILED(read_kinds(options, &args));
    RETURN_IF_FAILED(read_x(x, &args));
    if (rows != NULL) {
        args.x_rows = args.m;
        args.m = elements_of(rows);
        RETURN_IF_FAILED(numbers_data(rows, DTYPE_SET(DTYPE_int32), args.m, x, &data));
        args.rows = data;
        if (args.x_rows == 0 && args.m > 0) {
            return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "x has no rows; expected some beside rows");
        }
    }
    RETURN_IF_FAILED(read_numbers(scale, 1, x, &args.scale));
    RETURN_IF_FAILED(tensor_data(x, &data));
    args.x = data;
    RETURN_IF_FAILED(device_and_queue(x, &args.device, &args.queue));
    RETURN_IF_FAILED(new_outputs(call, x, &args));
    if (by_token) {
        const struct torch_shape shape = {.dimensions = 1, .sizes = {args.m}};
        RETURN_IF_FAILED(new_result(call, &shape, DTYPE_float32, x, &args.token_scale));
    }
    if (x->described) {
        args.m = 0;
        args.backend = CUSTOM_KERNEL_BACKEND_CPU;
    }
    if (args.m == 0) {
        args.rows = NULL;
        args.x_rows = 0;
    }
    return custom_kernel_quantize(&args);
}

static int32_t run_rows(struct torch_call *call) {
    enum { ROWS = 1, ROWS_OPTIONS, ROWS_SCALE };
    return run_plain(call, call->argument[ROWS_OPTIONS].integer, tensor_at(call, ROWS),
                     tensor_at(call, ROWS_SCALE), false);
}

static int32_t run_token(struct torch_call *call) {
    enum { TOKEN_OPTIONS = 1, TOKEN_ROWS };
    return run_plain(call, call->argument[TOKEN_OPTIONS].integer, tensor_at(call, TOKEN_ROWS), NULL, true);
}

TORCH_OPERATOR(quantize, "quantize(Tensor x, " NUMBERS OTHERS ") -> (Tensor, Tensor)", run)
TORCH_OPERATOR(quantize_sum,
               "quantize.sum(Tensor x, Tensor residual, " NUMBERS OTHERS ") -> (Tensor, Tensor, Tensor)",
               run_sum)
TORCH_OPERATOR(
    quantize_rows,
    "quantize.rows(Tensor x, Tensor rows, int options=0, Tensor? global_scale=None) -> (Tensor, Tensor)",
    run_rows)
TORCH_OPERATOR(quantize_token,
               "quantize.token(Tensor x, int options=0, Tensor? rows=None) -> (Tensor, Tensor, Tensor)",
               run_token)
