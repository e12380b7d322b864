/* The compiled kernels for experts, for the host side. */
#ifndef BLACKWELL_EXPERTS_KERNELS_H
#define BLACKWELL_EXPERTS_KERNELS_H

#include <cuda.h>
#include <stdbool.h>

#include "../../gpu/experts/gpu_experts.h"
#include "../../gpu/gpu_extended.h"
#include "blackwell_experts_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Passed by value. */
struct blackwell_experts_params {
    CUtensorMap a[EXPERTS_BOXES]; /* boxes of a stage's fp4, of 8 << i rows: [0][row][K in bytes] */
    CUtensorMap b1, b2; /* [expert][row][K in bytes]; boxes of all of a CTA's rows, or of EXPERTS_PIECE rows */
    struct expert_tokens tokens;
    struct expert_scales sfa, sfb1, sfb2; /* if gate and up are in one tensor, sfb2 is sfb1 */
    struct extended_params epilogue;      /* scales are arrays, [expert]; m is the number of rows of A in all */
    int32_t b_rows;                       /* rows of an expert's tensor b1 */
    int32_t interleave;       /* rows of gate, then of up, in turn in one tensor; 0: two tensors, or plain */
    int32_t tiles_n, steps_k; /* tiles along an expert's columns of C; K in steps */
};

/* True if a CTA's rows of B lie next to each other: those of a plain product, or of gate and up by turns of
 * eight, which are half a group of outputs. */
static inline ON_HOST_AND_DEVICE bool blackwell_experts_adjacent(int plain, int32_t interleave) {
    return plain || interleave == EXPERTS_PIECE / 2;
}

/* The kernel of tile number `index`. */
const void *blackwell_experts_gemm_kernel(int index);

#ifdef __cplusplus
}
#endif

#endif
