/* The kernels of every configuration. */
#include <cuda.h>

#include "hopper_kernels.h"

#include "../gpu/permute_scales.cuh"
#include "hopper_dequantize_kernel.cuh"
#include "hopper_dual_gemm.cuh"
#ifndef NVFP4_WITHOUT_GROUPED /* set in bundles for the dual GEMM */
#include "../gpu/gemv.cuh"
#include "grouped/hopper_grouped_gemm.cuh"
#endif
#include "hopper_persistent_gemm.cuh"
#include "narrow/hopper_narrow_dual_gemm.cuh"

#define KERNEL(name, warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k, sharing)                   \
    (const void *)hopper::dual_gemm_kernel<                                                                    \
        hopper::dual_tile<warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k>>,

const void *hopper_dual_gemm_kernel(int index) {
    static const void *const kernels[HOPPER_TILE_COUNT] = {HOPPER_COMMON_CONFIGS(KERNEL)
                                                               HOPPER_DUAL_CONFIGS(KERNEL)};
    return kernels[index];
}

template <class T, int sharing> static const void *persistent_kernel_of(void) {
    if constexpr (sharing == TILE_AFTER_TILE) {
        return (const void *)hopper::persistent_dual_gemm_kernel<T>;
    } else {
        return nullptr;
    }
}

#define PERSISTENT_KERNEL(name, warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k, sharing)        \
    persistent_kernel_of<hopper::dual_tile<warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k>,     \
                         sharing>(),

const void *hopper_persistent_dual_gemm_kernel(int index) {
    static const void *const kernels[HOPPER_TILE_COUNT] = {HOPPER_COMMON_CONFIGS(PERSISTENT_KERNEL)};
    return kernels[index];
}

#define NARROW_KERNELS(name, ...)                                                                              \
    {(const void *)hopper::narrow_dual_gemm_kernel<hopper::narrow_tile<__VA_ARGS__, false>>,                   \
     (const void *)hopper::narrow_dual_gemm_kernel<hopper::narrow_tile<__VA_ARGS__, true>>},

const void *hopper_narrow_dual_gemm_kernel(int index, int split_k) {
    static const void *const kernels[][2] = {HOPPER_NARROW_CONFIGS(NARROW_KERNELS)};
    return kernels[index][split_k > 1];
}

#ifndef NVFP4_WITHOUT_GROUPED
/* [shares][few] */
#define GROUPED_KERNELS(kernel, few, many)                                                                     \
    {                                                                                                          \
        {(const void *)kernel<many, false>, (const void *)kernel<few, false>}, {                               \
            (const void *)kernel<many, true>, (const void *)kernel<few, true>                                  \
        }                                                                                                      \
    }

const void *hopper_grouped_gemm_kernel(bool few, bool shares) {
    static const void *const kernels[2][2] =
        GROUPED_KERNELS(hopper::grouped_gemm_kernel, hopper_few_groups, hopper_many_groups);
    return kernels[shares][few];
}

const void *hopper_grouped_dequantize_kernel(bool few, bool shares) {
    static const void *const kernels[2][2] = GROUPED_KERNELS(
        hopper::grouped_dequantize_kernel, hopper_few_dequantize_params, hopper_many_dequantize_params);
    return kernels[shares][few];
}

const void *hopper_gemv_kernel(void) {
    return (const void *)gemv::kernel;
}
#endif

const void *hopper_dequantize_kernel(void) {
    return (const void *)hopper::dequantize_kernel;
}

const void *hopper_dequantize_first_kernel(void) {
    return (const void *)hopper::dequantize_first_kernel;
}

const void *hopper_prepare_kernel(void) {
    return (const void *)hopper::prepare_kernel;
}

const void *hopper_permute_scales_kernel(void) {
    return (const void *)permute_scales_kernel;
}
