/* The extended GEMM's kernels, one for every configuration that it shares with the dual GEMM, and some with
 * bf16 operands.  They are compiled apart from the dual GEMM's kernels. */
#include "hopper_extended_kernels.h"

#include "hopper_arrange_kernel.cuh"
#include "hopper_extended_persistent.cuh"

template <class T, int sharing> static const void *kernel_of(void) {
    if constexpr (sharing == TILE_AFTER_TILE) {
        return (const void *)hopper::extended_persistent_kernel<T>;
    } else {
        return (const void *)hopper::extended_gemm_kernel<T>;
    }
}

/* Tiles of 64, 128 or 256 rows of A that all kinds of weights suit. */
template <class Base, int sharing> static const void *bf16_kernel_of(void) {
    if constexpr (Base::warpgroups != 3 && (Base::tile_m == 64 || Base::tile_m == 128 || Base::tile_m == 256)) {
        return kernel_of<hopper::extended_tile<Base, true>, sharing>();
    } else {
        return nullptr;
    }
}

#define KERNEL(name, warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k, sharing)                   \
    kernel_of<hopper::extended_tile<                                                                           \
                  hopper::dual_tile<warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k>, false>,    \
              sharing>(),
#define BF16_KERNEL(name, warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k, sharing)              \
    bf16_kernel_of<hopper::dual_tile<warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k>, sharing>(),

const void *hopper_extended_gemm_kernel(int index, int a_type) {
    static const void *const kernels[HOPPER_TILE_COUNT] = {HOPPER_COMMON_CONFIGS(KERNEL)};
    static const void *const bf16_kernels[HOPPER_TILE_COUNT] = {HOPPER_COMMON_CONFIGS(BF16_KERNEL)};
    return a_type == CUSTOM_KERNEL_A_BF16 ? bf16_kernels[index] : kernels[index];
}

const void *hopper_arrange_kernel(void) {
    return (const void *)hopper::arrange_kernel;
}
