/* What a backend is to the rest of the library.  Internal. */
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

/* A validated problem: every rule of custom_kernel.h holds, no size or byte count overflows int64_t.  A group
 * of the grouped GEMM is one, too: of one product, c = a b1^T, with l = 1 and neither b2 nor sfb2. */
struct problem {
    int64_t m, n, k, l;
    const uint8_t *a, *b1, *b2;
    const uint8_t *sfa, *sfb1, *sfb2;
    uint16_t *c; /* fp16 bits */
    int32_t scale_layout;
    int32_t device;
    void *queue;
    int32_t group;                     /* its number in the caller's list */
    const struct extension *extension; /* what it has beyond the dual GEMM; NULL for nothing */
};

/* What custom_kernel_extended() takes beyond the dual GEMM, validated; numbers on the device may be NULL,
 * for 1. Such a problem is of one batch. */
struct extension {
    bool plain;         /* no up: c is the product with b1, b2 NULL */
    bool stacked;       /* b1 has 2 n rows; a backend gets two tensors */
    int32_t interleave; /* b1 has 2 n rows, gate's and up's by so many in turn, b2 is NULL; 0: two tensors */
    int32_t output;     /* enum custom_kernel_output */
    const float *scale_gate, *scale_up, *token_scale, *scale_c;
    uint8_t *sfc;
    float limit; /* infinity for none */
    float alpha, beta;
};

struct backend {
    int32_t id;
    const char *name;
    /* Whether this machine (for a GPU: `device`, or any device if it is < 0) can run the backend.
     * Writes one line to `detail` unless that is NULL: what it would run on, or why it cannot.
     * Called with NULL on every call of an automatic choice: keep that path cheap. */
    int (*available)(int32_t device, char *detail, size_t detail_bytes);
    /* Runs a problem.  Returns a status; on failure has called set_message(). */
    int32_t (*run)(const struct problem *problem);
    /* Runs `count` (>= 1) groups, none of them empty, which share scale layout, device and queue.  NULL where
     * the backend has no grouped GEMM. */
    int32_t (*run_grouped)(const struct problem *groups, int64_t count);
    /* Runs a problem with an extension.  NULL where the backend has no such GEMM. */
    int32_t (*run_extended)(const struct problem *problem);
    /* Around each of these: makes the problem's device the current one, *before is the caller's; and makes that
     * the current one again, returning `status`, that of the work between, with its message, or where that
     * succeeded, its own.  NULL where there is no device. */
    int32_t (*acquire_device)(const struct problem *problem, int *before);
    int32_t (*release_device)(const struct problem *problem, int before, int32_t status);
};

/* printf-style; keeps the calling thread's message and returns `status`, so that callers can
 * `return set_message(STATUS, ...)`. */
int32_t set_message(int32_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ends the calling function with the status of a call that failed. */
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
