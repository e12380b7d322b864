/* What the host side needs of the compiled kernels. */
#ifndef BLACKWELL_KERNELS_H
#define BLACKWELL_KERNELS_H

#include <cuda.h>

#include "config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kernel's parameters, passed by value. */
struct dual_gemm_params {
    CUtensorMap a, b1, b2;       /* boxes of a stage's codes: [batch][row][K in bytes] */
    CUtensorMap sfa, sfb1, sfb2; /* boxes of a stage's scale tiles: [batch][tile][512 bytes] */
    CUtensorMap c_boxes;         /* boxes of a warp's outputs; not encoded where `store_boxes` is 0 */
    uint16_t *c;
    int32_t m, n;
    int32_t store_boxes;      /* rows of C are multiples of 16 bytes */
    int32_t steps_k;          /* K in steps, which is scale tiles along K too */
    int32_t scales_made_here; /* by the kernel before this one: wait for it before touching them */
};

/* The kernel of configuration number `index`, as the CUDA runtime knows it. */
const void *blackwell_dual_gemm_kernel(int index);
const void *blackwell_block_scales_kernel(void);

#ifdef __cplusplus
}
#endif

#endif
