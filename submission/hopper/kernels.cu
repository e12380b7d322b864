/* The kernels of every configuration. */
#include <cuda.h>

#include "kernels.h"

#include "../gpu/permute_scales.cuh"
#include "dequantize_kernel.cuh"
#include "dual_gemm.cuh"

#define KERNEL(name, warpgroups, m_blocks, tile_m, stages, split_k)                                            \
    (const void *)hopper::dual_gemm_kernel<hopper::tile<warpgroups, m_blocks, tile_m, stages, split_k>>,

const void *hopper_dual_gemm_kernel(int index) {
    static const void *const kernels[] = {HOPPER_CONFIGS(KERNEL)};
    return kernels[index];
}

const void *hopper_dequantize_kernel(void) {
    return (const void *)hopper::dequantize_kernel;
}

const void *hopper_permute_scales_kernel(void) {
    return (const void *)permute_scales_kernel;
}
