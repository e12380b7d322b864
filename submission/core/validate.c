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
    const int64_t scale_rows = scale_rows_unit(args->scale_layout),
                  row_scales = scale_row_bytes(args->scale_layout, args->k / NVFP4_GROUP_ELEMS);
    enum { C = 6, TENSORS };
    struct {
        struct tensor tensor;
        int64_t rows, rows_unit, row_bytes;
    } all[TENSORS] = {
        {{"a", args->a, 0, NO_GROUP}, args->m, 1, args->k / 2},
        {{"b1", args->b1, 0, NO_GROUP}, args->n, 1, args->k / 2},
        {{"b2", args->b2, 0, NO_GROUP}, args->n, 1, args->k / 2},
        {{"sfa", args->sfa, 0, NO_GROUP}, args->m, scale_rows, row_scales},
        {{"sfb1", args->sfb1, 0, NO_GROUP}, args->n, scale_rows, row_scales},
        {{"sfb2", args->sfb2, 0, NO_GROUP}, args->n, scale_rows, row_scales},
        {{"c", args->c, 0, NO_GROUP}, args->m, 1, output_row_bytes(args->n)},
    };
    for (int i = 0; i < TENSORS; i++) {
        if (!tensor_bytes(all[i].rows, all[i].rows_unit, all[i].row_bytes, args->l, &all[i].tensor.bytes)) {
            return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                               "%s of m %lld, n %lld, k %lld, l %lld has 2^63 bytes or more; expected fewer",
                               all[i].tensor.name, (long long)args->m, (long long)args->n, (long long)args->k,
                               (long long)args->l);
        }
        RETURN_IF_FAILED(check_pointer(&all[i].tensor));
    }
    for (int i = 0; i < C; i++) {
        if (overlap(&all[i].tensor, &all[C].tensor)) {
            return set_message(
                CUSTOM_KERNEL_ERROR_ARGUMENT,
                "c at %p with %lld bytes overlaps %s at %p; expected an output that overlaps no input",
                all[C].tensor.pointer, (long long)all[C].tensor.bytes, all[i].tensor.name,
                all[i].tensor.pointer);
        }
    }
    return CUSTOM_KERNEL_OK;
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
