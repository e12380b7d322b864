/* Validation of custom_kernel_experts()'s arguments. */
#include "checks.h"
#include "validate.h"

static const struct struct_type args_type = {
    .name = "custom_kernel_experts_args",
    .bytes = sizeof(struct custom_kernel_experts_args),
    .oldest_bytes = offsetof(struct custom_kernel_experts_args, scale_gate),
    .oldest_lacks = "scale_gate and what follows it",
};

/* The members that the extended GEMM has too. */
static struct custom_kernel_extended_args extended_of(const struct custom_kernel_experts_args *args) {
    return (struct custom_kernel_extended_args){
        .scale_layout = args->scale_layout,
        .n = args->n,
        .k = args->k,
        .b2 = args->b2,
        .sfa = args->sfa,
        .sfb2 = args->sfb2,
        .products = args->products,
        .weights = args->weights,
        .output = args->output,
        .activation = args->activation,
        .scale_gate = args->scale_gate,
        .scale_up = args->scale_up,
        .token_scale = args->token_scale,
        .scale_c = args->scale_c,
        .sfc = args->sfc,
        .limit = args->limit,
        .alpha = args->alpha,
        .beta = args->beta,
        .reserved_float = args->reserved_float,
        .bias_gate = args->bias_gate,
        .bias_up = args->bias_up,
        .a_type = args->a_type,
        .reserved_2 = args->reserved_2,
    };
}

static int32_t check_kinds(const struct custom_kernel_experts_args *args) {
    if (args->tokens < CUSTOM_KERNEL_TOKENS_COUNTED || args->tokens > CUSTOM_KERNEL_TOKENS_PADDED) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "tokens is %d; expected 0 (counted), 1 (ended) or 2 (padded)", args->tokens);
    }
    if (args->sfa_layout != CUSTOM_KERNEL_SCALES_BLOCKED && args->sfa_layout != CUSTOM_KERNEL_SCALES_ROWS) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "sfa_layout is %d; expected 0 (blocked) or 1 (rows)",
                           args->sfa_layout);
    }
    return CUSTOM_KERNEL_OK;
}

static int32_t check_extents(const struct custom_kernel_experts_args *args) {
    if (args->experts < 1 || args->experts > CUSTOM_KERNEL_MAX_EXPERTS) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "experts is %lld; expected 1 to %d",
                           (long long)args->experts, CUSTOM_KERNEL_MAX_EXPERTS);
    }
    RETURN_IF_FAILED(check_extent(NO_GROUP, "rows", args->rows, 0));
    const int64_t most = INT32_MAX / (args->tokens == CUSTOM_KERNEL_TOKENS_PADDED ? args->experts : 1);
    if (args->rows > most) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "rows is %lld; expected at most %lld",
                           (long long)args->rows, (long long)most);
    }
    RETURN_IF_FAILED(check_extent(NO_GROUP, "n", args->n, 1));
    RETURN_IF_FAILED(check_extent(NO_GROUP, "k", args->k, 1));
    if (args->a_index != NULL && args->a_type == CUSTOM_KERNEL_A_NVFP4) {
        return check_absent("a_index", args->a_index, "unless A has 16 bits");
    }
    RETURN_IF_FAILED(check_extent(NO_GROUP, "a_rows", args->a_rows, args->a_index != NULL ? 1 : 0));
    if (args->a_rows > (args->a_index != NULL ? INT32_MAX : 0)) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "a_rows is %lld; expected %s", (long long)args->a_rows,
                           args->a_index != NULL ? "less than 2^31" : "0 without a_index");
    }
    return check_k(NO_GROUP, args->k);
}

enum { NUMBER_ALIGNMENT = 4, INPUTS = 14, C = INPUTS, SFC, MEMBERS };

