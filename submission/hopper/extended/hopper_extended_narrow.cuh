/* The extended GEMM for few rows of A: the narrow tiles' kernel (hopper_narrow_dual_gemm.cuh) with other
 * operands and another epilogue, and with an A of NVFP4, fp16 or bf16.
 *
 * A block of a warp has 8 rows of gate and 8 of up; of a plain product, 16 rows of the only B.  The columns of
 * C that a warp's rows belong to are the host's choice (struct narrow_columns): their scale factors should fill
 * whole sectors, but for NVFP4 output a group of 16 columns must be in one CTA.
 *
 * The cluster's CTAs share a tile's vectors of sums in pairs, the two of a pair in one CTA: for NVFP4 output, a
 * pair holds 16 columns of 8 rows of gate and up; of a plain product, each vector does. */
#ifndef HOPPER_EXTENDED_NARROW_CUH
#define HOPPER_EXTENDED_NARROW_CUH

#include "../../gpu/instructions/registers.cuh"
#include "../narrow/hopper_narrow_dual_gemm.cuh"
#include "hopper_extended_kernels.h"
#include "hopper_extended_outputs.cuh"

namespace hopper {

/* ---- tile ---- */

template <int tile_m, int stages, int a_units_, int blocks, int team, bool shares_k, int a_type_>
struct extended_narrow_tile : narrow_tile<tile_m, stages, a_units_, blocks, team, shares_k> {
    using base = narrow_tile<tile_m, stages, a_units_, blocks, team, shares_k>;
    static constexpr int a_type = a_type_;
    static constexpr int a_units = NARROW_A_UNITS(a_type, a_units_);
    /* Here the addresses of A take so many instructions that B's first step goes before.  measured:H200: m8
     * 0.98 to 1 of the time, m32 0.94 to 1; tiles of 16 rows 0.97 to 1.05
     * (shark_tank/data/h200_narrow_trials.json). */
    static constexpr int steps_before_a = tile_m == 16 ? 0 : 1;
    static_assert(steps_before_a < base::ahead, "A is loaded");
    static constexpr int in_pair = NARROW_IN_PAIR;
    static_assert(blocks == 1 || blocks == 2, "a pair is a warp's two blocks or those of two warps");
    static_assert(blocks == 2 || team > 1, "two warps of a pair are in one CTA");

