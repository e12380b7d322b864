/* The kernels for experts, one for every tile; compiled apart from the others. */
#include "hopper_experts_kernels.h"

#include "hopper_experts_gemm.cuh"

#define KERNEL(name, tile_m, stages, ctas_per_sm)                                                              \
    (const void *)hopper::experts_gemm_kernel<hopper::experts_tile<tile_m, stages, ctas_per_sm>>,

const void *hopper_experts_gemm_kernel(int index) {
    static const void *const kernels[] = {HOPPER_EXPERTS_TILES(KERNEL)};
    return kernels[index];
}

const void *hopper_experts_dequantize_kernel(void) {
    return (const void *)hopper::experts_dequantize_kernel;
}
