/* The interface between the library's core and its backends.  Internal. */
#ifndef CORE_BACKEND_H
#define CORE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../custom_kernel.h"
#include "scale_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A validated problem: every rule of custom_kernel.h holds, k is a multiple of 64 when a backend runs it
 * (pad_k.h), and no size or byte count overflows int64_t.  No
 * backend gets a problem with m = 0, whose pointers are unchecked.  A group of the grouped GEMM is a problem
 * with one product, c = a b1^T: l is 1, b2 and sfb2 are NULL. */
struct problem {
    int64_t m, n, k, l;
    const uint8_t *a, *b1, *b2; /* a: of 16 bits an element if the extension says so, and sfa is NULL */
    const uint8_t *sfa, *sfb1, *sfb2;
    uint16_t *c; /* fp16 bits; bf16 or packed e2m1 codes if the extension says so */
    int32_t scale_layout;
    int32_t device;
    void *queue;
    int32_t group;  /* grouped GEMM: index in the caller's list, for messages */
    int64_t b_k;    /* elements in a row of the codes of b1 and b2, after which zeros count; 0: k */
    bool rows_of_a; /* the scale factors of A and C lie row by row, whatever scale_layout says */
    const struct extension *extension; /* NULL: the dual GEMM, or a group */
};

/* Elements in a row of b1 and of b2. */
static inline int64_t b_row_elems(const struct problem *problem) {
    return problem->b_k != 0 ? problem->b_k : problem->k;
}

/* The layout of the scale factors of A and C. */
static inline int32_t token_scale_layout(const struct problem *problem) {
    return problem->rows_of_a ? CUSTOM_KERNEL_SCALES_ROWS : problem->scale_layout;
}

/* An activation with its parameters.  Passed to kernels by value. */
struct activation {
    int32_t function;   /* enum custom_kernel_activation; DEFAULT: none, of a plain product */
    float alpha, cubic; /* SiLU and GELU: f(x) = x * sigmoid(x * (alpha + cubic * x^2)) */
    float limit;        /* infinity: no limit */
    float beta;
};

/* The validated options of custom_kernel_extended().  The scales are in the device's memory; NULL stands for 1.
 * Backends get one batch at a time (extended_batch()), with l = 1. */
struct extension {
    bool plain;   /* one product with b1; b2 is NULL */
    bool stacked; /* b1 holds gate's n rows, then up's; never set in a backend's problem, which has b1 and b2 */
    int32_t
        interleave; /* b1 holds 2 n rows, this many of gate and of up in turn, and b2 is NULL; 0: b1 and b2 */
    int32_t output; /* enum custom_kernel_output */
    int32_t a_type; /* enum custom_kernel_a_type */
    const float *scale_gate, *scale_up, *token_scale, *scale_c;
    uint8_t *sfc;
    struct activation activation;
    const float *bias_gate, *bias_up; /* n numbers, added to the scaled products; NULL for none */
};

/* Validated arguments of custom_kernel_experts().  In `all`, l is the number of experts; m is the number of
 * rows of A, for padded tokens those of one expert; scale_layout is that of sfb1 and sfb2; stacked weights are
 * two tensors already, b1 and b2. */
struct experts {
    struct problem all;
    struct extension extension; /* scales and biases are arrays, [experts]; sfc lies row by row */
    const int32_t *counts;
    int32_t tokens; /* enum custom_kernel_tokens */
    int32_t sfa_layout;
    int64_t b_rows;         /* rows of b1, and of b2, from one expert to the next: n or 2 n */
    const int32_t *a_index; /* of an A of 16 bits: the row of `a` for each row of A; NULL: the same */
    int64_t a_rows;         /* rows of `a` in all */
};

static inline bool experts_have_16_bit_a(const struct experts *experts) {
    return experts->extension.a_type != CUSTOM_KERNEL_A_NVFP4;
}

/* Rows of A and C in all. */
static inline int64_t rows_of_experts(const struct experts *experts) {
    return experts->tokens == CUSTOM_KERNEL_TOKENS_PADDED ? experts->all.l * experts->all.m : experts->all.m;
}

/* The validated arguments of custom_kernel_quantize(), whose comment defines them.  `problem` holds m, k,
 * scale_layout, device and queue. */
struct quantization {
    struct problem problem;
    const void *x, *weight, *residual;
    void *sum;
    const float *scale;
    uint8_t *codes, *scales;
    int64_t *saturated;
    int64_t x_row;
    int32_t form; /* enum custom_kernel_quantize_form */
    int32_t type; /* CUSTOM_KERNEL_FP16, CUSTOM_KERNEL_BF16 or CUSTOM_KERNEL_FP32 */
    float epsilon;
    struct activation activation;
    const int32_t *rows; /* NULL: each row is of x's row of the same number */
    int64_t x_rows;
    float *token_scale; /* NULL: `scale` is that of all rows */
};

