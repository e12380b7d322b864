/* torch.ops.nvfp4_gemm.experts and its overload .nvfp4, which returns codes and scale factors;
 * submission/experts_operator.py describes the arguments. */
#include "../core/checks.h"
#include "operands.h"

#define OPERANDS                                                                                               \
    "Tensor a, Tensor b1, Tensor? b2, Tensor? sfa, Tensor sfb1, Tensor? sfb2, Tensor counts, int options=0, "  \
    "Tensor? scale_gate=None, Tensor? scale_up=None, Tensor? token_scale=None, "
#define ACTIVATION                                                                                             \
    "float limit=0.0, float alpha=1.0, float beta=0.0, Tensor? bias_gate=None, Tensor? bias_up=None, "         \
    "Tensor? rows=None"

enum { A, B1, B2, SFA, SFB1, SFB2, COUNTS, OPTIONS, GATE, UP, TOKENS, SCALE };

/* Places after the scales. */
enum { LIMIT, ALPHA, BETA, BIAS_GATE, BIAS_UP, ROWS };

/* Names that the caller of a plain product, or one with offsets, has for the arguments. */
static void name_arguments(struct torch_call *call, int first, const struct options *options) {
    if (options->plain) {
        call->argument[B1].tensor.name = "b";
        call->argument[SFB1].tensor.name = "sfb";
        call->argument[GATE].tensor.name = "scale";
        call->argument[first + BIAS_GATE].tensor.name = "bias";
    }
    if (options->ends) {
        call->argument[COUNTS].tensor.name = "offsets";
    }
}

static int32_t check_second(const struct torch_call *call, int place, bool wanted) {
    if ((tensor_at(call, place) != NULL) == wanted) {
        return CUSTOM_KERNEL_OK;
    }
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is %s; expected it %s",
                       call->operator->parameter[place].name, wanted ? "None" : "given",
                       wanted ? "beside b1" : "only where gate and up lie apart");
}

static struct torch_shape by_expert(int64_t experts, int64_t rows, int64_t columns) {
    return (struct torch_shape){.dimensions = 3, .sizes = {experts, rows, columns}, .order = {0, 1, 2}};
}

/* a, b1 and b2; sets the sizes. */
static int32_t read_matrices(const struct torch_call *call, const struct options *options,
                             struct custom_kernel_experts_args *args) {
    const struct torch_tensor *a = tensor_at(call, A), *b1 = tensor_at(call, B1), *b2 = tensor_at(call, B2);
    const bool joint = options->weights != CUSTOM_KERNEL_WEIGHTS_APART, padded = a->dimensions == 3,
               halves = is_16_bits(a);
    RETURN_IF_FAILED(check_a_and_sfa(a, tensor_at(call, SFA)));
    if (a->dimensions != 2 && !padded) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "a has shape %s; expected (T, K/2), or (E, capacity, K/2) with counts",
                           tensor_text(a).text);
    }
    if (b1->dimensions != 3) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has shape %s; expected (E, rows, K/2)", b1->name,
                           tensor_text(b1).text);
    }
    const int64_t experts = b1->sizes[0], rows = b1->sizes[1];
    if (experts < 1 || experts > CUSTOM_KERNEL_MAX_EXPERTS) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has %lld experts; expected 1 to %d", b1->name,
                           (long long)experts, CUSTOM_KERNEL_MAX_EXPERTS);
    }
    if (joint && rows % 2 != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "b1 has %lld rows; expected an even number of gate's and up's", (long long)rows);
    }
    if (options->ends && padded) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "offsets are given; expected counts, as a is padded");
    }
    RETURN_IF_FAILED(check_second(call, B2, !options->plain && !joint));
    RETURN_IF_FAILED(check_second(call, SFB2, !options->plain && !joint));
    args->experts = experts;
    args->rows = a->sizes[a->dimensions - 2];
    args->n = joint ? rows / 2 : rows;
    args->k = halves ? last_size(a) : k_of(a);
    args->a_type = a_type_of(a);
    args->tokens = padded          ? CUSTOM_KERNEL_TOKENS_PADDED
                   : options->ends ? CUSTOM_KERNEL_TOKENS_ENDED
                                   : CUSTOM_KERNEL_TOKENS_COUNTED;
    RETURN_IF_FAILED(check_activations(a, halves));
    if (padded) {
        const struct torch_shape shape = by_expert(experts, args->rows, last_size(a));
        RETURN_IF_FAILED(check_shape(a, &shape));
    }
    const struct torch_shape weights = by_expert(experts, rows, args->k / 2);
    RETURN_IF_FAILED(check_tensor(b1, CODE_DTYPES, &weights, a));
    return b2 == NULL ? CUSTOM_KERNEL_OK : check_tensor(b2, CODE_DTYPES, &weights, a);
}

