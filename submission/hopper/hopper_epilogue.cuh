/* The epilogue, from accumulators to rows of C: SiLU, product, staging in shared memory, stores. */
#ifndef HOPPER_EPILOGUE_CUH
#define HOPPER_EPILOGUE_CUH

#include "../gpu/device/silu.cuh"
#include "hopper_dequantize.cuh"
#include "hopper_tile.cuh"

namespace hopper {

#define VECTOR_HALVES 8 /* outputs of a 16-byte store */

/* fp16(silu(gate) * up) of two outputs, from accumulators [gate, gate, up, up] that still carry 2^-28. */
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

/* Accumulators -> fp16 outputs in shared memory, [row of A][row of B], over stages that are free. */
template <class T>
static __device__ __forceinline__ void stage_output(float (&acc)[T::m_blocks][T::accs], uint32_t output,
                                                    int warpgroup) {
    int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int block = 0; block < T::m_blocks; block++) {
        int column = (warpgroup * T::m_blocks + block) * WGMMA_M_BLOCK_B_ROWS + warp * 8;
#pragma unroll
        for (int row = 0; row < T::output_m; row += WARP_THREADS) {
            uint32_t halves[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                halves[i] = row + i * 8 < T::output_m ? silu_times_up(&acc[block][(row / 8 + i) * 4]) : 0;
            }
            stmatrix_x4_trans(output + (row + lane) * T::output_row_bytes + column * FP16_BYTES, halves);
        }
    }
}

/* Shared memory -> C, by all finishers: 16 bytes at a time if rows of C are aligned to that. */
template <class T>
static __device__ __forceinline__ void store_output(const unsigned char *output, const struct tile_coord &coord,
                                                    const struct hopper_dual_gemm_params &p) {
    int32_t tile_row = coord.m + coord.rank * T::output_m;
    constexpr int vectors = T::columns / VECTOR_HALVES, threads = T::finishers;
    int thread = threadIdx.x - WARPGROUP_THREADS;
    for (int i = thread; i < T::output_m * vectors; i += threads) {
        int row = i / vectors, column = i % vectors * VECTOR_HALVES;
        if (tile_row + row < coord.first_row || tile_row + row >= p.m || coord.n + column >= p.n) {
            continue;
        }
        const unsigned char *from = output + row * T::output_row_bytes + column * FP16_BYTES;
        int64_t row_of_c = (int64_t)coord.batch * p.m + tile_row + row;
        uint16_t *to = p.c + row_of_c * p.n + coord.n + column;
        if (p.n % VECTOR_HALVES == 0) {
            *(uint4 *)to = *(const uint4 *)from;
        } else {
            for (int half = 0; half < VECTOR_HALVES && coord.n + column + half < p.n; half++) {
                to[half] = ((const uint16_t *)from)[half];
            }
        }
    }
}

} // namespace hopper

#endif