/* The validated arguments of custom_kernel_route().  `problem` holds m, device and queue. */
struct routing {
    struct problem problem;
    const void *logits, *ids; /* one of them is NULL */
    const int32_t *map;
    int32_t *counts, *rows, *tokens;
    float *weights;
    int64_t routed;
    int32_t choices, experts, logits_type, id_bytes;
    bool normalize;
};

/* The validated arguments of custom_kernel_combine().  `problem` holds m, n, c, device and queue. */
struct combination {
    struct problem problem;
    const void *y, *weights;
    const int32_t *rows;
    int32_t choices, type, weights_type;
};

/* Rows to copy with zeros after them. */
struct padded_rows {
    const uint8_t *from;
    uint8_t *to;                        /* 256-byte aligned */
    int64_t rows, from_bytes, to_bytes; /* to_bytes is a multiple of 4 */
    /* If not 0, a row is a row of blocks of scale factors, as long before as after, and of the groups in its
     * last block only so many are real: the others become zero. */
    int32_t last_groups;
};

/* Most groups that a backend gets at once. */
enum { GROUPS_AT_ONCE = 256 };

struct backend {
    int32_t id;
    const char *name;
    /* True if this machine can run the backend: on CUDA device `device`, or on any device if device < 0. Writes
     * one line to `detail`: what the backend would run on, or why it cannot.  Every call with an automatic
     * choice asks with detail = NULL, so that path must be cheap. */
    int (*available)(int32_t device, char *detail, size_t detail_bytes);
    /* The run functions return a status, after set_message() if they failed.  `run` computes a dual GEMM. */
    int32_t (*run)(const struct problem *problem);
    /* Computes `count` >= 1 groups, all with m >= 1, which share scale layout, device and queue.  NULL if the
     * backend has no grouped GEMM. */
    int32_t (*run_grouped)(const struct problem *groups, int64_t count);
    /* Refuses what run_grouped would refuse because of the groups, and launches nothing; their pointers may be
     * those of operands that are not padded yet.  NULL if run_grouped takes every group. */
    int32_t (*check_grouped)(const struct problem *groups, int64_t count);
    /* Computes one batch of a problem with an extension.  NULL if the backend has no extended GEMM. */
    int32_t (*run_extended)(const struct problem *problem);
    /* Computes the products of experts; there is at least one row of A.  NULL if the backend has none. */
    int32_t (*run_experts)(const struct experts *experts);
    /* Quantizes at least one row.  NULL if the backend has no quantizer. */
    int32_t (*run_quantize)(const struct quantization *quantization);
    /* Also for no tokens, whose counts it zeroes.  Both NULL if the backend has no routing of experts. */
    int32_t (*run_route)(const struct routing *routing);
    int32_t (*run_combine)(const struct combination *combination);
    /* Memory for what a call needs beside the caller's tensors; release_memory returns the call's `status`, or
     * its own failure.  `pad` copies rows into it.  `pad` is NULL if the backend only takes k in multiples
     * of 64. */
    int32_t (*acquire_memory)(const struct problem *problem, int64_t bytes, uint8_t **memory);
    int32_t (*release_memory)(const struct problem *problem, uint8_t *memory, int32_t status);
    int32_t (*pad)(const struct problem *problem, const struct padded_rows *rows);
    /* The kernels of all calls but custom_kernel_experts(), or of that call, read zeros past the end of a row
     * of b1 and b2 (struct problem's b_k), if rows begin at multiples of 16 bytes. */
    bool ends_rows, ends_rows_of_experts;
    /* Called before and after a run function.  acquire_device makes the problem's device the current CUDA
     * device and stores the caller's in *before; release_device restores it.  release_device returns `status`,
     * the run's result, with its message; if the run succeeded, its own status.  Both NULL for a backend
     * without devices. */
    int32_t (*acquire_device)(const struct problem *problem, int *before);
    int32_t (*release_device)(const struct problem *problem, int before, int32_t status);
};

/* Formats the calling thread's message (custom_kernel_message()) and returns `status`, so that a caller can
 * write `return set_message(STATUS, ...)`. */
int32_t set_message(int32_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns from the calling function if `call` failed, with its status. */
#define RETURN_IF_FAILED(call)                                                                                 \
    do {                                                                                                       \
        int32_t status_ = (call);                                                                              \
        if (status_ != CUSTOM_KERNEL_OK) {                                                                     \
            return status_;                                                                                    \
        }                                                                                                      \
    } while (0)

static inline int64_t ceil_div(int64_t x, int64_t y) {
    return x / y + (x % y != 0);
}

static inline int64_t round_up(int64_t x, int64_t unit) {
    return ceil_div(x, unit) * unit;
}

extern const struct backend cpu_backend;
#ifdef NVFP4_HAVE_HOPPER
extern const struct backend hopper_backend;
#endif
#ifdef NVFP4_HAVE_BLACKWELL
extern const struct backend blackwell_backend;
#endif
#ifdef NVFP4_HAVE_GEFORCE
extern const struct backend geforce_backend;
#endif

#ifdef __cplusplus
}
#endif

#endif
