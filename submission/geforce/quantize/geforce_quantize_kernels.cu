/* The quantizer's kernels for this backend's chips. */
#include "geforce_quantize_kernels.h"

#include "../../gpu/gpu_quantize.cuh"

const void *geforce_quantize_kernel(int32_t form, int32_t type) {
    return quantize_kernel_of(form, type);
}
