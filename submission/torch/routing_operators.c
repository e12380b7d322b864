/* torch.ops.nvfp4_gemm.route, its overload .ids, and combine; submission/routing_operator.py describes the
 * arguments. */
#include "../core/checks.h"
#include "operands.h"

#define ID_DTYPES (DTYPE_SET(DTYPE_int32) | DTYPE_SET(DTYPE_int64))

/* A matrix without gaps. */
static int32_t check_matrix(const struct torch_tensor *tensor, uint32_t dtypes, const char *expected) {
    if (tensor->dimensions != 2) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has shape %s; expected %s", tensor->name,
                           tensor_text(tensor).text, expected);
    }
    const struct torch_shape shape = shape_2d(tensor->sizes[0], tensor->sizes[1]);
    return check_tensor(tensor, dtypes, &shape, tensor);
}

/* ---- route ---- */

enum { LOGITS, CHOICES, EXPERTS, NORMALIZE, MAP, IDS = 0, IDS_EXPERTS, IDS_MAP };

/* The map, and the number of experts that the router knows if it says that. */
static int32_t read_map(const struct torch_call *call, int place, const struct torch_tensor *as, bool counts,
                        struct custom_kernel_route_args *args) {
    const struct torch_tensor *map = tensor_at(call, place);
    void *found;
    if (map == NULL) {
        return CUSTOM_KERNEL_OK;
    }
    if (counts) {
        args->routed = elements_of(map);
    }
    const struct torch_shape shape = {.dimensions = 1, .sizes = {args->routed}};
    RETURN_IF_FAILED(check_tensor(map, DTYPE_SET(DTYPE_int32), &shape, as));
    RETURN_IF_FAILED(tensor_data(map, &found));
    args->map = found;
    return CUSTOM_KERNEL_OK;
}

/* Makes the results and routes. */
static int32_t route(struct torch_call *call, const struct torch_tensor *from, bool weights,
                     struct custom_kernel_route_args *args) {
    int32_t no_counts[CUSTOM_KERNEL_MAX_EXPERTS];
    RETURN_IF_FAILED(device_and_queue(from, &args->device, &args->queue));
    if (args->experts < 1 || args->experts > CUSTOM_KERNEL_MAX_EXPERTS || args->choices < 1 ||
        args->choices > CUSTOM_KERNEL_MAX_CHOICES || args->m > INT32_MAX / args->choices) {
        return custom_kernel_route(args); /* which says what is wrong */
    }
    const struct torch_shape counts = {.dimensions = 1, .sizes = {args->experts}},
                             rows = shape_2d(args->m, args->choices),
                             tokens = {.dimensions = 1, .sizes = {args->m * args->choices}};
    RETURN_IF_FAILED(new_result(call, &counts, DTYPE_int32, from, &args->counts));
    RETURN_IF_FAILED(new_result(call, &rows, DTYPE_int32, from, &args->rows));
    RETURN_IF_FAILED(new_result(call, &tokens, DTYPE_int32, from, &args->tokens));
    if (weights) {
        RETURN_IF_FAILED(new_result(call, &rows, DTYPE_float32, from, &args->weights));
    }
    if (from->described) {
        args->m = 0;
        args->backend = CUSTOM_KERNEL_BACKEND_CPU;
        args->counts = no_counts;
    }
    return custom_kernel_route(args);
}

static int32_t run_route(struct torch_call *call) {
    const struct torch_tensor *logits = tensor_at(call, LOGITS);
    void *found;
    RETURN_IF_FAILED(check_matrix(logits, FLOAT_DTYPES, "(T, experts)"));
    RETURN_IF_FAILED(tensor_data(logits, &found));
    struct custom_kernel_route_args args = {
        .struct_bytes = sizeof args,
        .logits_type = number_type(logits->dtype),
        .m = logits->sizes[0],
        .choices = call->argument[CHOICES].integer,
        .routed = logits->sizes[1],
        .experts = call->argument[EXPERTS].integer,
        .logits = found,
        .normalize = call->argument[NORMALIZE].integer != 0,
    };
    RETURN_IF_FAILED(read_map(call, MAP, logits, false, &args));
    return name_message(route(call, logits, true, &args), "choices", "top_k");
}

