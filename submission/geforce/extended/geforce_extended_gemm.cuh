/* The extended GEMM for sm_120a and sm_121a (custom_kernel.h, custom_kernel_extended()): the dual GEMM's kernel
 * with another epilogue.
 *
 * Read geforce_dual_gemm.cuh and geforce_grouped_gemm.cuh first.  If gate and up are two tensors, their
 * products are the dual GEMM's.  If their rows alternate in one tensor, or the product is plain, the kernel
 * computes one product of all rows, as the grouped GEMM does.  A lane then holds gate and up of the same output
 * if they alternate by a block of eight rows, which are neighbours, or by half a tile, which are the two sets
 * of accumulators. */
#ifndef GEFORCE_EXTENDED_GEMM_CUH
#define GEFORCE_EXTENDED_GEMM_CUH

#include "../geforce_tile.cuh"
#include "geforce_extended_kernels.h"

namespace geforce {

/* The parameters' part that the pipeline reads; declared before the pipeline, which looks them up. */
static __device__ __forceinline__ const struct geforce_extended_params &
gemm_of(const struct geforce_extended_params &p, int32_t) {
    return p;
}

static __device__ __forceinline__ const CUtensorMap *second_b(const struct geforce_extended_params &p) {
    return &p.b2;
}

template <class T>
static __device__ __forceinline__ struct tile_coord find_tile(const struct geforce_extended_params &p,
                                                              int32_t index) {
    const int32_t column = index / p.tiles_m;
    return {(index - column * p.tiles_m) * T::tile_m, column * T::columns, 0};
}

} // namespace geforce

#include "../../gpu/gpu_extended.cuh"
#include "../geforce_dual_gemm.cuh"
#include "../grouped/geforce_grouped_gemm.cuh"

