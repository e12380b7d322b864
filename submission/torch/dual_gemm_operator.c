/* torch.ops.nvfp4_gemm.dual_gemm and its overload .out; submission/torch_operator.py describes the arguments.
 */
#include "../core/checks.h"
#include "operands.h"

/* Places in the schemas. */
enum { A, B1, B2, SFA, SFB1, SFB2, INPUTS, OPERANDS = 3, FACTOR_DIMENSIONS = 6 };

#define TENSORS "Tensor a, Tensor b1, Tensor b2, Tensor sfa, Tensor sfb1, Tensor sfb2, "
#define OPTION  "int options=0"

static int32_t stated_layout(const struct options *options, int operand) {
    return operand == A ? options->sfa_layout : options->sfb_layout;
}

/* One problem, or L of them in the last dimension; fills the arguments but c. */
static int32_t read_single(struct torch_call *call, const struct options *options,
                           struct custom_kernel_args *args) {
    const struct torch_tensor *a = tensor_at(call, A), *b1 = tensor_at(call, B1);
    const int64_t groups = args->k / NVFP4_GROUP_ELEMS;
    struct factors factors[OPERANDS];
    void *data[OPERANDS];
    RETURN_IF_FAILED(check_activations(a, false));
    RETURN_IF_FAILED(check_weight_codes(b1, args->n, args->k, a));
    RETURN_IF_FAILED(check_weight_codes(tensor_at(call, B2), args->n, args->k, a));
    for (int i = 0; i < OPERANDS; i++) {
        factors[i] = (struct factors){.tensor = tensor_at(call, SFA + i),
                                      .codes = tensor_at(call, A + i),
                                      .stated = stated_layout(options, i)};
        RETURN_IF_FAILED(check_factors(&factors[i], groups));
    }
    args->scale_layout = library_layout(&factors[1]);
    for (int i = 0; i < OPERANDS; i++) {
        RETURN_IF_FAILED(factors_for_library(call, &factors[i], groups, args->scale_layout, &data[i]));
    }
    args->sfa = data[0];
    args->sfb1 = data[1];
    args->sfb2 = data[2];
    return CUSTOM_KERNEL_OK;
}

static int32_t check_batched_layout(const struct torch_call *call, int place, int32_t stated, bool blocked) {
    const enum factor_layout own = blocked ? FACTORS_128X4 : FACTORS_LINEAR;
    if (stated == LAYOUT_NOT_STATED || stated == (int32_t)own) {
        return CUSTOM_KERNEL_OK;
    }
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                       "%s has layout '%s'; expected None or '%s', as sfa has %lld dimensions, L among them",
                       tensor_at(call, place)->name, layout_name(stated), layout_name(own),
                       (long long)tensor_at(call, SFA)->dimensions);
}

/* L problems in the leaderboard's memory order. */
static int32_t read_batched(const struct torch_call *call, const struct options *options,
                            struct custom_kernel_args *args) {
    const bool blocked = tensor_at(call, SFA)->dimensions == FACTOR_DIMENSIONS;
    const int64_t groups = args->k / NVFP4_GROUP_ELEMS;
    const void **data[] = {&args->sfa, &args->sfb1, &args->sfb2};
    for (int i = 0; i < OPERANDS; i++) {
        const struct torch_shape shape = batched(shape_2d(i == 0 ? args->m : args->n, args->k / 2), args->l);
        RETURN_IF_FAILED(check_tensor(tensor_at(call, A + i), CODE_DTYPES, &shape, tensor_at(call, A)));
    }
    for (int i = 0; i < OPERANDS; i++) {
        const int64_t rows = i == 0 ? args->m : args->n;
        const struct torch_shape shape =
            batched(blocked ? view_shape(rows, groups) : shape_2d(rows, groups), args->l);
        void *found;
        RETURN_IF_FAILED(check_batched_layout(call, SFA + i, stated_layout(options, i), blocked));
        RETURN_IF_FAILED(check_tensor(tensor_at(call, SFA + i), SCALE_DTYPES, &shape, tensor_at(call, A)));
        RETURN_IF_FAILED(tensor_data(tensor_at(call, SFA + i), &found));
        *data[i] = found;
    }
    args->scale_layout = blocked ? CUSTOM_KERNEL_SCALES_BLOCKED : CUSTOM_KERNEL_SCALES_ROWS;
    return CUSTOM_KERNEL_OK;
}

