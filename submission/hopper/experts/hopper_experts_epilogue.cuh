/* The outputs of experts, and the tiles with few rows: all consumers stage 32 rows of A at a time. */
#ifndef HOPPER_EXPERTS_EPILOGUE_CUH
#define HOPPER_EXPERTS_EPILOGUE_CUH

#include "../extended/hopper_extended_outputs.cuh"
#include "hopper_experts_load.cuh"

namespace hopper {

/* The expert's global scales. */
struct expert_scalars {
    float gate, up, c;
};

static __device__ __forceinline__ struct expert_scalars scalars_of_expert(const struct extended_params &p,
                                                                          int32_t expert) {
    return {number_or_one(p.scale_gate, expert), number_or_one(p.scale_up, expert),
            number_or_one(p.scale_c, expert)};
}

/* A warp's first column in a tile. */
template <class T> static __device__ __forceinline__ int strip_column(int part, int warpgroup) {
    return part * T::tile_n + warpgroup * WGMMA_M_BLOCK_B_ROWS + threadIdx.x / WARP_THREADS % 4 * 8;
}

/* Accumulators of up to 32 rows of A from `first` on -> outputs in shared memory. */
template <class T, bool plain, bool fp32>
static __device__ __forceinline__ void
stage_strip(const float (&acc)[T::m_blocks][T::accs], int first, uint32_t output, int warpgroup,
            const struct experts_coord &coord, const struct extended_params &p,
            const struct expert_scalars &scalars, const struct column_bias (&bias)[plain ? 2 : 1],
            float correction) {
    constexpr int row_bytes = fp32 ? EXPERTS_WIDE_ROW_BYTES : EXPERTS_SHORT_ROW_BYTES;
    const int lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int part = 0; part < (plain ? 2 : 1); part++) {
        const int column = strip_column<T>(part, warpgroup);
        constexpr int most = T::tile_m / 8;
        uint32_t packed[4] = {0, 0, 0, 0};
        struct row_factors factors[4][2];
        float two[8];
        find_lane_factors(factors, p, scalars.gate, scalars.up, coord.m + first);
        finish_pairs<plain ? PLAIN : GATED, 4>(two, &acc[0][first / 8 * 4], part, factors, bias[part], p,
                                               correction, min(4, most - first / 8));
#pragma unroll
        for (int i = 0; i < 4 && first + i * 8 < T::tile_m; i++) {
            if constexpr (fp32) {
                const uint32_t to =
                    output + (i * 8 + lane % 4 * 2) * row_bytes + (column + lane / 4) * (int)sizeof(float);
                st_shared_f32(to, two[2 * i]);
                st_shared_f32(to + row_bytes, two[2 * i + 1]);
            } else {
                packed[i] = two_halves(p, two[2 * i], two[2 * i + 1]);
            }
        }
        if constexpr (!fp32) {
            stmatrix_x4_trans(output + lane * row_bytes + column * FP16_BYTES, packed);
        }
    }
}

/* Outputs of `rows` rows in shared memory -> C; or, in NVFP4, codes and scale factors, a thread a group.  The
 * work is shared by `threads` threads, of which this is number `thread`. */
template <int columns, int threads, bool nvfp4>
static __device__ __forceinline__ void copy_strip(const unsigned char *output, int row_bytes, int thread,
                                                  int32_t first_row, int32_t rows, int32_t first_column,
                                                  float scale_c, const struct extended_params &p) {
    constexpr int unit = nvfp4 ? NVFP4_GROUP_ELEMS : VECTOR_OUTPUTS, units = columns / unit;
#pragma unroll
    for (int first = 0; first < EXPERTS_STRIP_ROWS * units; first += threads) {
        const int row = (first + thread) / units, column = (first + thread) % units * unit;
        const int32_t row_of_c = first_row + row, column_of_c = first_column + column;
        if (row >= rows || column_of_c >= p.n) {
            continue;
        }
        const unsigned char *from =
            output + row * row_bytes + column * (nvfp4 ? (int)sizeof(float) : FP16_BYTES);
        if constexpr (nvfp4) {
            quantize_row(p, row_of_c, column_of_c, scale_c, from);
        } else {
            store_vector<true>((uint16_t *)p.c + (int64_t)row_of_c * p.n + column_of_c, from, column_of_c, p.n);
        }
    }
}

/* A tile's outputs, 32 rows of A at a time. */
template <class T, bool plain, bool nvfp4>
static __device__ __forceinline__ void
finish_tile(const float (&acc)[T::m_blocks][T::accs], unsigned char *output, int warpgroup,
            const struct experts_coord &coord, const struct extended_params &p, float correction) {
    const struct expert_scalars scalars = scalars_of_expert(p, coord.expert);
    struct column_bias bias[plain ? 2 : 1];
#pragma unroll
    for (int part = 0; part < (plain ? 2 : 1); part++) {
        const int column = strip_column<T>(part, warpgroup) + threadIdx.x % WARP_THREADS / 4;
        bias[part] = find_bias(p, coord.column + column, coord.expert);
    }
#pragma unroll
    for (int first = 0; first < T::tile_m; first += EXPERTS_STRIP_ROWS) {
        const int32_t rows = min(min(EXPERTS_STRIP_ROWS, T::tile_m - first), coord.row_end - coord.m - first);
        if (rows > 0) {                               /* the same in all consumers */
            bar_sync(CONSUMER_BARRIER, T::consumers); /* the strip before has been read */
            stage_strip<T, plain, nvfp4>(acc, first, cvta_to_shared(output), warpgroup, coord, p, scalars, bias,
                                         correction);
            bar_sync(CONSUMER_BARRIER, T::consumers);
            copy_strip<plain ? 2 * T::tile_n : T::tile_n, T::consumers, nvfp4>(
                output, nvfp4 ? EXPERTS_WIDE_ROW_BYTES : EXPERTS_SHORT_ROW_BYTES,
                threadIdx.x - WARPGROUP_THREADS, coord.m + first, rows, coord.column, scalars.c, p);
        }
    }
}

} // namespace hopper

#endif
