/* The extended GEMM's kernels, compiled apart from the dual GEMM's. */
#include "geforce_extended_kernels.h"

#include "geforce_extended_gemm.cuh"

/* NULL if a warp's columns are no whole groups of NVFP4 output. */
template <class T> static const void *apart_kernel(void) {
    if constexpr (T::warp_n % NVFP4_GROUP_ELEMS == 0) {
        return (const void *)geforce::extended_gemm_kernel<T>;
    } else {
        return nullptr;
    }
}

const void *geforce_extended_apart_kernel(int index) {
#define APART(name, ...) apart_kernel<geforce::tile<__VA_ARGS__>>(),
    static const void *const kernels[] = {GEFORCE_CONFIGS(APART)};
    return kernels[index];
}

const void *geforce_extended_joint_kernel(int index) {
#define JOINT(name, ...) (const void *)geforce::extended_gemm_kernel<geforce::grouped_tile<__VA_ARGS__>>,
    static const void *const kernels[] = {GEFORCE_GROUPED_CONFIGS(JOINT)};
    return kernels[index];
}
