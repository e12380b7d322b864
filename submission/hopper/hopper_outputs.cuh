/* Outputs on their way from accumulators to rows of C: SiLU, product, staging in shared memory, stores. */
#ifndef HOPPER_OUTPUTS_CUH
#define HOPPER_OUTPUTS_CUH

#include "../gpu/device/silu.cuh"
#include "hopper_dequantize.cuh"
#include "hopper_tile.cuh"

namespace hopper {

#define VECTOR_OUTPUTS 8 /* of a 16-byte store */
#define STORE_BARRIER  2 /* the first of one named barrier a warpgroup, after CONSUMER_BARRIER */

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

/* ---- stores ---- */

/* VECTOR_OUTPUTS outputs of a row, of which the first is in column `column` of n: 16 bytes at once if rows of C
 * are aligned to that, else one by one those that exist.  repeated: a kernel has this code many times, so it is
 * short.  HW: without that ptxas' main loop of m128n64 has an instruction less. */
template <bool repeated>
static __device__ __forceinline__ void store_vector(uint16_t *to, const unsigned char *from, int32_t column,
                                                    int32_t n) {
    if (n % VECTOR_OUTPUTS == 0) {
        *(uint4 *)to = *(const uint4 *)from;
    } else if constexpr (repeated) {
#pragma unroll 1
        for (int i = 0; i < VECTOR_OUTPUTS && column + i < n; i++) {
            to[i] = ((const uint16_t *)from)[i];
        }
    } else {
        for (int i = 0; i < VECTOR_OUTPUTS && column + i < n; i++) {
            to[i] = ((const uint16_t *)from)[i];
        }
    }
}

/* Two outputs of a column, in row `row` of m and the next one; `to`: the first's place. */
static __device__ __forceinline__ void store_two_rows(uint16_t *to, uint32_t outputs, int32_t row, int32_t m,
                                                      int32_t column, int32_t n) {
    if (column < n && row < m) {
        to[0] = (uint16_t)outputs;
    }
    if (column < n && row + 1 < m) {
        to[n] = (uint16_t)(outputs >> 16);
    }
}

/* ---- a tile at once ---- */

/* Accumulators -> fp16 outputs in shared memory, [row of A][column of C], over stages that are free.
 * two(block, eight, part): the outputs of block `block`'s accumulators 4 * eight to 4 * eight + 3 in one of the
 * parts of tile_n columns that the tile has. */
template <class T, class Two>
static __device__ __forceinline__ void stage_output(uint32_t output, int warpgroup, Two two) {
    const int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int i = 0; i < T::m_blocks * (T::columns / T::tile_n); i++) {
        const int block = i % T::m_blocks, part = i / T::m_blocks;
        const int column =
            part * T::tile_n + (warpgroup * T::m_blocks + block) * WGMMA_M_BLOCK_B_ROWS + warp * 8;
#pragma unroll
        for (int row = 0; row < T::output_m; row += WARP_THREADS) {
            uint32_t packed[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                packed[j] = row + j * 8 < T::output_m ? two(block, row / 8 + j, part) : 0;
            }
            stmatrix_x4_trans(output + (row + lane) * T::output_row_bytes + column * FP16_BYTES, packed);
        }
    }
}

/* Shared memory -> C, by all finishers. */
template <class T>
static __device__ __forceinline__ void store_output(const unsigned char *output, const struct tile_coord &coord,
                                                    const struct hopper_dual_gemm_params &p) {
    int32_t tile_row = coord.m + coord.rank * T::output_m;
    constexpr int vectors = T::columns / VECTOR_OUTPUTS, threads = T::finishers;
    int thread = threadIdx.x - WARPGROUP_THREADS;
    for (int i = thread; i < T::output_m * vectors; i += threads) {
        int row = i / vectors, column = i % vectors * VECTOR_OUTPUTS;
        if (tile_row + row < coord.first_row || tile_row + row >= p.m || coord.n + column >= p.n) {
            continue;
        }
        int64_t row_of_c = (int64_t)coord.batch * p.m + tile_row + row;
        store_vector<false>(p.c + row_of_c * p.n + coord.n + column,
                            output + row * T::output_row_bytes + column * FP16_BYTES, coord.n + column, p.n);
    }
}

/* ---- strip by strip ---- */

/* Where a warpgroup stores the outputs of its 32 columns, OUTPUT_STRIP_ROWS rows of C at a time: they pass
 * through shared memory that belongs to the warpgroup, so that only its threads wait for each other. */
struct strip_place {
    unsigned char *strip; /* shared memory */
    int barrier;
    int32_t row, first_row; /* of the tile; rows before first_row belong to another */
    int32_t column;
};

static __device__ __forceinline__ bool has_row(const struct strip_place &place, int32_t row, int32_t m) {
    return row >= place.first_row && row < m;
}

/* Two outputs of each eight rows from `first` of the tile on -> C.  stmatrix transposes them into the strip,
 * where each warp fills 16 bytes of a row; from there each thread stores 16 bytes.  The 16 bytes of a row are
 * swizzled, because two rows fill all banks and eight rows are written at once.  batch_row: the batch's first
 * row in C. */
static __device__ __forceinline__ void store_strip(const struct strip_place &place, int32_t first,
                                                   const uint32_t (&packed)[4], uint16_t *c, int64_t batch_row,
                                                   int32_t m, int32_t n) {
    constexpr int units = OUTPUT_STRIP_BYTES / (int)sizeof(uint4);
    const int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    const int thread = threadIdx.x % WARPGROUP_THREADS, row = thread / units, unit = thread % units;
    bar_sync(place.barrier, WARPGROUP_THREADS); /* the previous strip has been read */
    stmatrix_x4_trans(cvta_to_shared(place.strip) + lane * OUTPUT_STRIP_BYTES +
                          (warp ^ lane / 2 % units) * (int)sizeof(uint4),
                      packed);
    bar_sync(place.barrier, WARPGROUP_THREADS);
    const int32_t row_of_c = place.row + first + row, column = place.column + unit * VECTOR_OUTPUTS;
    if (has_row(place, row_of_c, m) && column < n) {
        store_vector<true>(
            c + (batch_row + row_of_c) * n + column,
            place.strip + row * OUTPUT_STRIP_BYTES + (unit ^ row / 2 % units) * (int)sizeof(uint4), column, n);
    }
}

} // namespace hopper

#endif