/* Reads and checks all but c; *shape is c's; `place`: that of the options. */
static int32_t read_operands(struct torch_call *call, int place, struct custom_kernel_args *args,
                             struct torch_shape *shape) {
    const struct torch_tensor *a = tensor_at(call, A), *b1 = tensor_at(call, B1);
    struct options options;
    RETURN_IF_FAILED(read_options(call, place, OPTIONS_DUAL, false, &options));
    if (a->dimensions < 2 || a->dimensions >= TORCH_MAX_DIMENSIONS) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "a has shape %s; expected (M, K/2) or (M, K/2, L)",
                           tensor_text(a).text);
    }
    const bool batches = a->dimensions == 3 && b1->dimensions == 3;
    if (b1->dimensions != 2 && !batches) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "b1 has shape %s; expected %s", tensor_text(b1).text,
                           a->dimensions == 3 ? "2 dimensions, or 3 as a" : "2 dimensions");
    }
    *args = (struct custom_kernel_args){.struct_bytes = sizeof *args,
                                        .m = batches ? a->sizes[0] : rows_of(a),
                                        .n = b1->sizes[0],
                                        .k = 2 * (batches ? a->sizes[1] : last_size(a)),
                                        .l = batches ? a->sizes[2] : 1};
    if (args->k % NVFP4_GROUP_ELEMS != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "a has K = %lld; expected a multiple of %d",
                           (long long)args->k, NVFP4_GROUP_ELEMS);
    }
    *shape =
        batches ? batched(shape_2d(args->m, args->n), args->l) : shape_of(a, (int)a->dimensions - 1, args->n);
    RETURN_IF_FAILED(batches ? read_batched(call, &options, args) : read_single(call, &options, args));
    const void **data[] = {&args->a, &args->b1, &args->b2};
    for (int i = 0; i < OPERANDS; i++) {
        void *found;
        RETURN_IF_FAILED(tensor_data(tensor_at(call, A + i), &found));
        *data[i] = found;
    }
    if (a->described) { /* without memory: no rows, which any backend takes */
        args->m = 0;
        args->backend = CUSTOM_KERNEL_BACKEND_CPU;
    }
    return device_and_queue(a, &args->device, &args->queue);
}

static int32_t run(struct torch_call *call) {
    struct custom_kernel_args args;
    struct torch_shape shape;
    RETURN_IF_FAILED(read_operands(call, INPUTS, &args, &shape));
    RETURN_IF_FAILED(new_result(call, &shape, DTYPE_float16, tensor_at(call, A), &args.c));
    return custom_kernel(&args);
}

static int32_t run_out(struct torch_call *call) {
    enum { OUT = INPUTS, OPTIONS };
    struct custom_kernel_args args;
    struct torch_shape shape;
    call->argument[OUT].tensor.name = "out"; /* the public function's name of it */
    RETURN_IF_FAILED(read_operands(call, OPTIONS, &args, &shape));
    RETURN_IF_FAILED(check_tensor(tensor_at(call, OUT), DTYPE_SET(DTYPE_float16), &shape, tensor_at(call, A)));
    RETURN_IF_FAILED(tensor_data(tensor_at(call, OUT), &args.c));
    if ((uintptr_t)args.c % POINTER_ALIGNMENT_BYTES != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "out is at %p; expected an address aligned to %d bytes", args.c,
                           POINTER_ALIGNMENT_BYTES);
    }
    return name_message(custom_kernel(&args), "c", "out");
}

TORCH_OPERATOR(dual_gemm, "dual_gemm(" TENSORS OPTION ") -> Tensor", run)
TORCH_OPERATOR(dual_gemm_out, "dual_gemm.out(" TENSORS "Tensor(a!) c, " OPTION ") -> ()", run_out)