/* One operand's scale factors; *layout is their enum custom_kernel_scale_layout. */
static int32_t read_factors(struct torch_call *call, int place, int codes, int32_t stated, int32_t *layout,
                            const void **data) {
    struct factors factors = {.tensor = tensor_at(call, place),
                              .codes = tensor_at(call, codes),
                              .by_expert = tensor_at(call, codes)->dimensions == 3,
                              .stated = stated};
    void *found;
    if (stated == FACTORS_8X4) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "%s has layout 'swizzled8x4'; expected 'linear' or 'swizzled128x4' for experts",
                           factors.tensor->name);
    }
    const int64_t groups = k_of(tensor_at(call, B1)) / NVFP4_GROUP_ELEMS;
    RETURN_IF_FAILED(check_factors(&factors, groups));
    *layout = library_layout(&factors);
    RETURN_IF_FAILED(factors_for_library(call, &factors, groups, *layout, &found));
    *data = found;
    return CUSTOM_KERNEL_OK;
}

static int32_t read_all_factors(struct torch_call *call, const struct options *options,
                                struct custom_kernel_experts_args *args) {
    int32_t second = 0;
    if (tensor_at(call, SFA) != NULL) {
        RETURN_IF_FAILED(read_factors(call, SFA, A, options->sfa_layout, &args->sfa_layout, &args->sfa));
    }
    RETURN_IF_FAILED(read_factors(call, SFB1, B1, options->sfb_layout, &args->scale_layout, &args->sfb1));
    if (tensor_at(call, SFB2) == NULL) {
        return CUSTOM_KERNEL_OK;
    }
    RETURN_IF_FAILED(read_factors(call, SFB2, B2, options->sfb_layout, &second, &args->sfb2));
    return CUSTOM_KERNEL_OK;
}

/* The address of a tensor of that shape; NULL where None is given. */
static int32_t read_shaped(const struct torch_call *call, int place, enum torch_dtype dtype,
                           const struct torch_shape *shape, const void **data) {
    const struct torch_tensor *tensor = tensor_at(call, place);
    void *found;
    *data = NULL;
    if (tensor == NULL) {
        return CUSTOM_KERNEL_OK;
    }
    RETURN_IF_FAILED(check_tensor(tensor, 1U << dtype, shape, tensor_at(call, A)));
    RETURN_IF_FAILED(tensor_data(tensor, &found));
    *data = found;
    return CUSTOM_KERNEL_OK;
}

static int32_t read_addresses(const struct torch_call *call, int first, bool nvfp4,
                              struct custom_kernel_experts_args *args) {
    const struct torch_tensor *a = tensor_at(call, A);
    const struct torch_shape of_experts = {.dimensions = 1, .sizes = {args->experts}},
                             of_columns = shape_2d(args->experts, args->n),
                             of_tokens = {.dimensions = (int)a->dimensions - 1,
                                          .sizes = {a->dimensions == 2 ? args->rows : a->sizes[0], a->sizes[1]},
                                          .order = {0, 1}};
    const void **codes[] = {&args->a, &args->b1, &args->b2};
    for (int i = 0; i < 3; i++) {
        void *found = NULL;
        if (tensor_at(call, A + i) != NULL) {
            RETURN_IF_FAILED(tensor_data(tensor_at(call, A + i), &found));
        }
        *codes[i] = found;
    }
    RETURN_IF_FAILED(read_shaped(call, COUNTS, DTYPE_int32, &of_experts, &args->counts));
    RETURN_IF_FAILED(read_shaped(call, GATE, DTYPE_float32, &of_experts, &args->scale_gate));
    RETURN_IF_FAILED(read_shaped(call, UP, DTYPE_float32, &of_experts, &args->scale_up));
    RETURN_IF_FAILED(read_shaped(call, TOKENS, DTYPE_float32, &of_tokens, &args->token_scale));
    RETURN_IF_FAILED(read_shaped(call, first + BIAS_GATE, DTYPE_float32, &of_columns, &args->bias_gate));
    RETURN_IF_FAILED(read_shaped(call, first + BIAS_UP, DTYPE_float32, &of_columns, &args->bias_up));
    return nvfp4 ? read_shaped(call, SCALE, DTYPE_float32, &of_experts, &args->scale_c) : CUSTOM_KERNEL_OK;
}

