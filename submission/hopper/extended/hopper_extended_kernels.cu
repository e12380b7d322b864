/* The extended GEMM's kernels, one for every configuration of the dual GEMM.  They are compiled apart from the
 * dual GEMM's kernels. */
#include "hopper_extended_kernels.h"

#include "hopper_extended_gemm.cuh"

#define KERNEL(name, warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k, persistent)                \
    (const void *)hopper::extended_gemm_kernel<hopper::extended_tile<                                          \
        hopper::dual_tile<warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k>>>,

const void *hopper_extended_gemm_kernel(int index) {
    static const void *const kernels[] = {HOPPER_CONFIGS(KERNEL)};
    return kernels[index];
}
