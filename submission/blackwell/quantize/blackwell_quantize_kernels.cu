/* The quantizer's kernels for this backend's chips. */
#include "blackwell_quantize_kernels.h"

#include "../../gpu/gpu_quantize.cuh"
#include "../../gpu/pad_rows.cuh"

const void *blackwell_quantize_kernel(int32_t form, int32_t type) {
    return quantize_kernel_of(form, type);
}

const void *blackwell_pad_kernel(void) {
    return (const void *)pad_rows_kernel;
}
