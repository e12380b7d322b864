/* What the host side needs of the compiled kernels. */
#ifndef GEFORCE_KERNELS_H
#define GEFORCE_KERNELS_H

#include <cuda.h>
#include <stdbool.h>

#include "../gpu/permute_scales.h"
#include "config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The GEMM's parameters, passed by value. */
struct geforce_dual_gemm_params {
    CUtensorMap a, b1, b2;            /* boxes of a stage's fp4: [batch][row][K in bytes] */
    const uint8_t *sfa, *sfb1, *sfb2; /* blocked: [batch][row of scale tiles][step of K][512 bytes] */
    uint16_t *c;                      /* [batch][m][n], fp16 bits */
    int32_t m, n;
    int32_t steps_k;                 /* K in steps, which is scale tiles along K too */
    int32_t tiles_m, tiles_n, tiles; /* of C: along its rows, its columns, and of all batches */
};

/* The kernel of configuration number `index`, as the CUDA runtime knows it. */
const void *geforce_dual_gemm_kernel(int index);
const void *geforce_permute_scales_kernel(void); /* struct permute_scales_params */

#ifdef __cplusplus
}
#endif

#endif
