/* The kernels for experts, one for every tile; compiled apart from the others. */
#include "blackwell_experts_kernels.h"

#include "blackwell_experts_gemm.cuh"

#define KERNEL(name, ...) (const void *)blackwell::experts_gemm_kernel<blackwell::transposed_tile<__VA_ARGS__>>,

const void *blackwell_experts_gemm_kernel(int index) {
    static const void *const kernels[] = {BLACKWELL_EXPERTS_TILES(KERNEL)};
    return kernels[index];
}
