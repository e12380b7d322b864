/* What the host side needs of the compiled kernels. */
#ifndef BLACKWELL_KERNELS_H
#define BLACKWELL_KERNELS_H

#include <cuda.h>

#include "../gpu/permute_scales.h"
#include "config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The GEMM's parameters, passed by value. */
struct blackwell_dual_gemm_params {
    CUtensorMap a, b1, b2;       /* boxes of a stage's fp4: [batch][row][K in bytes] */
    CUtensorMap sfa, sfb1, sfb2; /* boxes of a stage's scale tiles: [batch][tile][512 bytes] */
    uint16_t *c;                 /* [batch][m][n], fp16 bits */
    int32_t m, n;
    int32_t steps_k;                   /* K in steps, which is scale tiles along K too */
    int32_t scales_by_previous_kernel; /* permuted: wait for it before touching them */
};

/* The kernel of configuration number `index`, as the CUDA runtime knows it. */
const void *blackwell_dual_gemm_kernel(int index);
const void *blackwell_permute_scales_kernel(void); /* struct permute_scales_params */

#ifdef __cplusplus
}
#endif

#endif
