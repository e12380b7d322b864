/* What Hopper's GEMMs do with a thread's accumulators at the end. */
#ifndef HOPPER_EPILOGUE_CUH
#define HOPPER_EPILOGUE_CUH

#include "../gpu/silu.cuh"
#include "hopper_dequantize.cuh"

namespace hopper {

/* fp32 silu(gate) * up of two outputs as halves, of accumulators [gate, gate, up, up] that still carry 2^-14.
 */
static __device__ __forceinline__ uint32_t silu_times_up(const float *acc) {
    float numerator[2], denominator[2], output[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        silu_fraction(acc[i] * PRODUCT_CORRECTION, numerator[i], denominator[i]);
        numerator[i] *= acc[2 + i] * PRODUCT_CORRECTION;
    }
    divide_two(numerator, denominator, output);
    return cvt_rn_f16x2_f32(output[0], output[1]);
}

/* Two accumulators as halves. */
static __device__ __forceinline__ uint32_t plain_outputs(const float *acc) {
    return cvt_rn_f16x2_f32(acc[0] * PRODUCT_CORRECTION, acc[1] * PRODUCT_CORRECTION);
}

} // namespace hopper

#endif
