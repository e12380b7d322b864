/* torch.ops.nvfp4_gemm.gated_gemm and .plain_gemm, and their overloads .nvfp4, which return codes and scale
 * factors; submission/extended_operator.py describes the arguments. */
#include "../core/checks.h"
#include "operands.h"

#define GATED_OPERANDS                                                                                         \
    "Tensor a, Tensor b1, Tensor? b2, Tensor? sfa, Tensor sfb1, Tensor? sfb2, int options=0, "                 \
    "Tensor? scale_gate=None, Tensor? scale_up=None, Tensor? token_scale=None, "
#define PLAIN_OPERANDS                                                                                         \
    "Tensor a, Tensor b, Tensor? sfa, Tensor sfb, int options=0, Tensor? scale=None, "                         \
    "Tensor? token_scale=None"
#define SCALE_C "Tensor? scale_c=None"
#define ACTIVATION                                                                                             \
    "float limit=0.0, float alpha=1.0, float beta=0.0, Tensor? bias_gate=None, Tensor? bias_up=None"
#define BIAS ", Tensor? bias=None"

/* Places of a gated product's arguments after the scales. */
enum { LIMIT, ALPHA, BETA, BIAS_GATE, BIAS_UP };

/* The arguments of either operator.  A tensor is NULL where None was given. */
struct extended {
    const struct torch_tensor *a, *b1, *b2, *sfa, *sfb1, *sfb2;
    const struct torch_tensor *scale_gate, *scale_up, *token_scale, *scale_c, *bias_gate, *bias_up;
    struct options options;
    struct custom_kernel_extended_args args;
};

static int32_t check_given(const struct torch_tensor *tensor, const char *name, bool wanted) {
    if ((tensor != NULL) == wanted) {
        return CUSTOM_KERNEL_OK;
    }
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is %s; expected it %s", name,
                       wanted ? "None" : "given", wanted ? "beside b1" : "only where gate and up lie apart");
}

/* b1, and b2 where gate and up lie apart, which are `rows` rows of codes each; sets m, n, k and a_type. */
static int32_t check_matrices(struct extended *given) {
    const struct torch_tensor *a = given->a, *b1 = given->b1;
    struct custom_kernel_extended_args *args = &given->args;
    const bool plain = args->products == CUSTOM_KERNEL_PRODUCTS_PLAIN, halves = is_16_bits(a);
    const bool joint = args->weights != CUSTOM_KERNEL_WEIGHTS_APART;
    RETURN_IF_FAILED(check_a_and_sfa(a, given->sfa));
    RETURN_IF_FAILED(check_activations(a, halves));
    if (b1->dimensions != 2) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has shape %s; expected (rows, K/2)", b1->name,
                           tensor_text(b1).text);
    }
    const int64_t rows = b1->sizes[0];
    if (joint && rows % 2 != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "b1 has %lld rows; expected an even number of gate's and up's", (long long)rows);
    }
    if (!plain) {
        RETURN_IF_FAILED(check_given(given->b2, "b2", !joint));
        RETURN_IF_FAILED(check_given(given->sfb2, "sfb2", !joint));
    }
    args->m = rows_of(a);
    args->n = joint ? rows / 2 : rows;
    args->k = halves ? last_size(a) : k_of(a);
    args->l = 1;
    args->a_type = a_type_of(a);
    RETURN_IF_FAILED(check_weight_codes(b1, rows, args->k, a));
    return given->b2 == NULL ? CUSTOM_KERNEL_OK : check_weight_codes(given->b2, rows, args->k, a);
}

static int32_t read_factors(struct torch_call *call, struct extended *given) {
    struct custom_kernel_extended_args *args = &given->args;
    const int64_t groups = args->k / NVFP4_GROUP_ELEMS;
    struct factors of_b1 = {.tensor = given->sfb1, .codes = given->b1, .stated = given->options.sfb_layout};
    struct factors of_b2 = {.tensor = given->sfb2, .codes = given->b2, .stated = given->options.sfb_layout};
    struct factors of_a = {.tensor = given->sfa, .codes = given->a, .stated = given->options.sfa_layout};
    void *data = NULL;
    if (of_a.tensor != NULL) {
        RETURN_IF_FAILED(check_factors(&of_a, groups));
    }
    RETURN_IF_FAILED(check_factors(&of_b1, groups));
    args->scale_layout = library_layout(&of_b1);
    if (of_b2.tensor != NULL) {
        RETURN_IF_FAILED(check_factors(&of_b2, groups));
        RETURN_IF_FAILED(factors_for_library(call, &of_b2, groups, args->scale_layout, &data));
        args->sfb2 = data;
    }
    if (of_a.tensor != NULL) {
        RETURN_IF_FAILED(factors_for_library(call, &of_a, groups, args->scale_layout, &data));
        args->sfa = data;
    }
    RETURN_IF_FAILED(factors_for_library(call, &of_b1, groups, args->scale_layout, &data));
    args->sfb1 = data;
    return CUSTOM_KERNEL_OK;
}

static int32_t read_addresses(struct extended *given) {
    struct custom_kernel_extended_args *args = &given->args;
    void *data = NULL;
    RETURN_IF_FAILED(tensor_data(given->a, &data));
    args->a = data;
    RETURN_IF_FAILED(tensor_data(given->b1, &data));
    args->b1 = data;
    if (given->b2 != NULL) {
        RETURN_IF_FAILED(tensor_data(given->b2, &data));
        args->b2 = data;
    }
    RETURN_IF_FAILED(read_numbers(given->scale_gate, 1, given->a, &args->scale_gate));
    RETURN_IF_FAILED(read_numbers(given->scale_up, 1, given->a, &args->scale_up));
    RETURN_IF_FAILED(read_numbers(given->token_scale, args->m, given->a, &args->token_scale));
    RETURN_IF_FAILED(read_numbers(given->bias_gate, args->n, given->a, &args->bias_gate));
    RETURN_IF_FAILED(read_numbers(given->bias_up, args->n, given->a, &args->bias_up));
    return read_numbers(given->scale_c, 1, given->a, &args->scale_c);
}

