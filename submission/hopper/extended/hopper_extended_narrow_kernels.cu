/* The extended GEMM's kernels for few rows of A: for each narrow tile, share of K and type of A. */
#include "hopper_extended_kernels.h"

#include "hopper_extended_narrow.cuh"

#define KERNEL(shares_k, a_type, ...)                                                                          \
    (const void *)hopper::extended_narrow_kernel<hopper::extended_narrow_tile<__VA_ARGS__, shares_k, a_type>>
#define KERNELS_OF(shares_k, ...)                                                                              \
    {KERNEL(shares_k, CUSTOM_KERNEL_A_NVFP4, __VA_ARGS__),                                                     \
     KERNEL(shares_k, CUSTOM_KERNEL_A_FP16, __VA_ARGS__), KERNEL(shares_k, CUSTOM_KERNEL_A_BF16, __VA_ARGS__)}
#define KERNELS(name, ...) {KERNELS_OF(false, __VA_ARGS__), KERNELS_OF(true, __VA_ARGS__)},

const void *hopper_extended_narrow_kernel(int index, int split_k, int a_type) {
    static const void *const kernels[][2][3] = {HOPPER_NARROW_CONFIGS(KERNELS)};
    return kernels[index][split_k > 1][a_type];
}
