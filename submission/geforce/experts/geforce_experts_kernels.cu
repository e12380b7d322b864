/* The kernels for experts, two for every tile; compiled apart from the others. */
#include "geforce_experts_kernels.h"

#include "geforce_experts_gemm.cuh"

#define KERNELS(name, ...)                                                                                     \
    {(const void *)geforce::experts_gemm_kernel<geforce::experts_tile<false, __VA_ARGS__>>,                    \
     (const void *)geforce::experts_gemm_kernel<geforce::experts_tile<true, __VA_ARGS__>>},

const void *geforce_experts_gemm_kernel(int index, bool plain) {
    static const void *const kernels[][2] = {GEFORCE_EXPERTS_TILES(KERNELS)};
    return kernels[index][plain];
}
