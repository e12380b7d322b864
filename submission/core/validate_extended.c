/* Validation of custom_kernel_extended()'s arguments. */
#include <math.h>

#include "checks.h"
#include "validate.h"

#define FLOAT_BYTES ((int64_t)sizeof(float))

static const struct struct_type args_type = {
    .name = "custom_kernel_extended_args",
    .bytes = sizeof(struct custom_kernel_extended_args),
    .oldest_bytes = offsetof(struct custom_kernel_extended_args, queue),
    .oldest_lacks = "queue and what follows it",
};

static int32_t check_n_multiple(int64_t n, int64_t multiple, const char *reason) {
    if (n % multiple != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "n is %lld; expected a multiple of %lld, for %s",
                           (long long)n, (long long)multiple, reason);
    }
    return CUSTOM_KERNEL_OK;
}

static bool is_interleaved(const struct custom_kernel_extended_args *args) {
    return args->weights > CUSTOM_KERNEL_WEIGHTS_STACKED;
}

static int32_t check_kinds(const struct custom_kernel_extended_args *args) {
    const bool plain = args->products == CUSTOM_KERNEL_PRODUCTS_PLAIN;
    if (args->products != CUSTOM_KERNEL_PRODUCTS_GATED && !plain) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "products is %d; expected 0 (gated) or 1 (plain)",
                           args->products);
    }
    switch (args->weights) {
    case CUSTOM_KERNEL_WEIGHTS_APART:
    case CUSTOM_KERNEL_WEIGHTS_STACKED:
    case CUSTOM_KERNEL_WEIGHTS_INTERLEAVED_8:
    case CUSTOM_KERNEL_WEIGHTS_INTERLEAVED_32:
    case CUSTOM_KERNEL_WEIGHTS_INTERLEAVED_64:
        break;
    default:
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "weights is %d; expected 0 (apart), 1 (stacked), or 8, 32 or 64 (interleaved)",
                           args->weights);
    }
    if (plain && args->weights != CUSTOM_KERNEL_WEIGHTS_APART) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "weights is %d; expected 0 for a plain product",
                           args->weights);
    }
    if (args->output < CUSTOM_KERNEL_FP16 || args->output > CUSTOM_KERNEL_NVFP4) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "output is %d; expected 0 (fp16), 1 (bf16) or 2 (nvfp4)", args->output);
    }
    if (args->a_type < CUSTOM_KERNEL_A_NVFP4 || args->a_type > CUSTOM_KERNEL_A_BF16) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "a_type is %d; expected 0 (nvfp4), 1 (fp16) or 2 (bf16)", args->a_type);
    }
    if (args->reserved_float != 0 || args->reserved_2 != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "reserved_float is %g and reserved_2 %u; expected 0",
                           (double)args->reserved_float, args->reserved_2);
    }
    return CUSTOM_KERNEL_OK;
}

static struct activation given_activation(const struct custom_kernel_extended_args *args) {
    return (struct activation){
        .function = args->activation, .alpha = args->alpha, .limit = args->limit, .beta = args->beta};
}

static int32_t check_extents(const struct custom_kernel_extended_args *args) {
    RETURN_IF_FAILED(check_extent(NO_GROUP, "m", args->m, 0));
    RETURN_IF_FAILED(check_extent(NO_GROUP, "n", args->n, 1));
    RETURN_IF_FAILED(check_extent(NO_GROUP, "k", args->k, 1));
    RETURN_IF_FAILED(check_extent(NO_GROUP, "l", args->l, 1));
    return check_k(NO_GROUP, args->k);
}

int32_t check_multiples(const struct custom_kernel_extended_args *args) {
    if (is_interleaved(args)) {
        RETURN_IF_FAILED(check_n_multiple(args->n, args->weights, "interleaved weights"));
    }
    if (args->weights == CUSTOM_KERNEL_WEIGHTS_STACKED && args->scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED) {
        RETURN_IF_FAILED(
            check_n_multiple(args->n, SCALE_TILE_ROWS, "stacked weights with blocked scale factors"));
    }
    if (args->output == CUSTOM_KERNEL_NVFP4) {
        RETURN_IF_FAILED(
            check_n_multiple(args->n, K_MULTIPLE_ELEMS, "NVFP4 output, which is a product's A with K = n"));
    }
    return CUSTOM_KERNEL_OK;
}

