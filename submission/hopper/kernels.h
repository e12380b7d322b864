/* What the host side needs of the compiled kernels. */
#ifndef HOPPER_KERNELS_H
#define HOPPER_KERNELS_H

#include "../gpu/permute_scales.h"
#include "config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kernel of configuration number `index`, as the CUDA runtime knows it.  Its parameters: the tensor maps of
 * A in fp16, B1 and B2 (boxes of a stage: [batch][row][K]), and struct hopper_dual_gemm_params. */
const void *hopper_dual_gemm_kernel(int index);
/* The same for narrow tile number `index` where `split_k` CTAs share a tile's K.  Its parameters: struct
 * hopper_narrow_params. */
const void *hopper_narrow_dual_gemm_kernel(int index, int split_k);
const void *hopper_dequantize_kernel(void);     /* struct dequantize_params */
const void *hopper_permute_scales_kernel(void); /* struct permute_scales_params */

#ifdef __cplusplus
}
#endif

#endif
