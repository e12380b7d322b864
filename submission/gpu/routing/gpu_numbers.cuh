/* Numbers of several types from memory, as fp32. */
#ifndef GPU_NUMBERS_CUH
#define GPU_NUMBERS_CUH

#include "../../custom_kernel.h"
#include "../instructions/ptx.cuh"

static __device__ __forceinline__ float float_of_bits16(uint16_t bits, int32_t type) {
    return type == CUSTOM_KERNEL_BF16 ? __uint_as_float((uint32_t)bits << 16) : cvt_f32_f16(bits);
}

/* Number `index` of an array of a type of enum custom_kernel_output. */
static __device__ __forceinline__ float number_at(const void *numbers, int64_t index, int32_t type) {
    return type == CUSTOM_KERNEL_FP32 ? ((const float *)numbers)[index]
                                      : float_of_bits16(((const uint16_t *)numbers)[index], type);
}

#endif
