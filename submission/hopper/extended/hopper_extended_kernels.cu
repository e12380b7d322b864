/* The extended GEMM's kernels, one for every configuration of the dual GEMM, and some with bf16 operands.  They
 * are compiled apart from the dual GEMM's kernels. */
#include "hopper_extended_kernels.h"

#include "hopper_arrange_kernel.cuh"
#include "hopper_extended_persistent.cuh"

template <class T, bool persistent> static const void *kernel_of(void) {
    if constexpr (persistent) {
        return (const void *)hopper::extended_persistent_kernel<T>;
    } else {
        return (const void *)hopper::extended_gemm_kernel<T>;
    }
}

/* Tiles of 64, 128 or 256 rows of A that all kinds of weights suit. */
template <class Base, bool persistent> static const void *bf16_kernel_of(void) {
    if constexpr (Base::warpgroups != 3 && (Base::tile_m == 64 || Base::tile_m == 128 || Base::tile_m == 256)) {
        return kernel_of<hopper::extended_tile<Base, true>, persistent>();
    } else {
        return nullptr;
    }
}

#define KERNEL(name, warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k, persistent)                \
    kernel_of<hopper::extended_tile<                                                                           \
                  hopper::dual_tile<warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k>, false>,    \
              persistent>(),
#define BF16_KERNEL(name, warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k, persistent)           \
    bf16_kernel_of<hopper::dual_tile<warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k>,           \
                   persistent>(),

const void *hopper_extended_gemm_kernel(int index, int a_type) {
    static const void *const kernels[] = {HOPPER_CONFIGS(KERNEL)};
    static const void *const bf16_kernels[] = {HOPPER_CONFIGS(BF16_KERNEL)};
    return a_type == CUSTOM_KERNEL_A_BF16 ? bf16_kernels[index] : kernels[index];
}

const void *hopper_arrange_kernel(void) {
    return (const void *)hopper::arrange_kernel;
}
