/* The kernels of every configuration. */
#include "kernels.h"

#include "../gpu/permute_scales.cuh"
#include "dual_gemm.cuh"

#define KERNEL(name, tile_n, stages, ctas, tail, split_k)                                                      \
    (const void *)blackwell::dual_gemm_kernel<blackwell::tile<tile_n, stages, ctas, tail, split_k>>,

const void *blackwell_dual_gemm_kernel(int index) {
    static const void *const kernels[] = {BLACKWELL_CONFIGS(KERNEL)};
    return kernels[index];
}

const void *blackwell_permute_scales_kernel(void) {
    return (const void *)permute_scales_kernel;
}
