/* The compiled kernels for experts, for the host side. */
#ifndef GEFORCE_EXPERTS_KERNELS_H
#define GEFORCE_EXPERTS_KERNELS_H

#include <cuda.h>
#include <stdbool.h>

#include "../../gpu/experts/gpu_experts.h"
#include "../../gpu/gpu_extended.h"
#include "geforce_experts_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Passed by value. */
struct geforce_experts_params {
    CUtensorMap a;      /* boxes of a stage's fp4: [0][row][K in bytes] */
    CUtensorMap b1, b2; /* [expert, or piece of interleaved rows][row][K in bytes] */
    struct expert_tokens tokens;
    struct expert_scales sfa, sfb1, sfb2; /* if gate and up are in one tensor, sfb2 is sfb1 */
    struct extended_params epilogue;      /* scales are arrays, [expert]; m is the number of rows of A in all */
    int32_t b_rows;                       /* rows of an expert's tensor b1 */
    int32_t interleave;       /* rows of gate, then of up, in turn in one tensor; 0: two tensors, or plain */
    int32_t tiles_n, steps_k; /* tiles along an expert's columns of C; K in steps */
};

/* The kernel of tile number `index` for a gated or a plain product. */
const void *geforce_experts_gemm_kernel(int index, bool plain);

#ifdef __cplusplus
}
#endif

#endif
