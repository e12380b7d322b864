/* The kernels for experts, one for every tile; compiled apart from the others. */
#include "hopper_experts_kernels.h"

#include "hopper_experts_dequantize.cuh"
#include "hopper_experts_gemm.cuh"

#define KERNEL(name, ...) (const void *)hopper::experts_gemm_kernel<hopper::experts_tile<__VA_ARGS__, false>>,
#define BF16_KERNEL(name, ...)                                                                                 \
    (const void *)hopper::experts_gemm_kernel<hopper::experts_tile<__VA_ARGS__, true>>,

const void *hopper_experts_gemm_kernel(int index, int a_type) {
    const void *const kernels[] = {HOPPER_EXPERTS_TILES(KERNEL)};
    const void *const bf16_kernels[] = {HOPPER_EXPERTS_TILES(BF16_KERNEL)};
    return a_type == CUSTOM_KERNEL_A_BF16 ? bf16_kernels[index] : kernels[index];
}

const void *hopper_experts_arrange_kernel(void) {
    return (const void *)hopper::experts_arrange_kernel;
}

const void *hopper_experts_dequantize_kernel(void) {
    return (const void *)hopper::experts_dequantize_kernel;
}
