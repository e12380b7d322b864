/* The kernels of every configuration. */
#include "kernels.h"

#include "../gpu/permute_scales.cuh"
#include "dual_gemm.cuh"

#define KERNEL(name, ...) (const void *)geforce::dual_gemm_kernel<geforce::tile<__VA_ARGS__>>,

const void *geforce_dual_gemm_kernel(int index) {
    static const void *const kernels[] = {GEFORCE_CONFIGS(KERNEL)};
    return kernels[index];
}

const void *geforce_permute_scales_kernel(void) {
    return (const void *)permute_scales_kernel;
}
