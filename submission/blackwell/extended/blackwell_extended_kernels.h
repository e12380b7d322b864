/* What the host side needs of the extended GEMM's kernels. */
#ifndef BLACKWELL_EXTENDED_KERNELS_H
#define BLACKWELL_EXTENDED_KERNELS_H

#include <cuda.h>

#include "../../gpu/gpu_extended.h"
#include "../grouped/blackwell_grouped_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Passed by value; tensor maps as the dual GEMM's.  Where gate and up are rows of one tensor, or the product is
 * plain, b2 is b1 and sfb2 is sfb1. */
struct blackwell_extended_params {
    CUtensorMap a, b1, b2;
    CUtensorMap sfa, sfb1, sfb2;
    struct extended_params epilogue;
    int32_t steps_k, scales_by_previous_kernel;
    int32_t
        interleave; /* gate's and up's rows in turn, in one tensor; 0 where they are two, or one product's */
};

/* The kernel of configuration number `index` of BLACKWELL_CONFIGS, for two tensors, or NULL where it splits K;
 * and of BLACKWELL_GROUPED_CONFIGS, for one. */
const void *blackwell_extended_apart_kernel(int index);
const void *blackwell_extended_joint_kernel(int index);

#ifdef __cplusplus
}
#endif

#endif
