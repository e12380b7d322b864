/* Operators of PyTorch in C: what the file of an operator contains, and how it reads its arguments.  Internal.
 *
 * An operator is its schema and a function.  The schema gives its arguments' names for messages and their
 * types: Tensor, which may be optional (`?`), int and float.  An argument costs a call 0.2 to 0.4 us of the
 * host and a word by name 0.35 to 0.45, so options are bits of one integer (operands.h).  Results are tensors.
 *
 *     static int32_t run(struct torch_call *call) { ... }
 *     TORCH_OPERATOR(scaled, "scaled(Tensor a, float scale=1) -> Tensor", run)
 *
 * and a line X(scaled) in TORCH_OPERATORS below.  The function reads the arguments by their place in the
 * schema, checks them (core/torch_tensor.h), makes the results with new_result(), and returns a status, after
 * set_message() if that is an error; the message becomes that of Python's RuntimeError. */
#ifndef TORCH_TORCH_OPERATOR_H
#define TORCH_TORCH_OPERATOR_H

#include "torch_memory.h"

#define TORCH_NAMESPACE "nvfp4_gemm"

#define TORCH_OPERATORS(X)                                                                                     \
    X(dual_gemm)                                                                                               \
    X(dual_gemm_out)                                                                                           \
    X(gated_gemm)                                                                                              \
    X(gated_gemm_nvfp4)                                                                                        \
    X(plain_gemm)                                                                                              \
    X(plain_gemm_nvfp4)                                                                                        \
    X(experts)                                                                                                 \
    X(experts_nvfp4)                                                                                           \
    X(quantize)                                                                                                \
    X(quantize_sum)                                                                                            \
    X(quantize_rows)                                                                                           \
    X(quantize_token)                                                                                          \
    X(route)                                                                                                   \
    X(route_ids)                                                                                               \
    X(combine)

enum { TORCH_MAX_ARGUMENTS = 24, TORCH_MAX_RESULTS = 4, TORCH_MAX_COPIES = 8, TORCH_NAME_BYTES = 24 };

enum argument_type { ARGUMENT_TENSOR, ARGUMENT_INTEGER, ARGUMENT_FLOAT };

/* One argument of a schema. */
struct parameter {
    char name[TORCH_NAME_BYTES];
    enum argument_type type;
    bool optional;
};

struct torch_operator {
    const char *schema;
    int32_t (*run)(struct torch_call *call);
    void (*boxed)(uint64_t *stack, uint64_t arguments, uint64_t results); /* torch calls this */
    /* Read from the schema when the operator is registered. */
    int parameters;
    struct parameter parameter[TORCH_MAX_ARGUMENTS];
};

/* One argument of a call. */
struct argument {
    struct torch_tensor tensor; /* tensor.handle is NULL for None */
    int64_t integer;
    double number; /* float */
};

struct torch_call {
    const struct torch_operator *operator;
    struct argument argument[TORCH_MAX_ARGUMENTS];
    int results, copies;
    void *result[TORCH_MAX_RESULTS];
    void *copy[TORCH_MAX_COPIES]; /* tensors that live until the call returns */
};

/* torch's entry of an operator: decodes the arguments, runs the function, returns its results or raises. */
void torch_operator_run(const struct torch_operator *operator, uint64_t * stack);

#define TORCH_OPERATOR(NAME, SCHEMA, RUN)                                                                      \
    static void NAME##_boxed(uint64_t *stack, uint64_t arguments, uint64_t results) {                          \
        (void)arguments;                                                                                       \
        (void)results;                                                                                         \
        torch_operator_run(&torch_##NAME, stack);                                                              \
    }                                                                                                          \
    struct torch_operator torch_##NAME = {.schema = (SCHEMA), .run = (RUN), .boxed = NAME##_boxed};

#define X(name) extern struct torch_operator torch_##name;
TORCH_OPERATORS(X)
#undef X

#endif