static int32_t check_tensors(const struct custom_kernel_experts_args *args) {
    const int64_t groups = args->k / NVFP4_GROUP_ELEMS, experts = args->experts,
                  a_groups = scale_row_bytes(args->sfa_layout, groups),
                  b_groups = scale_row_bytes(args->scale_layout, groups);
    const bool plain = args->products == CUSTOM_KERNEL_PRODUCTS_PLAIN,
               nvfp4 = args->output == CUSTOM_KERNEL_NVFP4;
    const bool joint = args->weights != CUSTOM_KERNEL_WEIGHTS_APART, second = !plain && !joint;
    const int64_t places = args->tokens == CUSTOM_KERNEL_TOKENS_PADDED ? experts : 1;
    const int64_t sfa_rows = scale_rows_unit(args->sfa_layout), sfb_rows = scale_rows_unit(args->scale_layout);
    const bool halves = args->a_type != CUSTOM_KERNEL_A_NVFP4, index = args->a_index != NULL;
    const int64_t code_bytes = args->k / 2, a_bytes = halves ? output_row_bytes(args->k) : code_bytes,
                  number_bytes = sizeof(float);
    const int wide = POINTER_ALIGNMENT_BYTES, narrow = NUMBER_ALIGNMENT;
    int64_t b_rows = args->n;
    if (joint && __builtin_add_overflow(b_rows, b_rows, &b_rows)) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "n is %lld; expected less than 2^62",
                           (long long)args->n);
    }
    struct member all[MEMBERS] = {
        {MEMBER(args, a), index ? args->a_rows : args->rows, 1, a_bytes, index ? 1 : places, wide, true},
        {MEMBER(args, b1), b_rows, 1, code_bytes, experts, wide, true},
        {MEMBER(args, b2), b_rows, 1, code_bytes, experts, wide, second},
        {MEMBER(args, sfa), args->rows, sfa_rows, a_groups, places, wide, !halves},
        {MEMBER(args, sfb1), b_rows, sfb_rows, b_groups, experts, wide, true},
        {MEMBER(args, sfb2), b_rows, sfb_rows, b_groups, experts, wide, second},
        {MEMBER(args, a_index), args->rows, 1, number_bytes, places, narrow, index},
        {MEMBER(args, counts), experts, 1, sizeof(int32_t), 1, narrow, true},
        {MEMBER(args, scale_gate), experts, 1, number_bytes, 1, narrow, args->scale_gate != NULL},
        {MEMBER(args, scale_up), experts, 1, number_bytes, 1, narrow, args->scale_up != NULL},
        {MEMBER(args, token_scale), args->rows, 1, number_bytes, places, narrow, args->token_scale != NULL},
        {MEMBER(args, scale_c), experts, 1, number_bytes, 1, narrow, args->scale_c != NULL},
        {MEMBER(args, bias_gate), args->n, 1, number_bytes, experts, narrow, args->bias_gate != NULL},
        {MEMBER(args, bias_up), args->n, 1, number_bytes, experts, narrow, args->bias_up != NULL},
        {MEMBER(args, c), args->rows, 1, nvfp4 ? args->n / 2 : output_row_bytes(args->n), places, wide, true},
        {MEMBER(args, sfc), args->rows, 1, args->n / NVFP4_GROUP_ELEMS, places, wide, nvfp4},
    };
    const struct size sizes[] = {
        {"rows", args->rows}, {"n", args->n}, {"k", args->k}, {"experts", args->experts}, {NULL, 0}};
    return check_members(all, MEMBERS, C, sizes);
}

int32_t validate_experts(const struct custom_kernel_experts_args *caller_args, struct experts *experts,
                         int32_t *backend) {
    struct custom_kernel_experts_args args;
    if (caller_args == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_NULL_POINTER,
                           "args is NULL; expected a struct custom_kernel_experts_args");
    }
    RETURN_IF_FAILED(
        read_struct("args", "args->struct_bytes", &args_type, caller_args, caller_args->struct_bytes, &args));
    const struct custom_kernel_extended_args extended = extended_of(&args);
    RETURN_IF_FAILED(check_enums(args.backend, args.device, args.scale_layout, args.queue));
    RETURN_IF_FAILED(check_kinds(&args));
    RETURN_IF_FAILED(check_options(&extended));
    RETURN_IF_FAILED(check_extents(&args));
    RETURN_IF_FAILED(check_multiples(&extended));
    if (args.rows > 0) {
        RETURN_IF_FAILED(check_unused(&extended));
        RETURN_IF_FAILED(check_tensors(&args));
    }
    *backend = args.backend;
    *experts = (struct experts){
        .all =
            {
                .m = args.rows,
                .n = args.n,
                .k = args.k,
                .l = args.experts,
                .a = args.a,
                .b1 = args.b1,
                .b2 = args.b2,
                .sfa = args.sfa,
                .sfb1 = args.sfb1,
                .sfb2 = args.sfb2,
                .c = args.c,
                .scale_layout = args.scale_layout,
                .device = args.device,
                .queue = args.queue,
                .extension = &experts->extension,
            },
        .extension = extension_of(&extended),
        .counts = args.counts,
        .tokens = args.tokens,
        .sfa_layout = args.sfa_layout,
        .b_rows = args.weights == CUSTOM_KERNEL_WEIGHTS_APART ? args.n : 2 * args.n,
        .a_index = args.a_index,
        .a_rows = args.a_index != NULL                         ? args.a_rows
                  : args.tokens == CUSTOM_KERNEL_TOKENS_PADDED ? args.experts * args.rows
                                                               : args.rows,
    };
    if (experts->extension.stacked && args.rows > 0) {
        /* n is a multiple of 128 if the scales are blocked, so the halves are whole tiles */
        experts->all.b2 = experts->all.b1 + args.n * (args.k / 2);
        experts->all.sfb2 =
            experts->all.sfb1 + scale_tensor_bytes(args.scale_layout, args.n, args.k / NVFP4_GROUP_ELEMS);
        experts->extension.stacked = false;
    }
    return CUSTOM_KERNEL_OK;
}