/* c, and for NVFP4 output its scale factors, both with the leading dimensions of a. */
static int32_t new_outputs(struct torch_call *call, struct extended *given) {
    struct custom_kernel_extended_args *args = &given->args;
    const bool nvfp4 = args->output == CUSTOM_KERNEL_NVFP4;
    const int leading = (int)given->a->dimensions - 1;
    const int64_t groups = args->n / NVFP4_GROUP_ELEMS;
    const struct torch_shape codes = shape_of(given->a, leading, nvfp4 ? args->n / 2 : args->n);
    RETURN_IF_FAILED(new_result(call, &codes, output_dtype(&given->options), given->a, &args->c));
    if (!nvfp4) {
        return CUSTOM_KERNEL_OK;
    }
    const struct torch_shape factors = args->scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED
                                           ? view_shape(args->m, groups)
                                           : shape_of(given->a, leading, groups);
    return new_result(call, &factors, DTYPE_float8_e4m3fn, given->a, &args->sfc);
}

static int32_t run(struct torch_call *call, int options, bool nvfp4, struct extended *given) {
    const int64_t allowed =
        given->args.products == CUSTOM_KERNEL_PRODUCTS_PLAIN ? OPTIONS_PLAIN : OPTIONS_GATED;
    RETURN_IF_FAILED(read_options(call, options, allowed, nvfp4, &given->options));
    given->args.struct_bytes = sizeof given->args;
    given->args.output = given->options.output;
    given->args.weights = given->options.weights;
    given->args.activation = given->options.activation;
    RETURN_IF_FAILED(check_matrices(given));
    RETURN_IF_FAILED(read_factors(call, given));
    RETURN_IF_FAILED(read_addresses(given));
    RETURN_IF_FAILED(device_and_queue(given->a, &given->args.device, &given->args.queue));
    RETURN_IF_FAILED(new_outputs(call, given));
    if (given->a->described) {
        given->args.m = 0;
        given->args.backend = CUSTOM_KERNEL_BACKEND_CPU;
    }
    return custom_kernel_extended(&given->args);
}

static int32_t gated(struct torch_call *call, bool nvfp4) {
    enum { A, B1, B2, SFA, SFB1, SFB2, OPTIONS, GATE, UP, TOKENS, SCALE };
    const int first = nvfp4 ? SCALE + 1 : SCALE;
    const struct argument *activation = &call->argument[first];
    struct extended given = {
        .a = tensor_at(call, A),
        .b1 = tensor_at(call, B1),
        .b2 = tensor_at(call, B2),
        .sfa = tensor_at(call, SFA),
        .sfb1 = tensor_at(call, SFB1),
        .sfb2 = tensor_at(call, SFB2),
        .scale_gate = tensor_at(call, GATE),
        .scale_up = tensor_at(call, UP),
        .token_scale = tensor_at(call, TOKENS),
        .scale_c = nvfp4 ? tensor_at(call, SCALE) : NULL,
        .bias_gate = tensor_at(call, first + BIAS_GATE),
        .bias_up = tensor_at(call, first + BIAS_UP),
        .args = {.products = CUSTOM_KERNEL_PRODUCTS_GATED,
                 .limit = library_limit(activation[LIMIT].number),
                 .alpha = library_alpha(activation[ALPHA].number),
                 .beta = (float)activation[BETA].number},
    };
    return run(call, OPTIONS, nvfp4, &given);
}

static int32_t plain(struct torch_call *call, bool nvfp4) {
    enum { A, B, SFA, SFB, OPTIONS, GATE, TOKENS, SCALE };
    struct extended given = {
        .a = tensor_at(call, A),
        .b1 = tensor_at(call, B),
        .sfa = tensor_at(call, SFA),
        .sfb1 = tensor_at(call, SFB),
        .scale_gate = tensor_at(call, GATE),
        .token_scale = tensor_at(call, TOKENS),
        .scale_c = nvfp4 ? tensor_at(call, SCALE) : NULL,
        .bias_gate = tensor_at(call, nvfp4 ? SCALE + 1 : SCALE),
        .args = {.products = CUSTOM_KERNEL_PRODUCTS_PLAIN},
    };
    return name_plain(run(call, OPTIONS, nvfp4, &given));
}

static int32_t run_gated(struct torch_call *call) {
    return gated(call, false);
}

static int32_t run_gated_nvfp4(struct torch_call *call) {
    return gated(call, true);
}

static int32_t run_plain(struct torch_call *call) {
    return plain(call, false);
}

static int32_t run_plain_nvfp4(struct torch_call *call) {
    return plain(call, true);
}

TORCH_OPERATOR(gated_gemm, "gated_gemm(" GATED_OPERANDS ACTIVATION ") -> Tensor", run_gated)
TORCH_OPERATOR(gated_gemm_nvfp4,
               "gated_gemm.nvfp4(" GATED_OPERANDS SCALE_C ", " ACTIVATION ") -> (Tensor, Tensor)",
               run_gated_nvfp4)
TORCH_OPERATOR(plain_gemm, "plain_gemm(" PLAIN_OPERANDS BIAS ") -> Tensor", run_plain)
TORCH_OPERATOR(plain_gemm_nvfp4, "plain_gemm.nvfp4(" PLAIN_OPERANDS ", " SCALE_C BIAS ") -> (Tensor, Tensor)",
               run_plain_nvfp4)
