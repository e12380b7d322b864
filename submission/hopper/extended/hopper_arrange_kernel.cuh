/* The kernel before the extended GEMM if A has 16 bits an element: A in the order of K that the dequantization
 * makes (hopper_dequantize.cuh), which pairs elements that TMA cannot bring together. */
#ifndef HOPPER_ARRANGE_KERNEL_CUH
#define HOPPER_ARRANGE_KERNEL_CUH

#include "../narrow/hopper_narrow_a.cuh"
#include "hopper_extended_kernels.h"

namespace hopper {

/* Four lanes with four words each exchange them: afterwards lane i has word i of each. */
static __device__ __forceinline__ void transpose_words(uint32_t (&words)[4], int lane) {
#pragma unroll
    for (int apart = 1; apart <= 2; apart *= 2) {
        const bool upper = (lane & apart) != 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if ((i & apart) == 0) {
                const uint32_t other = __shfl_xor_sync(~0u, upper ? words[i] : words[i + apart], apart);
                words[i] = upper ? other : words[i];
                words[i + apart] = upper ? words[i + apart] : other;
            }
        }
    }
}

/* A thread's place in a row.  Four threads take a word of eight elements each, 32 apart, and write one of their
 * four pairs each, a unit: so a warp reads and writes whole lines. */
struct arrange_place {
    uint32_t index, chunk, lane;
    uint32_t source;     /* the word, in units of 16 bytes from the row's start */
    bool exists, filled; /* not filled: zeros */
};

/* CTA (x, y): part y of row x. */
static __device__ __forceinline__ struct arrange_place arrange_place_of(const struct dequantize_params &p) {
    constexpr uint32_t words = PERMUTED_ELEMS / 32; /* of a lane: eight elements each */
    const uint32_t index = blockIdx.y * blockDim.x + threadIdx.x, chunk = index / DEQUANTIZE_UNITS,
                   word = index / 4 % words, lane = index % 4;
    const bool exists = index < p.row_units;
    return {index,  chunk,
            lane,   chunk * DEQUANTIZE_UNITS + lane * words + word,
            exists, exists && (lane < 2 || chunk < p.full_chunks)};
}

static __device__ __forceinline__ const uint4 *arrange_source(const struct dequantize_params &p,
                                                              const struct arrange_place &place, int64_t row) {
    return (const uint4 *)(p.a + row * p.fp4_row_bytes * FP4_IN_16_BITS) + place.source;
}

/* Writes row blockIdx.x's part. */
static __device__ __forceinline__ void store_arranged(const struct dequantize_params &p,
                                                      const struct arrange_place &place, uint4 halves) {
    uint32_t pairs[4];
    arrange_halves(halves, pairs);
    transpose_words(pairs, (int)place.lane);
    if (place.exists) {
        ((uint4 *)p.a_fp16)[(int64_t)blockIdx.x * p.row_units + place.index] =
            make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
}

/* The rows of A in order.  Also zeroes the words that the GEMM counts in. */
static __global__ void __launch_bounds__(ARRANGE_THREADS)
    arrange_kernel(const __grid_constant__ dequantize_params p, uint32_t *words_to_zero, uint32_t count) {
    const struct arrange_place place = arrange_place_of(p);
    const uint4 *from = arrange_source(p, place, blockIdx.x);
    if (place.filled) { /* a prefetch reads nothing, so it cannot return old data */
        prefetch_global_l2(from);
    }
    griddepcontrol_wait();              /* previous kernels may write A, or use the scratch memory */
    griddepcontrol_launch_dependents(); /* the GEMM may now copy B1 and B2, but not this kernel's output */
    store_arranged(p, place, place.filled ? *from : make_uint4(0, 0, 0, 0));
    if (blockIdx.x == 0) {
        for (uint32_t i = place.index; i < count; i += gridDim.y * blockDim.x) {
            words_to_zero[i] = 0;
        }
    }
}

} // namespace hopper

#endif
