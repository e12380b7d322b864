/* The extended GEMM's compiled kernels, for the host side. */
#ifndef GEFORCE_EXTENDED_KERNELS_H
#define GEFORCE_EXTENDED_KERNELS_H

#include <cuda.h>

#include "../../gpu/gpu_extended.h"
#include "../grouped/geforce_grouped_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Passed by value; operands as the dual GEMM's (geforce_kernels.h).  If gate and up are rows of one tensor, or
 * the product is plain, b2 is b1 and sfb2 is not read. */
struct geforce_extended_params {
    CUtensorMap a, b1, b2;
    const uint8_t *sfa, *sfb1, *sfb2;
    int32_t m, n; /* n: rows of b1 */
    int32_t steps_k;
    int32_t tiles_m, tiles_n, tiles;
    int32_t
        interleave; /* rows of gate, then of up, in turn in one tensor; 0 for two tensors or a plain product */
    struct extended_params epilogue;
};

/* The kernel for two tensors of configuration number `index` of GEFORCE_CONFIGS, NULL if a warp's columns are
 * no whole groups of NVFP4 output; and the kernel for one tensor of number `index` of GEFORCE_GROUPED_CONFIGS.
 */
const void *geforce_extended_apart_kernel(int index);
const void *geforce_extended_joint_kernel(int index);

#ifdef __cplusplus
}
#endif

#endif