    static __device__ __forceinline__ struct narrow_place place_of(const struct hopper_narrow_layout &layout,
                                                                   int warp_n, int i) {
        int block = i / base::a_blocks, a_block = i % base::a_blocks;
        const int pair = warp_n * blocks / in_pair * base::a_blocks + a_block,
                  turn = base::by_split(layout, pair);
        return {pair - turn * base::split_of(layout),
                turn * in_pair + (blocks == in_pair ? block : warp_n % in_pair)};
    }
    static __device__ __forceinline__ int places(const struct hopper_narrow_layout &layout, int rank) {
        const int pairs = layout.warps_n * base::vectors / in_pair;
        return base::by_split(layout, pairs - rank + base::split_of(layout) - 1) * in_pair;
    }
};

/* ---- columns of C ---- */

/* The column of quad `quad` in the `sub`-th 8 rows of a warp, for warp number `unit` along N; a plain product
 * has two subs a block. */
static __device__ __forceinline__ int32_t column_of(const struct narrow_columns &columns, int32_t unit, int sub,
                                                    int quad) {
    const int32_t in_span = unit & ((1 << columns.unit_bits) - 1);
    return (unit >> columns.unit_bits) * columns.span + ((in_span * columns.subs + sub) << columns.run_bits) +
           (quad & ((1 << columns.run_bits) - 1)) + (quad >> columns.run_bits) * columns.step;
}

/* Left to itself, the compiler computes the addresses again in every step: a quarter of a step's instructions.
 */
template <class T> static __device__ __forceinline__ void keep_addresses(struct b_rows<T> &rows) {
#pragma unroll
    for (int i = 0; i < T::lane_rows; i++) {
        keep_address(rows.fp4[i / 2][i % 2]);
        keep_address(rows.scales[i / 2][i % 2]);
    }
}

/* The rows past the last one read the last one; their outputs are not stored. */
template <class T>
static __device__ __forceinline__ struct b_rows<T>
find_extended_rows(const struct hopper_extended_narrow_params &p, const struct narrow_coord &coord) {
    struct b_rows<T> rows;
    const int32_t unit = coord.tile_n * p.gemm.layout.warps_n + coord.warp_n;
#pragma unroll
    for (int i = 0; i < T::lane_rows; i++) {
        const int block = i / 2, which = i % 2;
        const int32_t column =
            min(column_of(p.columns, unit, p.epilogue.plain ? i : block, coord.quad), p.gemm.n - 1);
        const int32_t row =
            p.interleave != 0 ? column + (column & -p.interleave) + which * p.interleave : column;
        rows.fp4[block][which] = (which == 0 ? p.gemm.b1 : p.gemm.b2) + row * p.gemm.fp4_row_bytes +
                                 LANE_FP4_OFFSET(0, coord.quad_lane);
        rows.scales[block][which] = (which == 0 ? p.gemm.sfb1 : p.gemm.sfb2) + scale_row_offset(p.gemm, row);
    }
    return rows;
}

/* ---- epilogue ---- */

/* A vector that a warp finishes. */
struct narrow_vector_place {
    int32_t unit, sub; /* the warp's number along N that has its rows, and their first 8 there */
    int32_t row;       /* this lane's first row of A; it has the next one too */
};

/* Of vector number `slot` of this CTA. */
template <class T, bool plain>
static __device__ __forceinline__ struct narrow_vector_place
find_vector(const struct hopper_extended_narrow_params &p, const struct narrow_coord &coord, int slot) {
    const int pair = slot / T::in_pair * T::split_of(p.gemm.layout) + coord.rank, member = slot % T::in_pair;
    const int warps = pair / T::a_blocks * T::in_pair / T::blocks;
    return {coord.tile_n * p.gemm.layout.warps_n + warps + (T::blocks == 1 ? member : 0),
            (T::blocks == 1 ? 0 : member) * (plain ? 2 : 1),
            coord.m + pair % T::a_blocks * NARROW_A_ROWS + coord.quad_lane * 2};
}

/* The factors of the lane's two rows. */
struct narrow_factors {
    struct row_factors of[2];
};

static __device__ __forceinline__ struct narrow_factors
find_two_factors(const struct hopper_extended_narrow_params &p, int32_t row) {
    const float scale_gate = number_or_one(p.epilogue.scale_gate),
                scale_up = number_or_one(p.epilogue.scale_up);
    return {{find_factors(p.epilogue, scale_gate, scale_up, row),
             find_factors(p.epilogue, scale_gate, scale_up, row + 1)}};
}

#define GROUP_ROW_BYTES (NVFP4_GROUP_ELEMS * 4) /* a group of fp32 outputs in shared memory */

/* Eight rows of a group in shared memory -> codes and scale factors, by eight lanes. */
static __device__ __forceinline__ void store_groups(const struct extended_params &p, uint32_t from, int32_t row,
                                                    int32_t column, float scale_c) {
    if (row < p.m && column < p.n) {
        quantize_outputs(p, row, column, scale_c, [&](int i) { return ld_shared_floats(from + i * 16); });
    }
}

/* Stores a vector's fp32 outputs for store_groups: in a plain product's place two halves of a group's columns,
 * else one that `half` names. */
template <bool plain>
static __device__ __forceinline__ void stage_vector(const struct hopper_extended_narrow_params &p,
                                                    const struct narrow_coord &coord, const float (&sum)[4],
                                                    int half, int32_t first_column,
                                                    const struct narrow_factors &factors, uint32_t place) {
#pragma unroll
    for (int i = 0; i < (plain ? 2 : 1); i++) {
        const int column = (half + i) * 8 + coord.quad;
        float outputs[2];
        finish_pairs<plain ? PLAIN : GATED, 1>(outputs, sum, i, &factors.of,
                                               find_bias(p.epilogue, first_column + column), p.epilogue,
                                               p.correction);
        const uint32_t to = place + coord.quad_lane * 2 * GROUP_ROW_BYTES + column * 4;
        st_shared_f32(to, outputs[0]);
        st_shared_f32(to + GROUP_ROW_BYTES, outputs[1]);
    }
}

/* What the warps finish at a time, in turn: a vector; or, if gate and up become NVFP4, a pair, which has whole
 * groups. For NVFP4 output, fp32 outputs pass through the place of the first one's partial sums: 512 bytes hold
 * a group of 16 columns of 8 rows. */
template <class T, bool plain, bool nvfp4>
static __device__ __forceinline__ void
finish_vectors(uint32_t shared, const struct hopper_extended_narrow_params &p, const struct narrow_coord &coord,
               struct narrow_factors factors) {
    constexpr int at_once = nvfp4 && !plain ? T::in_pair : 1;
    const int sources = T::split_of(p.gemm.layout) * p.gemm.layout.warps_k;
    const int place_bytes = sources * NARROW_VECTOR_BYTES;
    const int count = T::places(p.gemm.layout, coord.rank);
    for (int slot = coord.warp * at_once; slot < count; slot += coord.warps * at_once) {
        const uint32_t place = shared + p.gemm.layout.sums_offset + slot * place_bytes;
        const struct narrow_vector_place vector = find_vector<T, plain>(p, coord, slot);
        float sum[at_once][4];
#pragma unroll
        for (int i = 0; i < at_once; i++) {
            add_up(sum[i], place + i * place_bytes + coord.lane * 16, sources);
        }
        if (slot >= coord.warps * at_once) {
            factors = find_two_factors(p, vector.row);
        }
        if constexpr (nvfp4) {
            const int32_t column = column_of(p.columns, vector.unit, vector.sub, 0);
            __syncwarp(); /* all partial sums have been read */
#pragma unroll
            for (int i = 0; i < at_once; i++) {
                stage_vector<plain>(p, coord, sum[i], i, column, factors, place);
            }
            __syncwarp();
            if (coord.lane < NARROW_A_ROWS) {
                store_groups(p.epilogue, place + coord.lane * GROUP_ROW_BYTES,
                             vector.row - coord.quad_lane * 2 + coord.lane, column,
                             number_or_one(p.epilogue.scale_c));
            }
        } else {
#pragma unroll
            for (int part = 0; part < (plain ? 2 : 1); part++) {
                const struct extended_params &e = p.epilogue;
                const int32_t column = column_of(p.columns, vector.unit, vector.sub + part, coord.quad);
                float two[2];
                finish_pairs<plain ? PLAIN : GATED, 1>(two, sum[0], part, &factors.of, find_bias(e, column), e,
                                                       p.correction);
                store_two_rows((uint16_t *)e.c + (int64_t)vector.row * e.n + column,
                               two_halves(e, two[0], two[1]), vector.row, e.m, column, e.n);
            }
        }
    }
}

/* The row of A whose factors a warp needs first. */
template <class T>
static __device__ __forceinline__ int32_t first_row_of(const struct hopper_extended_narrow_params &p,
                                                       const struct narrow_coord &coord) {
    const bool pairs = p.epilogue.output == CUSTOM_KERNEL_NVFP4 && !p.epilogue.plain;
    return find_vector<T, false>(p, coord, coord.warp * (pairs ? T::in_pair : 1)).row;
}

/* Asks for the biases that a warp needs first. */
template <class T>
static __device__ __forceinline__ void ask_for_biases(const struct hopper_extended_narrow_params &p,
                                                      const struct narrow_coord &coord) {
    const struct extended_params &e = p.epilogue;
    const bool pairs = e.output == CUSTOM_KERNEL_NVFP4 && !e.plain;
    const int slot = coord.warp * (pairs ? T::in_pair : 1);
    const struct narrow_vector_place vector =
        e.plain ? find_vector<T, true>(p, coord, slot) : find_vector<T, false>(p, coord, slot);
    const int32_t column = column_of(p.columns, vector.unit, vector.sub, coord.quad);
    if (e.bias_gate != nullptr && column < e.n) {
        prefetch_global_l1(e.bias_gate + column);
    }
    if (e.bias_up != nullptr && column < e.n) {
        prefetch_global_l1(e.bias_up + column);
    }
}

/* Zeroes the scale factors of rows past the last one, in the columns of this CTA's warps. */
template <class T>
static __device__ __forceinline__ void pad_columns(const struct hopper_extended_narrow_params &p,
                                                   const struct narrow_coord &coord) {
    if (p.epilogue.output != CUSTOM_KERNEL_NVFP4 || coord.rank != 0 ||
        coord.m + T::a_blocks * NARROW_A_ROWS < p.epilogue.m) {
        return;
    }
    const int32_t first = column_of(p.columns, coord.tile_n * p.gemm.layout.warps_n, 0, 0);
    if (first < p.epilogue.n) {
        pad_scales(p.epilogue, first, p.gemm.layout.warps_n * p.columns.span, (int)threadIdx.x,
                   (int)blockDim.x);
    }
}

/* ---- kernel ---- */

template <class T>
static __global__ void __launch_bounds__(NARROW_MAX_WARPS *WARP_THREADS, 1)
    extended_narrow_kernel(const __grid_constant__ hopper_extended_narrow_params p) {
    extern __shared__ __align__(NARROW_A_OFFSET) unsigned char memory[];
    const uint32_t shared = cvta_to_shared(memory);
    const struct mbarrier sums = {shared};
    const struct narrow_coord coord = find_narrow_tile<T>(p.gemm);
    struct b_rows<T> rows = find_extended_rows<T>(p, coord);
    keep_addresses<T>(rows);
    expect_sums<T>(sums, p.gemm, coord);
    griddepcontrol_launch_dependents();
    ask_for_a<T>(p.gemm, coord);
    griddepcontrol_wait(); /* previous kernels may write the inputs, or read C */
    if (p.epilogue.bias_gate != nullptr || p.epilogue.bias_up != nullptr) {
        ask_for_biases<T>(p, coord);
    }

    struct narrow_accumulators<T> acc;
    if (!T::by_warpgroup) {
        clear<T>(acc);
    }
    /* The first factors' latency passes during the products; or during the exchange, if registers are short. */
    constexpr bool early = T::a_units <= 2 || T::a_blocks == 1;
    struct narrow_factors factors;
    if (early) {
        factors = find_two_factors(p, first_row_of<T>(p, coord));
    }
    multiply_share<T>(acc, shared, p.gemm, coord, rows);
    if (!early) {
        factors = find_two_factors(p, first_row_of<T>(p, coord));
    }
    pad_columns<T>(p, coord);
    exchange_sums<T>(acc, shared, sums, p.gemm, coord);
    if (p.epilogue.output == CUSTOM_KERNEL_NVFP4) {
        p.epilogue.plain ? finish_vectors<T, true, true>(shared, p, coord, factors)
                         : finish_vectors<T, false, true>(shared, p, coord, factors);
    } else {
        p.epilogue.plain ? finish_vectors<T, true, false>(shared, p, coord, factors)
                         : finish_vectors<T, false, false>(shared, p, coord, factors);
    }
}

} // namespace hopper

#endif
