/* The kernels of every configuration. */
#include "blackwell_kernels.h"

#include "../gpu/permute_scales.cuh"
#include "blackwell_dual_gemm.cuh"
#ifndef NVFP4_WITHOUT_GROUPED /* set in bundles for the dual GEMM */
#include "../gpu/gemv.cuh"
#include "grouped/blackwell_transposed_gemm.cuh"
#endif

#define KERNEL(name, ...) (const void *)blackwell::dual_gemm_kernel<blackwell::tile<__VA_ARGS__>>,

const void *blackwell_dual_gemm_kernel(int index) {
    static const void *const kernels[] = {BLACKWELL_CONFIGS(KERNEL)};
    return kernels[index];
}

#ifndef NVFP4_WITHOUT_GROUPED
#define GROUPED_KERNELS(name, ...)                                                                             \
    {(const void *)                                                                                            \
         blackwell::grouped_gemm_kernel<blackwell::grouped_tile<__VA_ARGS__>, blackwell_many_groups>,          \
     (const void *)                                                                                            \
         blackwell::grouped_gemm_kernel<blackwell::grouped_tile<__VA_ARGS__>, blackwell_few_groups>},

#define TRANSPOSED_KERNELS(name, ...)                                                                          \
    {(const void *)                                                                                            \
         blackwell::transposed_gemm_kernel<blackwell::transposed_tile<__VA_ARGS__>, blackwell_many_groups>,    \
     (const void *)                                                                                            \
         blackwell::transposed_gemm_kernel<blackwell::transposed_tile<__VA_ARGS__>, blackwell_few_groups>},

const void *blackwell_grouped_gemm_kernel(int index, bool few) {
    static const void *const kernels[][2] = {BLACKWELL_GROUPED_CONFIGS(GROUPED_KERNELS)
                                                 BLACKWELL_TRANSPOSED_CONFIGS(TRANSPOSED_KERNELS)};
    return kernels[index][few];
}

const void *blackwell_gemv_kernel(void) {
    return (const void *)gemv::kernel;
}
#endif

const void *blackwell_permute_scales_kernel(void) {
    return (const void *)permute_scales_kernel;
}
