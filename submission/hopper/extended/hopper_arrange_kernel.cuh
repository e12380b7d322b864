/* The kernel before the extended GEMM if A has 16 bits an element: A in the order of K that the dequantization
 * makes (hopper_dequantize.cuh), which pairs elements that TMA cannot bring together. */
#ifndef HOPPER_ARRANGE_KERNEL_CUH
#define HOPPER_ARRANGE_KERNEL_CUH

#include "../narrow/hopper_narrow_a.cuh"
#include "hopper_extended_kernels.h"

namespace hopper {

/* CTA (x, y): part y of row x.  A thread takes a word's eight elements of each of four lanes, 32 apart, and
 * writes their four units of one pair a lane. */
static __global__ void __launch_bounds__(DEQUANTIZE_MAX_THREADS)
    arrange_kernel(const __grid_constant__ dequantize_params p) {
    constexpr uint32_t words = PERMUTED_ELEMS / 32; /* of a lane: eight elements each */
    const uint32_t index = blockIdx.y * blockDim.x + threadIdx.x, chunk = index / words, word = index % words;
    const bool exists = index * ARRANGED_UNITS < p.row_units;
    const bool full = chunk < p.full_chunks; /* else lanes 2 and 3 get zeros */
    const uint4 *from = (const uint4 *)(p.a + blockIdx.x * p.fp4_row_bytes * FP4_IN_16_BITS) +
                        chunk * (PERMUTED_ELEMS * FP16_BYTES / sizeof(uint4)) + word;
    if (exists) { /* a prefetch reads nothing, so it cannot return old data */
        prefetch_global_l2(from + (full ? word * words : 0));
    }
    griddepcontrol_wait();              /* previous kernels may write A, or use the scratch memory */
    griddepcontrol_launch_dependents(); /* the GEMM may now copy B1 and B2, but not this kernel's output */
    if (!exists) {
        return;
    }
    uint4 eight[4]; /* [lane] */
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
        eight[lane] = lane < 2 || full ? from[lane * words] : make_uint4(0, 0, 0, 0);
    }
    uint32_t pairs[4][4]; /* [lane][pair] */
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
        arrange_halves(eight[lane], pairs[lane]);
    }
    uint4 *to = (uint4 *)p.a_fp16 + (int64_t)blockIdx.x * p.row_units + index * ARRANGED_UNITS;
#pragma unroll
    for (int pair = 0; pair < ARRANGED_UNITS; pair++) {
        to[pair] = make_uint4(pairs[0][pair], pairs[1][pair], pairs[2][pair], pairs[3][pair]);
    }
}

} // namespace hopper

#endif
