/* The kernels of every configuration. */
#include "geforce_kernels.h"

#include "../gpu/permute_scales.cuh"
#include "geforce_dual_gemm.cuh"
#ifndef NVFP4_WITHOUT_GROUPED /* set in bundles for the dual GEMM */
#include "../gpu/gemv.cuh"
#include "grouped/geforce_grouped_gemm.cuh"
#endif

#define KERNEL(name, ...) (const void *)geforce::dual_gemm_kernel<geforce::tile<__VA_ARGS__>>,

const void *geforce_dual_gemm_kernel(int index) {
    static const void *const kernels[] = {GEFORCE_CONFIGS(KERNEL)};
    return kernels[index];
}

#ifndef NVFP4_WITHOUT_GROUPED
#define GROUPED_KERNELS(name, ...)                                                                             \
    {(const void *)geforce::grouped_gemm_kernel<geforce::grouped_tile<__VA_ARGS__>, geforce_many_groups>,      \
     (const void *)geforce::grouped_gemm_kernel<geforce::grouped_tile<__VA_ARGS__>, geforce_few_groups>},

const void *geforce_grouped_gemm_kernel(int index, bool few) {
    static const void *const kernels[][2] = {GEFORCE_GROUPED_CONFIGS(GROUPED_KERNELS)};
    return kernels[index][few];
}

const void *geforce_gemv_kernel(void) {
    return (const void *)gemv::kernel;
}
#endif

const void *geforce_permute_scales_kernel(void) {
    return (const void *)permute_scales_kernel;
}
