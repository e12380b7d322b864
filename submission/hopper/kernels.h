/* What the host side needs of the compiled kernels. */
#ifndef HOPPER_KERNELS_H
#define HOPPER_KERNELS_H

#include "config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kernel of configuration number `index`, as the CUDA runtime knows it. */
const void *hopper_dual_gemm_kernel(int index);
const void *hopper_block_scales_kernel(void);

#ifdef __cplusplus
}
#endif

#endif
