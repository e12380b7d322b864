/* The kernels of every configuration. */
#include <cuda.h>

#include "kernels.h"

#include "dual_gemm_kernel.cuh"
#include "prepare_kernel.cuh"

#define KERNEL(name, warpgroups, slabs, tokens, stages)                                                        \
    (const void *)dual_gemm_kernel<tile<warpgroups, slabs, tokens, stages>>,

const void *hopper_dual_gemm_kernel(int index) {
    static const void *const kernels[] = {HOPPER_CONFIGS(KERNEL)};
    return kernels[index];
}

const void *hopper_prepare_kernel(void) {
    return (const void *)prepare_kernel;
}
