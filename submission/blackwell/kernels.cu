/* The kernels of every configuration. */
#include "kernels.h"

#include "../gpu/block_scales_kernel.cuh"
#include "dual_gemm_kernel.cuh"

#define KERNEL(name, features, stages, ctas, tail)                                                             \
    (const void *)dual_gemm_kernel<tile<features, stages, ctas, tail>>,

const void *blackwell_dual_gemm_kernel(int index) {
    static const void *const kernels[] = {BLACKWELL_CONFIGS(KERNEL)};
    return kernels[index];
}

const void *blackwell_block_scales_kernel(void) {
    return (const void *)block_scales_kernel;
}
