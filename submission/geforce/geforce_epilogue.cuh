/* The epilogue, from accumulators to rows of C: SiLU, product, stores. */
#ifndef GEFORCE_EPILOGUE_CUH
#define GEFORCE_EPILOGUE_CUH

#include "../gpu/device/silu.cuh"
#include "../gpu/instructions/sm120.cuh"
#include "geforce_tile.cuh"

namespace geforce {

#define QUAD         4 /* lanes that hold the eight columns of a block's row, two each */
#define ROW_PARTS    2 /* rows of a block in lane t: two columns each of row t / 4 and row t / 4 + 8 */
#define PART_COLUMNS MMA_N

/* fp32 silu(gate) * up of two columns, as halves. */
static __device__ __forceinline__ uint32_t silu_times_up(const float *gate, const float *up) {
    float numerator[2], denominator[2], output[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        silu_fraction(gate[i], numerator[i], denominator[i]);
        numerator[i] *= up[i];
    }
    divide_two(numerator, denominator, output);
    return cvt_rn_f16x2_f32(output[0], output[1]);
}

/* In each four lanes, words[i] of lane q goes to words[q] of lane i. */
static __device__ __forceinline__ void transpose_quad(uint32_t (&words)[QUAD]) {
#pragma unroll
    for (int bit = 1; bit < QUAD; bit *= 2) {
        const bool upper = (threadIdx.x & bit) != 0;
#pragma unroll
        for (int i = 0; i < QUAD; i++) {
            if ((i & bit) == 0) {
                const uint32_t received = shfl_sync_bfly(upper ? words[i] : words[i | bit], bit);
                words[i] = upper ? received : words[i];
                words[i | bit] = upper ? words[i | bit] : received;
            }
        }
    }
}

/* Stores eight columns of a row of C: 16 bytes at once if rows are aligned to that, else one by one those that
 * exist. */
template <class G>
static __device__ __forceinline__ void store_part(const G &p, const struct tile_coord &coord, int32_t row,
                                                  int32_t column, const uint32_t (&words)[QUAD]) {
    if (row >= p.m || column >= p.n) {
        return;
    }
    uint16_t *to = p.c + ((int64_t)coord.batch * p.m + row) * p.n + column;
    if (p.n % PART_COLUMNS == 0) {
        *(uint4 *)to = make_uint4(words[0], words[1], words[2], words[3]);
        return;
    }
#pragma unroll
    for (int i = 0; i < PART_COLUMNS; i++) {
        if (column + i < p.n) {
            to[i] = (uint16_t)(words[i / 2] >> i % 2 * 16);
        }
    }
}

/* Stores a warp's part of tile_n columns of C, from column `first_of_tile` on.  word(m, n, i) returns two
 * outputs of block (m, n), from accumulators i and i + 1.  A lane has two columns of a row of each block; each
 * quad transposes four parts at a time, of a row and eight columns each, so that every lane has one whole part,
 * and stores it. */
template <class T, class G, class Word>
static __device__ __forceinline__ void store_columns(const struct tile_coord &coord, int32_t first_of_tile,
                                                     const G &p, Word word) {
    constexpr int parts = T::m_blocks * ROW_PARTS * T::n_blocks;
    static_assert(parts % QUAD == 0, "the lanes of a quad share the parts evenly");
    const int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    const int32_t first_row = coord.m + warp % T::warps_m * T::warp_m + lane / QUAD;
    const int32_t first_column = first_of_tile + warp / T::warps_m * T::warp_n;
#pragma unroll
    for (int first = 0; first < parts; first += QUAD) {
        uint32_t words[QUAD];
#pragma unroll
        for (int i = 0; i < QUAD; i++) {
            const int n = (first + i) % T::n_blocks, row = (first + i) / T::n_blocks;
            const int m = row / ROW_PARTS, half = row % ROW_PARTS;
            words[i] = word(m, n, 2 * half);
        }
        transpose_quad(words);
        const int own = first + lane % QUAD;
        store_part(p, coord, first_row + own / T::n_blocks * (MMA_M / ROW_PARTS),
                   first_column + own % T::n_blocks * MMA_N, words);
    }
}

/* MMA warp: silu(gate) * up, one tile of columns. */
struct dual_epilogue {
    template <class T, class G>
    static __device__ __forceinline__ void run(const float (&gate)[T::m_blocks][T::n_blocks][4],
                                               const float (&up)[T::m_blocks][T::n_blocks][4],
                                               const struct tile_coord &coord, const G &p) {
        store_columns<T>(coord, coord.n, p, [&](int m, int n, int first) {
            return silu_times_up(&gate[m][n][first], &up[m][n][first]);
        });
    }
};

} // namespace geforce

#endif