/* The row of a for each row of the output, whose number this is then. */
static int32_t read_rows(const struct torch_tensor *rows, const struct torch_tensor *a,
                         struct custom_kernel_experts_args *args) {
    void *found;
    if (rows == NULL) {
        return CUSTOM_KERNEL_OK;
    }
    if (a->dimensions != 2 || args->a_type == CUSTOM_KERNEL_A_NVFP4) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "rows is given and a has shape %s and dtype %s; expected 16-bit a (R, K)",
                           tensor_text(a).text, dtype_text(a->dtype));
    }
    const struct torch_shape shape = {.dimensions = 1, .sizes = {elements_of(rows)}};
    RETURN_IF_FAILED(check_tensor(rows, DTYPE_SET(DTYPE_int32), &shape, a));
    RETURN_IF_FAILED(tensor_data(rows, &found));
    if (elements_of(rows) > 0) { /* else there is nothing to gather, and `rows` has no address */
        if (args->rows == 0) {
            return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "a has no rows; expected some beside rows");
        }
        args->a_index = found;
        args->a_rows = args->rows;
    }
    args->rows = elements_of(rows);
    return CUSTOM_KERNEL_OK;
}

static int32_t run_either(struct torch_call *call, bool nvfp4) {
    const struct torch_tensor *a = tensor_at(call, A);
    const int first = nvfp4 ? SCALE + 1 : SCALE;
    const struct argument *activation = &call->argument[first];
    struct options options;
    RETURN_IF_FAILED(read_options(call, OPTIONS, OPTIONS_EXPERTS, nvfp4, &options));
    name_arguments(call, first, &options);
    struct custom_kernel_experts_args args = {
        .struct_bytes = sizeof args,
        .products = options.plain ? CUSTOM_KERNEL_PRODUCTS_PLAIN : CUSTOM_KERNEL_PRODUCTS_GATED,
        .weights = options.weights,
        .output = options.output,
        .activation = options.activation,
        .limit = library_limit(activation[LIMIT].number),
        .alpha = options.plain ? 0 : library_alpha(activation[ALPHA].number),
        .beta = (float)activation[BETA].number,
    };
    RETURN_IF_FAILED(read_matrices(call, &options, &args));
    RETURN_IF_FAILED(read_all_factors(call, &options, &args));
    RETURN_IF_FAILED(read_rows(tensor_at(call, first + ROWS), a, &args));
    RETURN_IF_FAILED(read_addresses(call, first, nvfp4, &args));
    RETURN_IF_FAILED(device_and_queue(a, &args.device, &args.queue));
    const int leading = (int)a->dimensions - 1;
    struct torch_shape c = shape_of(a, leading, nvfp4 ? args.n / 2 : args.n),
                       sfc = shape_of(a, leading, args.n / NVFP4_GROUP_ELEMS);
    if (leading == 1) {
        c.sizes[0] = sfc.sizes[0] = args.rows;
    }
    RETURN_IF_FAILED(new_result(call, &c, output_dtype(&options), a, &args.c));
    if (nvfp4) {
        RETURN_IF_FAILED(new_result(call, &sfc, DTYPE_float8_e4m3fn, a, &args.sfc));
    }
    if (a->described) {
        args.rows = 0;
        args.a_index = NULL;
        args.a_rows = 0;
        args.backend = CUSTOM_KERNEL_BACKEND_CPU;
    }
    const int32_t status = custom_kernel_experts(&args);
    if (options.plain) {
        (void)name_plain(status);
    }
    return options.ends ? name_message(status, "counts", "offsets") : status;
}

static int32_t run(struct torch_call *call) {
    return run_either(call, false);
}

static int32_t run_nvfp4(struct torch_call *call) {
    return run_either(call, true);
}

TORCH_OPERATOR(experts, "experts(" OPERANDS ACTIVATION ") -> Tensor", run)
TORCH_OPERATOR(experts_nvfp4,
               "experts.nvfp4(" OPERANDS "Tensor? scale_c=None, " ACTIVATION ") -> (Tensor, Tensor)", run_nvfp4)
