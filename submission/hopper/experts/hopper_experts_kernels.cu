/* The kernels for experts, one for every tile; compiled apart from the others. */
#include "hopper_experts_kernels.h"

#include "hopper_experts_dequantize.cuh"
#include "hopper_experts_gemm.cuh"
#include "hopper_experts_large.cuh"

#define KERNEL(name, tile_m, least_rows, m_blocks, stages, ctas_per_sm)                                        \
    hopper::experts_kernel_of<hopper::experts_tile<tile_m, least_rows, m_blocks, stages, ctas_per_sm>>(),

namespace hopper {

template <class T> static const void *experts_kernel_of(void) {
    if constexpr (T::large) {
        return (const void *)large_experts_kernel<T>;
    } else {
        return (const void *)experts_gemm_kernel<T>;
    }
}

} // namespace hopper

const void *hopper_experts_gemm_kernel(int index) {
    const void *const kernels[] = {HOPPER_EXPERTS_TILES(KERNEL)};
    return kernels[index];
}

const void *hopper_experts_dequantize_kernel(void) {
    return (const void *)hopper::experts_dequantize_kernel;
}
