/* The extended GEMM's kernels, compiled apart from the dual GEMM's. */
#include "blackwell_extended_kernels.h"

#include "blackwell_extended_gemm.cuh"

/* NULL for split K and for stored scale factors, whose accumulators only the dual GEMM's epilogue reads. */
template <int products, int tile_n, int stages, int ctas, int tail, int split_k, int stored = 0>
static const void *kernel_of(void) {
    if constexpr (split_k == 1 && stored == 0) {
        return (const void *)
            blackwell::extended_gemm_kernel<blackwell::extended_tile<tile_n, stages, ctas, tail, products>>;
    } else {
        return nullptr;
    }
}

#define RETURN_IF_NUMBER(products, ...)                                                                        \
    if (index == number++) {                                                                                   \
        return kernel_of<products, __VA_ARGS__>();                                                             \
    }

const void *blackwell_extended_apart_kernel(int index) {
    int number = 0;
#define APART(name, ...) RETURN_IF_NUMBER(2, __VA_ARGS__)
    BLACKWELL_CONFIGS(APART)
    return nullptr;
}

const void *blackwell_extended_joint_kernel(int index) {
    int number = 0;
#define JOINT(name, ...) RETURN_IF_NUMBER(1, __VA_ARGS__)
    BLACKWELL_GROUPED_CONFIGS(JOINT)
    return nullptr;
}
