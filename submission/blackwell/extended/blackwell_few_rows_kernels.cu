/* The extended GEMM's kernels for few rows, compiled apart from the others. */
#include "blackwell_few_rows_gemm.cuh"

#define KERNELS(name, ...)                                                                                     \
    {(const void *)blackwell::few_rows_gemm_kernel<blackwell::few_rows_tile<__VA_ARGS__, false>>,              \
     (const void *)blackwell::few_rows_gemm_kernel<blackwell::few_rows_tile<__VA_ARGS__, true>>},

const void *blackwell_few_rows_kernel(int index, bool gated) {
    static const void *const kernels[][2] = {BLACKWELL_FEW_ROWS_CONFIGS(KERNELS)};
    return kernels[index][gated];
}
