/* The kernels for experts, one for every tile; compiled apart from the others. */
#include "hopper_experts_kernels.h"

#include "hopper_experts_dequantize.cuh"
#include "hopper_experts_gemm.cuh"

#define KERNEL(name, ...) (const void *)hopper::experts_gemm_kernel<hopper::experts_tile<__VA_ARGS__>>,

const void *hopper_experts_gemm_kernel(int index) {
    const void *const kernels[] = {HOPPER_EXPERTS_TILES(KERNEL)};
    return kernels[index];
}

const void *hopper_experts_dequantize_kernel(void) {
    return (const void *)hopper::experts_dequantize_kernel;
}