int32_t check_unused(const struct custom_kernel_extended_args *args) {
    if (args->products == CUSTOM_KERNEL_PRODUCTS_PLAIN) {
        RETURN_IF_FAILED(check_absent("b2", args->b2, "for a plain product"));
        RETURN_IF_FAILED(check_absent("sfb2", args->sfb2, "for a plain product"));
        RETURN_IF_FAILED(check_absent("scale_up", args->scale_up, "for a plain product"));
        RETURN_IF_FAILED(check_absent("bias_up", args->bias_up, "for a plain product"));
    } else if (args->weights != CUSTOM_KERNEL_WEIGHTS_APART) {
        RETURN_IF_FAILED(check_absent("b2", args->b2, "for weights in one tensor, b1"));
        RETURN_IF_FAILED(check_absent("sfb2", args->sfb2, "for weights in one tensor, b1"));
    }
    if (args->a_type != CUSTOM_KERNEL_A_NVFP4) {
        RETURN_IF_FAILED(check_absent("sfa", args->sfa, "for an A of 16 bits"));
    }
    if (args->output != CUSTOM_KERNEL_NVFP4) {
        RETURN_IF_FAILED(check_absent("scale_c", args->scale_c, "unless the output is NVFP4"));
        RETURN_IF_FAILED(check_absent("sfc", args->sfc, "unless the output is NVFP4"));
    }
    return CUSTOM_KERNEL_OK;
}

static int64_t a_row_bytes(const struct custom_kernel_extended_args *args) {
    return args->a_type == CUSTOM_KERNEL_A_NVFP4 ? args->k / 2 : output_row_bytes(args->k);
}

static int64_t output_bytes_of_row(const struct custom_kernel_extended_args *args) {
    return args->output == CUSTOM_KERNEL_NVFP4 ? args->n / 2 : output_row_bytes(args->n);
}

enum { TOKENS_ALIGNMENT = sizeof(float), INPUTS = 12, C = INPUTS, SFC, MEMBERS };

static int32_t check_tensors(const struct custom_kernel_extended_args *args) {
    const int64_t scale_rows = scale_rows_unit(args->scale_layout),
                  groups = scale_row_bytes(args->scale_layout, args->k / NVFP4_GROUP_ELEMS);
    const bool plain = args->products == CUSTOM_KERNEL_PRODUCTS_PLAIN,
               nvfp4 = args->output == CUSTOM_KERNEL_NVFP4;
    const bool joint = args->weights != CUSTOM_KERNEL_WEIGHTS_APART, second = !plain && !joint,
               scaled_a = args->a_type == CUSTOM_KERNEL_A_NVFP4;
    int64_t b_rows = args->n;
    if (joint && __builtin_add_overflow(b_rows, b_rows, &b_rows)) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "n is %lld; expected less than 2^62",
                           (long long)args->n);
    }
    const int64_t l = args->l;
    const int wide = POINTER_ALIGNMENT_BYTES, narrow = TOKENS_ALIGNMENT;
    struct member all[MEMBERS] = {
        {MEMBER(args, a), args->m, 1, a_row_bytes(args), l, wide, true},
        {MEMBER(args, b1), b_rows, 1, args->k / 2, l, wide, true},
        {MEMBER(args, b2), b_rows, 1, args->k / 2, l, wide, second},
        {MEMBER(args, sfa), args->m, scale_rows, groups, l, wide, scaled_a},
        {MEMBER(args, sfb1), b_rows, scale_rows, groups, l, wide, true},
        {MEMBER(args, sfb2), b_rows, scale_rows, groups, l, wide, second},
        {MEMBER(args, scale_gate), 1, 1, FLOAT_BYTES, 1, narrow, args->scale_gate != NULL},
        {MEMBER(args, scale_up), 1, 1, FLOAT_BYTES, 1, narrow, args->scale_up != NULL},
        {MEMBER(args, token_scale), args->m, 1, FLOAT_BYTES, l, narrow, args->token_scale != NULL},
        {MEMBER(args, scale_c), 1, 1, FLOAT_BYTES, 1, narrow, args->scale_c != NULL},
        {MEMBER(args, bias_gate), args->n, 1, FLOAT_BYTES, l, narrow, args->bias_gate != NULL},
        {MEMBER(args, bias_up), args->n, 1, FLOAT_BYTES, l, narrow, args->bias_up != NULL},
        {MEMBER(args, c), args->m, 1, output_bytes_of_row(args), l, wide, true},
        {MEMBER(args, sfc), args->m, scale_rows, args->n / NVFP4_GROUP_ELEMS, l, wide, nvfp4},
    };
    const struct size sizes[] = {{"m", args->m}, {"n", args->n}, {"k", args->k}, {"l", args->l}, {NULL, 0}};
    return check_members(all, MEMBERS, C, sizes);
}

/* True if custom_kernel() computes the same. */
static bool is_dual_gemm(const struct custom_kernel_extended_args *args) {
    return args->products == CUSTOM_KERNEL_PRODUCTS_GATED && args->weights == CUSTOM_KERNEL_WEIGHTS_APART &&
           args->output == CUSTOM_KERNEL_FP16 && args->scale_gate == NULL && args->scale_up == NULL &&
           args->token_scale == NULL && args->bias_gate == NULL && args->bias_up == NULL &&
           args->activation <= CUSTOM_KERNEL_ACTIVATION_SILU && (args->limit == 0 || isinf(args->limit)) &&
           (args->alpha == 0 || args->alpha == 1) && args->beta == 0 && args->a_type == CUSTOM_KERNEL_A_NVFP4;
}