namespace geforce {

#define GROUP_BLOCKS (NVFP4_GROUP_ELEMS / MMA_N) /* blocks of eight columns in a group of NVFP4 output */

/* The parameters that store_part reads. */
struct output_rows {
    uint16_t *c;
    int32_t m, n;
};

/* Where a lane's first output is. */
struct output_place {
    int32_t row, column;
};

/* Stores `blocks` blocks of eight columns as fp16 or bf16; value(m, n, i) is output i of a lane's four in block
 * (m, n). Each quad transposes four parts at a time, as store_columns() does. */
template <class T, int blocks, class Value>
static __device__ __forceinline__ void store_halves(const struct extended_params &p, struct output_place place,
                                                    Value value) {
    constexpr int parts = T::m_blocks * ROW_PARTS * blocks;
    static_assert(parts % QUAD == 0, "the lanes of a quad share the parts evenly");
    const struct output_rows rows = {(uint16_t *)p.c, p.m, p.n};
#pragma unroll
    for (int first = 0; first < parts; first += QUAD) {
        uint32_t words[QUAD];
#pragma unroll
        for (int i = 0; i < QUAD; i++) {
            const int n = (first + i) % blocks, row = (first + i) / blocks;
            const int m = row / ROW_PARTS, half = row % ROW_PARTS;
            words[i] = two_halves(p, value(m, n, 2 * half), value(m, n, 2 * half + 1));
        }
        transpose_quad(words);
        const int own = first + threadIdx.x % QUAD;
        store_part(rows, tile_coord{0, 0, 0}, place.row + own / blocks * (MMA_M / ROW_PARTS),
                   place.column + own % blocks * MMA_N, words);
    }
}

static __device__ __forceinline__ float largest_in_quad(float largest) {
#pragma unroll
    for (int bit = 1; bit < QUAD; bit *= 2) {
        largest = max_nan_f32(largest, __uint_as_float(shfl_sync_bfly(__float_as_uint(largest), bit)));
    }
    return largest;
}

/* The bytes of a quad's lanes as a word, lane 0's lowest. */
static __device__ __forceinline__ uint32_t word_of_quad(uint32_t byte) {
    uint32_t word = byte << threadIdx.x % QUAD * 8;
#pragma unroll
    for (int bit = 1; bit < QUAD; bit *= 2) {
        word |= shfl_sync_bfly(word, bit);
    }
    return word;
}

/* Stores `blocks` blocks of eight columns as NVFP4.  A quad holds a row's group, two columns of each block a
 * lane. */
template <class T, int blocks, class Value>
static __device__ __forceinline__ void store_nvfp4(const struct extended_params &p, struct output_place place,
                                                   Value value) {
    static_assert(blocks % GROUP_BLOCKS == 0, "a warp's columns are whole groups");
    const float scale_c = quantization_scale(number_or_one(p.scale_c));
#pragma unroll
    for (int i = 0; i < T::m_blocks * ROW_PARTS * blocks; i += GROUP_BLOCKS) {
        const int n = i % blocks, m = i / blocks / ROW_PARTS, half = i / blocks % ROW_PARTS;
        float values[2 * QUAD] = {value(m, n, 2 * half), value(m, n, 2 * half + 1), value(m, n + 1, 2 * half),
                                  value(m, n + 1, 2 * half + 1)};
        float largest = 0.0f;
#pragma unroll
        for (int j = 0; j < QUAD; j++) {
            largest = max_nan_f32(largest, fabsf(values[j]));
        }
        const struct group_scale scale = scale_of_group(largest_in_quad(largest), scale_c);
#pragma unroll
        for (int j = 0; j < QUAD; j++) {
            values[j] = __fmul_rn(values[j], scale.factor);
        }
        const uint32_t codes = e2m1_word(values); /* a byte of each block, then zeros */
        const struct nvfp4_group group = {{word_of_quad(codes & 0xff), word_of_quad(codes >> 8 & 0xff)},
                                          scale.byte};
        const int32_t row = place.row + (m * ROW_PARTS + half) * (MMA_M / ROW_PARTS),
                      column = place.column + n * MMA_N;
        if (threadIdx.x % QUAD == 0 && row < p.m && column < p.n) {
            store_group(p, row, column, group);
        }
    }
}

template <class T, int blocks, class Value>
static __device__ __forceinline__ void store_outputs(const struct extended_params &p, struct output_place place,
                                                     Value value) {
    if (p.output != CUSTOM_KERNEL_NVFP4) {
        store_halves<T, blocks>(p, place, value);
    } else if constexpr (blocks % GROUP_BLOCKS == 0) {
        store_nvfp4<T, blocks>(p, place, value);
    }
}

/* The factors of a lane's rows. */
template <class T> struct lane_factors {
    struct row_factors of[T::m_blocks][ROW_PARTS];
};

template <class T>
static __device__ __forceinline__ struct lane_factors<T> find_lane_factors(const struct extended_params &p,
                                                                           int32_t first_row) {
    const float scale_gate = number_or_one(p.scale_gate), scale_up = number_or_one(p.scale_up);
    struct lane_factors<T> factors;
#pragma unroll
    for (int i = 0; i < T::m_blocks * ROW_PARTS; i++) {
        factors.of[i / ROW_PARTS][i % ROW_PARTS] =
            find_factors(p, scale_gate, scale_up, first_row + i * (MMA_M / ROW_PARTS));
    }
    return factors;
}

/* What a lane's blocks of eight rows of B are: gate's, up's, or in turn a block of gate and one of up. */
enum block_kind { GATE_BLOCKS, UP_BLOCKS, BLOCKS_IN_TURN };

/* Scales a lane's accumulators, whose first column of C is `column`, and adds the biases, in place. */
template <class T, block_kind kind>
static __device__ __forceinline__ void scale_blocks(float (&acc)[T::m_blocks][T::n_blocks][4],
                                                    const struct lane_factors<T> &factors, int32_t column,
                                                    const struct extended_params &p) {
#pragma unroll
    for (int n = 0; n < T::n_blocks; n++) {
        const bool up = kind == UP_BLOCKS || (kind == BLOCKS_IN_TURN && n % 2 != 0);
        const float *bias = up ? p.bias_up : p.bias_gate;
        const int32_t at = column + (kind == BLOCKS_IN_TURN ? n / 2 : n) * MMA_N + threadIdx.x % QUAD * 2;
        const float biases[2] = {bias_or_none(bias, at, at < p.n), bias_or_none(bias, at + 1, at + 1 < p.n)};
#pragma unroll
        for (int i = 0; i < T::m_blocks * 4; i++) {
            const struct row_factors &of_row = factors.of[i / 4][i % 4 / ROW_PARTS];
            float &value = acc[i / 4][n][i % 4];
            value = scaled(value, up ? of_row.up : of_row.gate, biases[i % 2]);
        }
    }
}

/* Stores columns of a plain product, from `place` on. */
template <class T>
static __device__ __forceinline__ void
finish_plain(float (&acc)[T::m_blocks][T::n_blocks][4], const struct lane_factors<T> &factors,
             struct output_place place, const struct extended_params &p) {
    scale_blocks<T, GATE_BLOCKS>(acc, factors, place.column, p);
    if (p.activation.function != CUSTOM_KERNEL_ACTIVATION_DEFAULT) {
#pragma unroll
        for (int i = 0; i < T::m_blocks * T::n_blocks; i++) {
            activate_plain(p.activation, acc[i / T::n_blocks][i % T::n_blocks]);
        }
    }
    store_outputs<T, T::n_blocks>(p, place, [&](int m, int n, int i) { return acc[m][n][i]; });
}

/* The same of gate and up that are neighbouring blocks. */
template <class T>
static __device__ __forceinline__ void
finish_in_turn(float (&acc)[T::m_blocks][T::n_blocks][4], const struct lane_factors<T> &factors,
               struct output_place place, const struct extended_params &p) {
    scale_blocks<T, BLOCKS_IN_TURN>(acc, factors, place.column, p);
    store_outputs<T, T::n_blocks / 2>(p, place, [&](int m, int n, int i) {
        return activate_gated(p.activation, acc[m][2 * n][i], acc[m][2 * n + 1][i]);
    });
}

/* MMA warp; waits for the kernels before, which may have made the scales.  P has an epilogue's parameters and
 * the interleaving. */
struct extended_epilogue {
    template <class T, class P>
    static __device__ __forceinline__ void run(float (&first)[T::m_blocks][T::n_blocks][4],
                                               float (&second)[T::m_blocks][T::n_blocks][4],
                                               const struct tile_coord &coord, const P &p) {
        const struct extended_params &e = p.epilogue;
        const int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
        const int32_t row = coord.m + warp % T::warps_m * T::warp_m + lane / QUAD;
        const int32_t warp_column = warp / T::warps_m * T::warp_n;
        const bool halved = T::products == 1 && !e.plain; /* two rows of B make a column of C */
        const int32_t tile_column = halved ? coord.n / 2 : coord.n,
                      tile_columns = halved ? T::tile_n : T::columns;
        griddepcontrol_wait();
        const struct lane_factors<T> factors = find_lane_factors<T>(e, row);
        if (e.plain) {
            if constexpr (T::products == 1) {
                finish_plain<T>(first, factors, {row, tile_column + warp_column}, e);
                finish_plain<T>(second, factors, {row, tile_column + warp_column + T::second_column}, e);
            }
        } else if (T::products == 2 || p.interleave == T::tile_n) {
            scale_blocks<T, GATE_BLOCKS>(first, factors, tile_column + warp_column, e);
            scale_blocks<T, UP_BLOCKS>(second, factors, tile_column + warp_column, e);
            store_outputs<T, T::n_blocks>(e, {row, tile_column + warp_column}, [&](int m, int n, int i) {
                return activate_gated(e.activation, first[m][n][i], second[m][n][i]);
            });
        } else if constexpr (T::products == 1 &&
                             T::m_blocks * T::n_blocks % QUAD == 0) { /* pieces of a block */
            finish_in_turn<T>(first, factors, {row, tile_column + warp_column / 2}, e);
            finish_in_turn<T>(second, factors, {row, tile_column + (warp_column + T::second_column) / 2}, e);
        }
        if (e.output == CUSTOM_KERNEL_NVFP4 && coord.m + T::tile_m >= e.m) {
            pad_scales(e, tile_column, tile_columns, threadIdx.x, T::warps * WARP_THREADS);
        }
    }
};

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    extended_gemm_kernel(const __grid_constant__ geforce_extended_params p) {
    run_tiles<T, extended_epilogue>(p);
}

} // namespace geforce

#endif
