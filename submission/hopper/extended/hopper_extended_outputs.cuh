/* The outputs of the extended GEMM and of experts: accumulators, scaled and activated, and NVFP4 groups. */
#ifndef HOPPER_EXTENDED_OUTPUTS_CUH
#define HOPPER_EXTENDED_OUTPUTS_CUH

#include <type_traits>

#include "../../gpu/gpu_extended.cuh"
#include "../hopper_outputs.cuh"

namespace hopper {

/* What an epilogue computes.  A tile with many outputs has code of its own for SiLU: the general activation's
 * in between, though skipped, has to be fetched.  GATED asks for each column's outputs which of the two it is.
 */
enum outputs_kind { PLAIN, GATED, GATED_SILU, GATED_OTHER };

template <int kind, int pairs>
static __device__ __forceinline__ void
finish_pairs_as(float (&outputs)[2 * pairs], const float *acc, int part, const struct row_factors (*factors)[2],
                const struct column_bias &bias, const struct extended_params &p, float correction, int count) {
#pragma unroll
    for (int i = 0; i < 2 * pairs; i++) {
        const float *pair = acc + i / 2 * 4;
        const struct row_factors &of_row = factors[i / 2][i % 2];
        if (i >= 2 * count) {
            outputs[i] = 0.0f;
        } else if constexpr (kind == PLAIN) {
            outputs[i] = scaled(pair[2 * part + i % 2] * correction, of_row.gate, bias.gate);
        } else {
            outputs[i] = finish_gated<kind == GATED_SILU>(p, pair[i % 2] * correction,
                                                          pair[2 + i % 2] * correction, of_row, bias);
        }
    }
    if constexpr (kind == PLAIN) {
        activate_plain(p.activation, outputs);
    }
}

/* The outputs of a column in `pairs` pairs of neighbouring rows of A, or in the first `count` of them, from
 * each pair's accumulators [gate, gate, up, up]; of a plain product, whose operands are two parts of its
 * columns, those of part `part`. */
template <int kind, int pairs>
static __device__ __forceinline__ void
finish_pairs(float (&outputs)[2 * pairs], const float *acc, int part, const struct row_factors (*factors)[2],
             const struct column_bias &bias, const struct extended_params &p, float correction,
             int count = pairs) {
    if (kind != GATED) {
        finish_pairs_as<kind, pairs>(outputs, acc, part, factors, bias, p, correction, count);
    } else if (is_silu(p.activation)) {
        finish_pairs_as<GATED_SILU, pairs>(outputs, acc, part, factors, bias, p, correction, count);
    } else {
        finish_pairs_as<GATED_OTHER, pairs>(outputs, acc, part, factors, bias, p, correction, count);
    }
}

/* The factors of a lane's rows among 32 from `first` on: two of each eight. */
static __device__ __forceinline__ void find_lane_factors(struct row_factors (&factors)[4][2],
                                                         const struct extended_params &p, float scale_gate,
                                                         float scale_up, int32_t first) {
    const int lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        factors[i / 2][i % 2] = find_factors(p, scale_gate, scale_up, first + i / 2 * 8 + lane % 4 * 2 + i % 2);
    }
}

/* A group of fp32 outputs in shared memory -> a row's codes and scale factor.  four(i): outputs 4 * i to
 * 4 * i + 3. */
template <class Four>
static __device__ __forceinline__ void quantize_outputs(const struct extended_params &p, int32_t row,
                                                        int32_t column, float scale_c, Four four) {
    float values[NVFP4_GROUP_ELEMS];
#pragma unroll
    for (int i = 0; i < NVFP4_GROUP_ELEMS / 4; i++) {
        const float4 found = four(i);
        values[4 * i] = found.x;
        values[4 * i + 1] = found.y;
        values[4 * i + 2] = found.z;
        values[4 * i + 3] = found.w;
    }
    store_group(p, row, column, quantize_group(values, scale_c));
}

/* The same from consecutive outputs. */
static __device__ __forceinline__ void quantize_row(const struct extended_params &p, int32_t row,
                                                    int32_t column, float scale_c, const unsigned char *from) {
    quantize_outputs(p, row, column, scale_c, [&](int i) { return ((const float4 *)from)[i]; });
}

static __device__ __forceinline__ float4 ld_shared_floats(uint32_t address) {
    const uint4 four = ld_shared_v4(address);
    return make_float4(__uint_as_float(four.x), __uint_as_float(four.y), __uint_as_float(four.z),
                       __uint_as_float(four.w));
}

/* Calls work(kind, nvfp4), types with a constant `value` of outputs_kind and bool: code for each kind of
 * outputs.  `gated`: GATED, or GATED_SILU for two kinds of gated ones. */
template <int gated, class Work>
static __device__ __forceinline__ void with_outputs(const struct extended_params &p, Work work) {
    const auto with_kind = [&](auto kind) {
        p.output == CUSTOM_KERNEL_NVFP4 ? work(kind, std::true_type()) : work(kind, std::false_type());
    };
    if (p.plain) {
        with_kind(std::integral_constant<int, PLAIN>());
    } else if constexpr (gated == GATED) {
        with_kind(std::integral_constant<int, GATED>());
    } else if (is_silu(p.activation)) {
        with_kind(std::integral_constant<int, GATED_SILU>());
    } else {
        with_kind(std::integral_constant<int, GATED_OTHER>());
    }
}

} // namespace hopper

#endif
