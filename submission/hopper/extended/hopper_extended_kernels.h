/* The extended GEMM's compiled kernels, for the host side. */
#ifndef HOPPER_EXTENDED_KERNELS_H
#define HOPPER_EXTENDED_KERNELS_H

#include <cuda.h>

#include "../../gpu/gpu_extended.h"
#include "../hopper_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Passed by value.  `gemm`'s n is the number of rows of the tensor b1; its first_n is not used. */
struct hopper_extended_params {
    struct hopper_dual_gemm_params gemm;
    struct extended_params epilogue;
    int32_t
        interleave; /* rows of gate, then of up, in turn in one tensor; 0 for two tensors or a plain product */
};

/* Scale tiles of a stage if both operands are rows of one tensor. */
#define JOINT_SCALE_TILES(tile_n) SCALE_TILES_TOUCHED(2 * (tile_n))

/* The kernel of configuration number `index` of HOPPER_CONFIGS.  Its parameters: the tensor maps of A in fp16,
 * B1 and B2, of interleaved rows [piece][row][K], and struct hopper_extended_params. */
const void *hopper_extended_gemm_kernel(int index);

#ifdef __cplusplus
}
#endif

#endif
