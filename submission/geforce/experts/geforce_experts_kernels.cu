/* The kernels for experts, one for every tile; compiled apart from the others. */
#include "geforce_experts_kernels.h"

#include "geforce_experts_gemm.cuh"

#define KERNEL(name, ...) (const void *)geforce::experts_gemm_kernel<geforce::experts_tile<__VA_ARGS__>>,

const void *geforce_experts_gemm_kernel(int index) {
    static const void *const kernels[] = {GEFORCE_EXPERTS_TILES(KERNEL)};
    return kernels[index];
}
