/* The extended GEMM's compiled kernels, for the host side. */
#ifndef BLACKWELL_EXTENDED_KERNELS_H
#define BLACKWELL_EXTENDED_KERNELS_H

#include <cuda.h>
#include <stdbool.h>

#include "../../gpu/gpu_extended.h"
#include "blackwell_extended_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Passed by value; tensor maps as the dual GEMM's.  If gate and up are rows of one tensor, or the product is
 * plain, b2 is b1 and sfb2 is sfb1.  For few rows a and b2 are the operands' B1 and B2, b1 is their A, and so
 * are the scales'. */
struct blackwell_extended_params {
    CUtensorMap a, b1, b2;
    CUtensorMap sfa, sfb1, sfb2;
    struct extended_params epilogue;
    int32_t steps_k, scales_by_previous_kernel;
    int32_t
        interleave; /* rows of gate, then of up, in turn in one tensor; 0 for two tensors or a plain product */
    int32_t tiles_m, columns; /* for few rows: tiles along the rows of A, and the columns of their MMAs */
};

/* The kernel for two tensors of configuration number `index` of BLACKWELL_CONFIGS, NULL if it splits K; and the
 * kernel for one tensor of number `index` of BLACKWELL_GROUPED_CONFIGS. */
const void *blackwell_extended_apart_kernel(int index);
const void *blackwell_extended_joint_kernel(int index);

/* The kernel for few rows of number `index` of BLACKWELL_FEW_ROWS_CONFIGS: for two tensors, or a plain product.
 */
const void *blackwell_few_rows_kernel(int index, bool gated);

#ifdef __cplusplus
}
#endif

#endif
