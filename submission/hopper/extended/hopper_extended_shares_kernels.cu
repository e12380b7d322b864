/* The extended GEMM's kernels whose CTAs have equal shares, compiled apart from the others. */
#include "hopper_extended_kernels.h"

#include "hopper_extended_shares.cuh"

#define TILE(bf16, warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k)                              \
    hopper::extended_tile<                                                                                     \
        hopper::one_chain<hopper::dual_tile<warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k>>,   \
        bf16>

#define NONE(name, ...) {nullptr, nullptr},
#define KERNELS(name, warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k, sharing)                  \
    {(const void *)hopper::extended_shares_kernel<TILE(false, warpgroups_n, m_blocks, tile_m, stages, split_k, \
                                                       warpgroups_k)>,                                         \
     (const void *)hopper::extended_shares_kernel<TILE(true, warpgroups_n, m_blocks, tile_m, stages, split_k,  \
                                                       warpgroups_k)>},

const void *hopper_extended_shares_kernel(int index, int a_type) {
    static const void *const kernels[][2] = {HOPPER_COMMON_CONFIGS(NONE) HOPPER_DUAL_CONFIGS(NONE)
                                                 HOPPER_EXTENDED_CONFIGS(KERNELS)};
    return kernels[index][a_type == CUSTOM_KERNEL_A_BF16];
}