static int32_t run_ids(struct torch_call *call) {
    const struct torch_tensor *ids = tensor_at(call, IDS);
    void *found;
    RETURN_IF_FAILED(check_matrix(ids, ID_DTYPES, "(T, choices)"));
    RETURN_IF_FAILED(tensor_data(ids, &found));
    struct custom_kernel_route_args args = {
        .struct_bytes = sizeof args,
        .m = ids->sizes[0],
        .choices = ids->sizes[1],
        .routed = call->argument[IDS_EXPERTS].integer,
        .experts = call->argument[IDS_EXPERTS].integer,
        .ids = found,
        .id_bytes = (int32_t)dtype_bytes(ids->dtype),
    };
    RETURN_IF_FAILED(read_map(call, IDS_MAP, ids, true, &args));
    return route(call, ids, false, &args);
}

/* ---- combine ---- */

enum { Y, ROWS, WEIGHTS };

static int32_t run_combine(struct torch_call *call) {
    const struct torch_tensor *y = tensor_at(call, Y), *rows = tensor_at(call, ROWS),
                              *weights = tensor_at(call, WEIGHTS);
    void *y_data, *rows_data, *weights_data = NULL;
    RETURN_IF_FAILED(check_matrix(y, DTYPES_OF_16_BITS, "(T * choices, N)"));
    RETURN_IF_FAILED(check_matrix(rows, DTYPE_SET(DTYPE_int32), "(T, choices)"));
    RETURN_IF_FAILED(check_device(rows, y));
    const int64_t m = rows->sizes[0], choices = rows->sizes[1];
    if (choices < 1 || choices > CUSTOM_KERNEL_MAX_CHOICES || y->sizes[0] != m * choices) {
        return set_message(
            CUSTOM_KERNEL_ERROR_ARGUMENT,
            "y has shape %s and rows %s; expected (T * choices, N) and (T, choices), at most %d choices",
            tensor_text(y).text, tensor_text(rows).text, CUSTOM_KERNEL_MAX_CHOICES);
    }
    if (weights != NULL) {
        const struct torch_shape shape = shape_2d(m, choices);
        RETURN_IF_FAILED(check_tensor(weights, FLOAT_DTYPES, &shape, y));
        RETURN_IF_FAILED(tensor_data(weights, &weights_data));
    }
    RETURN_IF_FAILED(tensor_data(y, &y_data));
    RETURN_IF_FAILED(tensor_data(rows, &rows_data));
    struct custom_kernel_combine_args args = {
        .struct_bytes = sizeof args,
        .type = number_type(y->dtype),
        .m = m,
        .choices = choices,
        .n = y->sizes[1],
        .y = y_data,
        .rows = rows_data,
        .weights = weights_data,
        .weights_type = weights != NULL ? number_type(weights->dtype) : CUSTOM_KERNEL_FP32,
    };
    const struct torch_shape c = shape_2d(m, args.n);
    RETURN_IF_FAILED(device_and_queue(y, &args.device, &args.queue));
    RETURN_IF_FAILED(new_result(call, &c, y->dtype, y, &args.c));
    if (y->described) {
        args.m = 0;
        args.backend = CUSTOM_KERNEL_BACKEND_CPU;
    }
    return custom_kernel_combine(&args);
}

TORCH_OPERATOR(route,
               "route(Tensor logits, int choices, int experts, int normalize=1, Tensor? expert_map=None) -> "
               "(Tensor, Tensor, Tensor, Tensor)",
               run_route)
TORCH_OPERATOR(route_ids,
               "route.ids(Tensor ids, int experts, Tensor? expert_map=None) -> (Tensor, Tensor, Tensor)",
               run_ids)
TORCH_OPERATOR(combine, "combine(Tensor y, Tensor rows, Tensor? weights=None) -> Tensor", run_combine)
