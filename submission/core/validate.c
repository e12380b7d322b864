/* Validation of custom_kernel()'s arguments: custom_kernel.h's rules, in the order of the struct's members. */
#include "validate.h"

#include "checks.h"

static const struct struct_type args_type = {
    .name = "custom_kernel_args",
    .bytes = sizeof(struct custom_kernel_args),
    .oldest_bytes = offsetof(struct custom_kernel_args, queue),
    .oldest_lacks = "queue",
};

static int32_t check_extents(const struct custom_kernel_args *args) {
    RETURN_IF_FAILED(check_extent(NO_GROUP, "m", args->m, 0));
    RETURN_IF_FAILED(check_extent(NO_GROUP, "n", args->n, 1));
    RETURN_IF_FAILED(check_extent(NO_GROUP, "k", args->k, 1));
    RETURN_IF_FAILED(check_extent(NO_GROUP, "l", args->l, 1));
    return check_k(NO_GROUP, args->k);
}

/* The tensors' sizes and pointers; then that c overlaps no input. */
static int32_t check_tensors(const struct custom_kernel_args *args) {
    enum { C = 6, TENSORS };
    const int64_t unit = scale_rows_unit(args->scale_layout), m = args->m, n = args->n, l = args->l,
                  codes = args->k / 2,
                  scales = scale_row_bytes(args->scale_layout, args->k / NVFP4_GROUP_ELEMS);
    const int alignment = POINTER_ALIGNMENT_BYTES;
    struct member all[TENSORS] = {
        {MEMBER(args, a), m, 1, codes, l, alignment, true},
        {MEMBER(args, b1), n, 1, codes, l, alignment, true},
        {MEMBER(args, b2), n, 1, codes, l, alignment, true},
        {MEMBER(args, sfa), m, unit, scales, l, alignment, true},
        {MEMBER(args, sfb1), n, unit, scales, l, alignment, true},
        {MEMBER(args, sfb2), n, unit, scales, l, alignment, true},
        {MEMBER(args, c), m, 1, output_row_bytes(n), l, alignment, true},
    };
    const struct size sizes[] = {{"m", m}, {"n", n}, {"k", args->k}, {"l", l}, {NULL, 0}};
    return check_members(all, TENSORS, C, sizes);
}

int32_t validate(const struct custom_kernel_args *caller_args, struct problem *problem, int32_t *backend) {
    struct custom_kernel_args args; /* a copy: the values that are checked are the values that run */
    if (caller_args == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_NULL_POINTER,
                           "args is NULL; expected a struct custom_kernel_args");
    }
    RETURN_IF_FAILED(
        read_struct("args", "args->struct_bytes", &args_type, caller_args, caller_args->struct_bytes, &args));
    RETURN_IF_FAILED(check_enums(args.backend, args.device, args.scale_layout, args.queue));
    RETURN_IF_FAILED(check_extents(&args));
    if (args.m > 0) {
        RETURN_IF_FAILED(check_tensors(&args));
    }
    *backend = args.backend;
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
    };
    return CUSTOM_KERNEL_OK;
}
