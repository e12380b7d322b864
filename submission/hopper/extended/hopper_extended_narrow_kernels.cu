/* The extended GEMM's kernels for few rows of A: for each narrow tile, share of K and type of A. */
#include "hopper_extended_kernels.h"

#include "hopper_extended_narrow.cuh"

#define KERNEL(split_k, a_type, ...)                                                                           \
    (const void *)hopper::extended_narrow_kernel<hopper::extended_narrow_tile<__VA_ARGS__, split_k, a_type>>
#define KERNELS_OF(split_k, ...)                                                                               \
    {KERNEL(split_k, CUSTOM_KERNEL_A_NVFP4, __VA_ARGS__), KERNEL(split_k, CUSTOM_KERNEL_A_FP16, __VA_ARGS__),  \
     KERNEL(split_k, CUSTOM_KERNEL_A_BF16, __VA_ARGS__)}
#define KERNELS(name, ...) {KERNELS_OF(1, __VA_ARGS__), KERNELS_OF(2, __VA_ARGS__)},

const void *hopper_extended_narrow_kernel(int index, int split_k, int a_type) {
    static const void *const kernels[][NARROW_MAX_SPLIT_K][3] = {HOPPER_NARROW_CONFIGS(KERNELS)};
    return kernels[index][split_k - 1][a_type];
}
