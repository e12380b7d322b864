/* The kernels of every configuration. */
#include <cuda.h>

#include "kernels.h"

#include "block_scales_kernel.cuh"
#include "dual_gemm_kernel.cuh"
#include "expand_kernel.cuh"

#define KERNEL(name, warpgroups, slabs, tokens, stages, splits)                                                \
    (const void *)dual_gemm_kernel<tile<warpgroups, slabs, tokens, stages, splits>>,

const void *hopper_dual_gemm_kernel(int index) {
    static const void *const kernels[] = {HOPPER_CONFIGS(KERNEL)};
    return kernels[index];
}

const void *hopper_expand_kernel(void) {
    return (const void *)expand_kernel;
}

const void *hopper_block_scales_kernel(void) {
    return (const void *)block_scales_kernel;
}
