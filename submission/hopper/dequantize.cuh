/* NVFP4 to fp16, exactly, with the scale factor multiplied in.
 *
 * An e2m1 value s|ee|m put at bits 15 and 11..9 of a half is the value times 2^-14, the subnormal 0.5 included.
 * An e4m3 scale factor times 2^7 is at most 57344, a finite half.  The product is value * scale * 2^-7, which
 * has at most 6 significant bits, the last worth at least 2^-17: exact, since fp16 reaches down to 2^-24.  Both
 * operands carry 2^-7, which the epilogue undoes with 2^14. */
#ifndef HOPPER_DEQUANTIZE_CUH
#define HOPPER_DEQUANTIZE_CUH

#include "../gpu/instructions/ptx.cuh"
#include "config.h"

namespace hopper {

#define FP4_SIGNS          0x80808080 /* of the fp4 in the high nibbles, which become high bytes of halves */
#define FP4_MAGNITUDES     0x0e0e0e0e
#define FP4_OF_HALVES      0x8e008e00
#define HIGH_BYTES         0xff00ff00
#define BYTES_0_AND_2      0x2404     /* prmt: as the high bytes of two halves */
#define SCALE_MAGNITUDES   0x7f7f     /* of two e4m3 bytes: the sign bit is ignored */
#define HALF2_2_TO_7       0x58005800 /* 128 in both halves */
#define PRODUCT_CORRECTION 16384.0f   /* 2^14 */

/* K is permuted, alike in both operands, so that a thread's wgmma fragment is made from fp4 that lie together.
 *
 * HW: a step of wgmma cuts each product and the sum off behind the accumulator's last places, but what a group
 * of large scale factors adds has no bits there.  So a step is one group of 16, as in K's order: steps of four
 * groups' quarters, which spare the exchange below, lose bits in nearly every step (an error of 1.6 times).
 *
 * Of each 32 elements of a row, two groups, lane t = lane % 4 reads the eight from 8 t on: of group t / 2.  It
 * exchanges two bytes with lane t ^ 2, and has bytes q and q + 1 of both groups, q = 4 (t % 2) + 2 (t / 2).
 * Fragment columns 2t, 2t + 1 are these bytes' low fp4, columns 2t + 8, 2t + 9 their high ones.  A narrow
 * tile's chains are short: its lanes keep the groups that they read (narrow_products.cuh). */

/* A lane's word and that of lane t ^ 2 -> the first group's two bytes at 0 and 2, the second one's at 1 and 3.
 */
static __device__ __forceinline__ uint32_t share_groups(uint32_t own, uint32_t other, int quad_lane) {
    return prmt(own, other, quad_lane < 2 ? 0x5140 : 0x3726);
}

/* Eight fp4 times the scales in both halves of `even_bytes` and `odd_bytes` -> pairs (n0, n4), (n1, n5) of
 * bytes 0 and 2, (n2, n6), (n3, n7) of bytes 1 and 3.  Shifts to the left are products, and a mask comes last
 * and once: the integer pipe, which decides, has 7 of 15 instructions. */
static __device__ __forceinline__ void dequantize_word(uint32_t fp4, uint32_t even_bytes, uint32_t odd_bytes,
                                                       uint32_t (&pairs)[4]) {
    uint32_t odd = select_bits(FP4_SIGNS, fp4, fp4 >> 3), even = select_bits(FP4_SIGNS, fp4 * 16, fp4 * 2);
    pairs[0] = mul_f16x2((even * 256) & FP4_OF_HALVES, even_bytes);
    pairs[1] = mul_f16x2((odd * 256) & FP4_OF_HALVES, even_bytes);
    pairs[2] = mul_f16x2(even & FP4_OF_HALVES, odd_bytes);
    pairs[3] = mul_f16x2(odd & FP4_OF_HALVES, odd_bytes);
}

/* The same with nine of the integer pipe and fewer products: three warpgroups are faster with it
 * (measured:H200). */
static __device__ __forceinline__ void dequantize_word_by_bytes(uint32_t fp4, uint32_t even_bytes,
                                                                uint32_t odd_bytes, uint32_t (&pairs)[4]) {
    uint32_t odd = (fp4 & FP4_SIGNS) | ((fp4 >> 3) & FP4_MAGNITUDES);
    uint32_t even = ((fp4 << 4) & FP4_SIGNS) | ((fp4 << 1) & FP4_MAGNITUDES);
    pairs[0] = mul_f16x2(prmt(even, 0, BYTES_0_AND_2), even_bytes);
    pairs[1] = mul_f16x2(prmt(odd, 0, BYTES_0_AND_2), even_bytes);
    pairs[2] = mul_f16x2(even & HIGH_BYTES, odd_bytes);
    pairs[3] = mul_f16x2(odd & HIGH_BYTES, odd_bytes);
}

static __device__ __forceinline__ uint32_t word_of(uint4 words, int index) {
    return index == 0 ? words.x : index == 1 ? words.y : index == 2 ? words.z : words.w;
}

/* The low (0) or high (1) fp4 of two bytes, which stand at 1 and 3. */
static __device__ __forceinline__ uint32_t dequantize_pair(uint32_t bytes, uint32_t scale, int nibble) {
    uint32_t fp4 = nibble == 0 ? bytes << 4 : bytes;
    return mul_f16x2((fp4 & (FP4_SIGNS & HIGH_BYTES)) | ((fp4 >> 3) & (FP4_MAGNITUDES & HIGH_BYTES)), scale);
}

/* Two e4m3 scale factors -> both times 2^7, a half each. */
static __device__ __forceinline__ uint32_t scale_halves(uint16_t pair) {
    return mul_f16x2(cvt_rn_f16x2_e4m3x2(pair & SCALE_MAGNITUDES), HALF2_2_TO_7);
}

/* The same, each in both halves of a word. */
static __device__ __forceinline__ void widen_scales(uint16_t pair, uint32_t (&scales)[2]) {
    uint32_t halves = scale_halves(pair);
    scales[0] = prmt(halves, 0, 0x1010);
    scales[1] = prmt(halves, 0, 0x3232);
}

} // namespace hopper

#endif