int32_t check_options(const struct custom_kernel_extended_args *args) {
    const struct activation activation = given_activation(args);
    RETURN_IF_FAILED(check_kinds(args));
    return check_activation(&activation, args->products == CUSTOM_KERNEL_PRODUCTS_GATED);
}

struct extension extension_of(const struct custom_kernel_extended_args *args) {
    const struct activation activation = given_activation(args);
    return (struct extension){
        .plain = args->products == CUSTOM_KERNEL_PRODUCTS_PLAIN,
        .stacked = args->weights == CUSTOM_KERNEL_WEIGHTS_STACKED,
        .interleave = is_interleaved(args) ? args->weights : 0,
        .output = args->output,
        .a_type = args->a_type,
        .scale_gate = args->scale_gate,
        .scale_up = args->scale_up,
        .token_scale = args->token_scale,
        .scale_c = args->scale_c,
        .sfc = args->sfc,
        .activation = complete_activation(&activation, args->products == CUSTOM_KERNEL_PRODUCTS_GATED),
        .bias_gate = args->bias_gate,
        .bias_up = args->bias_up,
    };
}

int32_t validate_extended(const struct custom_kernel_extended_args *caller_args, struct problem *problem,
                          struct extension *extension, int32_t *backend) {
    struct custom_kernel_extended_args args;
    if (caller_args == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_NULL_POINTER,
                           "args is NULL; expected a struct custom_kernel_extended_args");
    }
    RETURN_IF_FAILED(
        read_struct("args", "args->struct_bytes", &args_type, caller_args, caller_args->struct_bytes, &args));
    RETURN_IF_FAILED(check_enums(args.backend, args.device, args.scale_layout, args.queue));
    RETURN_IF_FAILED(check_options(&args));
    RETURN_IF_FAILED(check_extents(&args));
    RETURN_IF_FAILED(check_multiples(&args));
    if (args.m > 0) {
        RETURN_IF_FAILED(check_unused(&args));
        RETURN_IF_FAILED(check_tensors(&args));
    }
    *backend = args.backend;
    *extension = extension_of(&args);
    *problem = (struct problem){
        .m = args.m,
        .n = args.n,
        .k = args.k,
        .l = args.l,
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
        .extension = is_dual_gemm(&args) ? NULL : extension,
    };
    return CUSTOM_KERNEL_OK;
}

void extended_batch(const struct problem *all, int64_t batch, struct problem *one,
                    struct extension *extension) {
    const struct extension *of_all = all->extension;
    const bool joint = of_all->stacked || of_all->interleave != 0;
    const int64_t groups = all->k / NVFP4_GROUP_ELEMS, b_rows = joint ? 2 * all->n : all->n;
    const int64_t b_bytes = b_rows * (b_row_elems(all) / 2);
    const int64_t sfb_bytes = scale_batch_bytes(all->scale_layout, b_rows, groups);
    *extension = *of_all;
    *one = *all;
    one->l = 1;
    one->extension = extension;
    if (of_all->a_type == CUSTOM_KERNEL_A_NVFP4) {
        one->a += batch * all->m * (all->k / 2);
        one->sfa += batch * scale_batch_bytes(all->scale_layout, all->m, groups);
    } else {
        one->a += batch * all->m * all->k * (int64_t)sizeof(uint16_t);
    }
    one->b1 += batch * b_bytes;
    one->sfb1 += batch * sfb_bytes;
    if (of_all->stacked) { /* n is a multiple of 128 if the scales are blocked, so the halves are whole tiles */
        one->b2 = one->b1 + b_bytes / 2;
        one->sfb2 = one->sfb1 + sfb_bytes / 2;
        extension->stacked = false;
    } else if (all->b2 != NULL) {
        one->b2 += batch * b_bytes;
        one->sfb2 += batch * sfb_bytes;
    }
    if (of_all->token_scale != NULL) {
        extension->token_scale += batch * all->m;
    }
    extension->bias_gate += of_all->bias_gate != NULL ? batch * all->n : 0;
    extension->bias_up += of_all->bias_up != NULL ? batch * all->n : 0;
    const bool nvfp4 = of_all->output == CUSTOM_KERNEL_NVFP4;
    one->c += batch * all->m * (nvfp4 ? all->n / 4 : all->n); /* c counts units of 16 bits */
    if (nvfp4) {
        extension->sfc += batch * scale_batch_bytes(all->scale_layout, all->m, all->n / NVFP4_GROUP_ELEMS);
    }
}
