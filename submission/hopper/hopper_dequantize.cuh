/* NVFP4 to fp16, exactly, with the scale factor multiplied in.
 *
 * An e2m1 value s|ee|m, put at bits 15 and 11..9 of a half, is the value times 2^-14, the subnormal 0.5
 * included. An e4m3 scale factor converts to a half exactly.  The product is value * scale * 2^-14 and has at
 * most 6 significant bits, the last worth at least 2^-24, the smallest fp16 subnormal: it is exact, and wgmma
 * keeps subnormals.  The epilogue undoes the 2^-14 of both operands with 2^28. */
#ifndef HOPPER_DEQUANTIZE_CUH
#define HOPPER_DEQUANTIZE_CUH

#include "../custom_kernel.h"
#include "../gpu/instructions/wgmma.cuh"
#include "hopper_kernels.h"

namespace hopper {

#define FP4_SIGNS 0x80808080 /* signs of the fp4 in high nibbles, whose bytes become high bytes of halves */
#define FP4_MAGNITUDES     0x0e0e0e0e
#define FP4_OF_HALVES      0x8e008e00
#define HIGH_BYTES         0xff00ff00
#define BYTES_0_AND_2      0x2404 /* prmt: as the high bytes of two halves */
#define BYTES_0_AND_2_LOW  0x4420 /* prmt: as the low bytes */
#define BYTES_1_AND_3_LOW  0x4431
#define SCALE_MAGNITUDES   0x7f7f       /* two e4m3 bytes without their sign bits, which count as 0 */
#define PRODUCT_CORRECTION 268435456.0f /* 2^28 */

/* K is permuted within each 128 elements, in both operands alike, so that a thread makes its wgmma fragments
 * from fp4 that lie together.  Lane t = lane % 4 of a row takes the 32 elements from 32 t on, two groups b = 0,
 * 1, each two words of eight fp4.  Dequantizing a word n0..n7 gives the halves (n0, n4) (n1, n5) (n2, n6) (n3,
 * n7), which are two steps' fragments: step 4 b + 2 word + i takes pairs 2 i (fragment columns 2t, 2t + 1) and
 * 2 i + 1 (columns 2t + 8, 2t + 9). */
#define PERMUTED_ELEMS 128

/* Eight fp4 times the scale in both halves of `scale` -> pairs (n0, n4), (n1, n5), (n2, n6), (n3, n7).  Left
 * shifts compile to products, and one mask comes last: the integer pipe, which is the bottleneck, gets 7 of 15
 * instructions. */
static __device__ __forceinline__ void dequantize_word(uint32_t fp4, uint32_t scale, uint32_t (&pairs)[4]) {
    uint32_t odd = select_bits(FP4_SIGNS, fp4, fp4 >> 3), even = select_bits(FP4_SIGNS, fp4 * 16, fp4 * 2);
    pairs[0] = mul_f16x2((even * 256) & FP4_OF_HALVES, scale);
    pairs[1] = mul_f16x2((odd * 256) & FP4_OF_HALVES, scale);
    pairs[2] = mul_f16x2(even & FP4_OF_HALVES, scale);
    pairs[3] = mul_f16x2(odd & FP4_OF_HALVES, scale);
}

/* The same with nine instructions of the integer pipe and fewer products: faster with three warpgroups
 * (measured:H200). */
static __device__ __forceinline__ void dequantize_word_by_bytes(uint32_t fp4, uint32_t scale,
                                                                uint32_t (&pairs)[4]) {
    uint32_t odd = (fp4 & FP4_SIGNS) | ((fp4 >> 3) & FP4_MAGNITUDES);
    uint32_t even = ((fp4 << 4) & FP4_SIGNS) | ((fp4 << 1) & FP4_MAGNITUDES);
    pairs[0] = mul_f16x2(prmt(even, 0, BYTES_0_AND_2), scale);
    pairs[1] = mul_f16x2(prmt(odd, 0, BYTES_0_AND_2), scale);
    pairs[2] = mul_f16x2(even & HIGH_BYTES, scale);
    pairs[3] = mul_f16x2(odd & HIGH_BYTES, scale);
}

static __device__ __forceinline__ uint32_t word_of(uint4 words, int index) {
    return index == 0 ? words.x : index == 1 ? words.y : index == 2 ? words.z : words.w;
}

/* Only pair `pair` of dequantize_word. */
static __device__ __forceinline__ uint32_t dequantize_pair(uint32_t fp4, uint32_t scale, int pair) {
    uint32_t bytes = pair % 2 == 0 ? fp4 << 4 : fp4;
    bytes = (bytes & FP4_SIGNS) | ((bytes >> 3) & FP4_MAGNITUDES);
    return mul_f16x2(pair < 2 ? prmt(bytes, 0, BYTES_0_AND_2) : bytes & HIGH_BYTES, scale);
}

/* Two e4m3 scale factors -> two words, each with one factor in both halves. */
static __device__ __forceinline__ void widen_scales(uint16_t pair, uint32_t (&scales)[2]) {
    uint32_t halves = cvt_rn_f16x2_e4m3x2(pair & SCALE_MAGNITUDES);
    scales[0] = twice_low(halves);
    scales[1] = twice_high(halves);
}

/* ---- bf16, for A in bf16 ---- */

/* An e2m1 value s|ee|m, put at bits 15 and 8..6 of a bf16, is the value times 2^-126, a subnormal included; so
 * a scale factor is multiplied by 2^118, and the epilogue undoes the 2^-8 that are left.  The product has at
 * most 6 significant bits, and none of its bits is below 2^-18: it is exact. */
#define SCALE_OF_BF16 0x1p118f
#define FP4_OF_BF16   0x81c081c0
#define LOW_NIBBLES   0x000f000f /* of two halves: the lowest fp4 of each, and the next */
#define NEXT_NIBBLES  0x00f000f0
#define SPREAD_LOW    0x1040 /* times a lowest fp4: its sign comes to bit 15, and its magnitude to 8..6 */
#define SPREAD_NEXT   0x104

/* A product puts an fp4 at two places that do not overlap, and the mask takes the sign from one and the
 * magnitude from the other. */
static __device__ __forceinline__ void dequantize_word_bf16(uint32_t fp4, uint32_t scale,
                                                            uint32_t (&pairs)[4]) {
    const uint32_t high = fp4 >> 8;
    pairs[0] = mul_bf16x2(((fp4 & LOW_NIBBLES) * SPREAD_LOW) & FP4_OF_BF16, scale);
    pairs[1] = mul_bf16x2(((fp4 & NEXT_NIBBLES) * SPREAD_NEXT) & FP4_OF_BF16, scale);
    pairs[2] = mul_bf16x2(((high & LOW_NIBBLES) * SPREAD_LOW) & FP4_OF_BF16, scale);
    pairs[3] = mul_bf16x2(((high & NEXT_NIBBLES) * SPREAD_NEXT) & FP4_OF_BF16, scale);
}

static __device__ __forceinline__ void widen_scales_bf16(uint16_t pair, uint32_t (&scales)[2]) {
    const uint32_t halves = cvt_rn_f16x2_e4m3x2(pair & SCALE_MAGNITUDES);
    const float low = cvt_f32_f16((uint16_t)halves) * SCALE_OF_BF16,
                high = cvt_f32_f16((uint16_t)(halves >> 16)) * SCALE_OF_BF16;
    scales[0] = cvt_rn_bf16x2_f32(low, low);
    scales[1] = cvt_rn_bf16x2_f32(high, high);
}

/* B for an A of type a_type: in bf16 if A is, else in fp16. */
template <int a_type>
static __device__ __forceinline__ void dequantize_word_as(uint32_t fp4, uint32_t scale, uint32_t (&pairs)[4]) {
    if constexpr (a_type == CUSTOM_KERNEL_A_BF16) {
        dequantize_word_bf16(fp4, scale, pairs);
    } else {
        dequantize_word(fp4, scale, pairs);
    }
}

template <int a_type>
static __device__ __forceinline__ void widen_scales_as(uint16_t pair, uint32_t (&scales)[2]) {
    if constexpr (a_type == CUSTOM_KERNEL_A_BF16) {
        widen_scales_bf16(pair, scales);
    } else {
        widen_scales(pair, scales);
    }
}

template <int a_type, int n> struct wgmma_as : wgmma_m64k16<n> {};
template <int n> struct wgmma_as<CUSTOM_KERNEL_A_BF16, n> : wgmma_m64k16_bf16<n> {};

/* The scale factors of a row of A and a chunk of its K. */
static __device__ __forceinline__ const uint8_t *scales_of_chunk(const struct dequantize_params &p,
                                                                 uint32_t batch, uint32_t row, uint32_t chunk) {
    return p.sfa + batch * p.scale_batch_bytes + row / SCALE_TILE_ROWS * p.scale_tile_step +
           row % SCALE_TILE_ROWS / SCALE_ENTRIES * p.scale_quarter_step +
           row % SCALE_ENTRIES * p.scale_row_step + chunk * p.scale_chunk_step;
}

/* Writes every second unit (16 bytes, in the order of fragments) of one box of a row's chunk: those of one
 * parity. Two threads write whole sectors together; each reads two words of all four lanes and makes the pairs
 * of its parity. `fp4`: the box's word of lane 0; `scales`: those of the chunk; if K ends in the middle of the
 * chunk (not `full`), lanes 2 and 3 get zero scales.  Unit i goes to `to` + (16 i ^ swizzle); `swizzle`
 * includes the parity. */
static __device__ __forceinline__ void dequantize_box_parity(const uint8_t *fp4, const uint8_t *scales,
                                                             uint32_t scale_half_step, uint32_t box,
                                                             uint32_t parity, bool full, uint8_t *to,
                                                             uint32_t swizzle) {
    uint2 words[4]; /* [lane] */
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
        words[lane] = *(const uint2 *)(fp4 + (lane < 2 || full ? lane * 16 : 0));
    }
    const uint32_t factors[2] = {*(const uint32_t *)scales,
                                 *(const uint32_t *)(scales + (full ? scale_half_step : 0)) & (full ? ~0u : 0)};
    uint32_t scale[4]; /* [lane] */
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t of_box = prmt(factors[half], 0, box == 0 ? BYTES_0_AND_2_LOW : BYTES_1_AND_3_LOW);
        uint32_t two[2];
        widen_scales((uint16_t)of_box, two);
        scale[2 * half] = two[0];
        scale[2 * half + 1] = two[1];
    }
#pragma unroll
    for (int word = 0; word < 2; word++) {
        uint32_t pairs[2][4]; /* [the first or the second of the parity][lane] */
#pragma unroll
        for (int lane = 0; lane < 4; lane++) {
            const uint32_t four = (word == 0 ? words[lane].x : words[lane].y) << (parity == 0 ? 4 : 0);
            const uint32_t bytes = select_bits(FP4_SIGNS, four, four >> 3);
            pairs[0][lane] = mul_f16x2((bytes * 256) & FP4_OF_HALVES, scale[lane]);
            pairs[1][lane] = mul_f16x2(bytes & FP4_OF_HALVES, scale[lane]);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            *(uint4 *)(to + (swizzle ^ (4 * word + 2 * i) * (uint32_t)sizeof(uint4))) =
                make_uint4(pairs[i][0], pairs[i][1], pairs[i][2], pairs[i][3]);
        }
    }
}

} // namespace hopper

#endif
