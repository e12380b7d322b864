/* The extended GEMM for sm_100a and sm_103a (custom_kernel.h, custom_kernel_extended()): the dual GEMM's kernel
 * with another epilogue.
 *
 * Read blackwell_dual_gemm.cuh and blackwell_grouped_gemm.cuh first.  If gate and up are two tensors, their
 * products are the dual GEMM's.  If their rows alternate in one tensor, or the product is plain, the kernel
 * computes one product of all rows, as the grouped GEMM does: TMEM's columns hold accumulators in the order of
 * rows. */
#ifndef BLACKWELL_EXTENDED_GEMM_CUH
#define BLACKWELL_EXTENDED_GEMM_CUH

#include "../../gpu/gpu_extended.cuh"
#include "../blackwell_dual_gemm.cuh"
#include "blackwell_extended_kernels.h"

namespace blackwell {

#define PART_COLUMNS NVFP4_GROUP_ELEMS /* columns of C that a lane takes at a time */
#define LEAST_PIECE  8                 /* rows of the shortest interleaved piece: half of a part */
#define MOST_PIECE   64                /* rows of the longest one */

template <int tile_n, int stages, int ctas, int tail, int products_>
struct extended_tile : tile<tile_n, stages, ctas, tail, 1> {
    static constexpr int products = products_, columns = (products == 1 ? 2 : 1) * tile_n;
    static_assert(tile_n % (products == 1 ? MOST_PIECE : PART_COLUMNS) == 0,
                  "a tile's columns of C are whole parts, its rows of B whole pieces of gate and up");
};

template <class T>
static __device__ __forceinline__ struct tile_coord
find_extended_tile(const struct blackwell_extended_params &p) {
    struct tile_coord coord = find_tile<T>(p.steps_k);
    coord.n = blockIdx.y * T::columns;
    return coord;
}

/* The parameters that find_row reads. */
struct row_params {
    uint16_t *c;
    int32_t m, n;
};

/* Loads a part's accumulators of gate and of up; for a plain product only the first.  `column` is the part's
 * first column of C in the tile. */
template <class T>
static __device__ __forceinline__ void load_part(float (&gate)[PART_COLUMNS], float (&up)[PART_COLUMNS],
                                                 struct tmem_addr acc, int column,
                                                 const struct blackwell_extended_params &p) {
    int first = column, second = T::up_column + column;
    if constexpr (T::products == 1) {
        const int piece = p.interleave == LEAST_PIECE ? PART_COLUMNS : p.interleave;
        first += p.epilogue.plain ? 0 : column / piece * piece;
        second = first + piece;
    }
    start_load(gate, tmem_column(acc, first));
    if (T::products == 2 || !p.epilogue.plain) {
        start_load(up, tmem_column(acc, second));
    }
    await_loads(gate);
    await_loads(up);
    if (T::products == 1 && p.interleave == LEAST_PIECE) { /* rows 0-7 and 16-23 of a part's 32 are gate's */
#pragma unroll
        for (int i = 0; i < LEAST_PIECE; i++) {
            const float moved = gate[LEAST_PIECE + i];
            gate[LEAST_PIECE + i] = up[i];
            up[i] = moved;
        }
    }
}

/* Adds the biases of a part's columns, from `column` on: all lanes read the same ones. */
static __device__ __forceinline__ void add_bias(float (&values)[PART_COLUMNS], const float *bias,
                                                int32_t column, int32_t n) {
    if (bias == nullptr) {
        return;
    }
    if (column + PART_COLUMNS <= n && (uintptr_t)bias % sizeof(float4) == 0) {
#pragma unroll
        for (int i = 0; i < PART_COLUMNS; i += 4) {
            const float4 four = *(const float4 *)(bias + column + i);
            values[i] = __fadd_rn(values[i], four.x);
            values[i + 1] = __fadd_rn(values[i + 1], four.y);
            values[i + 2] = __fadd_rn(values[i + 2], four.z);
            values[i + 3] = __fadd_rn(values[i + 3], four.w);
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < PART_COLUMNS; i++) {
        values[i] = __fadd_rn(values[i], bias_or_none(bias, column + i, column + i < n));
    }
}

/* Stores a part of a lane's row, from `column` of the tile on. */
static __device__ __forceinline__ void store_part(const struct output_row &row, int32_t row_of_c,
                                                  int32_t tile_column, int column,
                                                  const float (&values)[PART_COLUMNS], float scale_c,
                                                  const struct extended_params &p) {
    if (p.output != CUSTOM_KERNEL_NVFP4) {
        uint32_t halves[PART_COLUMNS / 2];
        halves_of(p, values, halves);
        store_row<PART_COLUMNS>(row, column, halves);
        return;
    }
    if (tile_column + column >= p.n) {
        return;
    }
    if (row_of_c < p.m) {
        store_group(p, row_of_c, tile_column + column, quantize_group(values, scale_c));
    } else {
        pad_group(p, row_of_c, tile_column + column);
    }
}

/* Epilogue warp; a lane has a row of C.  Waits for the kernels before, which may have made the scales, and for
 * up_full; then shares the columns of C, part by part, with the other warp of its quarter.
 */
template <class T>
static __device__ __forceinline__ void epilogue_extended(shared_t<T> shared, struct tmem_addr acc,
                                                         const struct tile_coord &coord,
                                                         const struct blackwell_extended_params &p) {
    const struct extended_params &e = p.epilogue;
    const bool plain = T::products == 1 && e.plain;
    const int tile_columns = T::products == 1 && !plain ? T::columns / 2 : T::columns;
    struct tile_coord of_c = coord;
    of_c.n = T::products == 1 && !plain ? coord.n / 2 : coord.n;
    const struct output_row row = find_row(acc, of_c, (struct row_params){(uint16_t *)e.c, e.m, e.n});
    const int32_t row_of_c =
        coord.m + threadIdx.x / WARP_THREADS % TMEM_QUARTERS * WARP_THREADS + threadIdx.x % WARP_THREADS;
    griddepcontrol_wait();
    const struct row_factors factors =
        find_factors(e, number_or_one(e.scale_gate), number_or_one(e.scale_up), row_of_c);
    const float scale_c = number_or_one(e.scale_c);
    wait(up_full_barrier<T>(shared), 0);
    tcgen05_fence_after_thread_sync();
#pragma unroll 1
    for (int column = row.group * PART_COLUMNS; column < tile_columns; column += COLUMN_GROUPS * PART_COLUMNS) {
        float gate[PART_COLUMNS], up[PART_COLUMNS] = {0};
        load_part<T>(gate, up, row.acc, column, p);
#pragma unroll
        for (int i = 0; i < PART_COLUMNS; i++) {
            gate[i] = __fmul_rn(gate[i], factors.gate);
            up[i] = __fmul_rn(up[i], factors.up);
        }
        add_bias(gate, e.bias_gate, of_c.n + column, e.n);
        if (plain) {
            activate_plain(e.activation, gate);
        } else {
            add_bias(up, e.bias_up, of_c.n + column, e.n);
#pragma unroll
            for (int i = 0; i < PART_COLUMNS; i++) {
                gate[i] = activate_gated(e.activation, gate[i], up[i]);
            }
        }
        store_part(row, row_of_c, of_c.n, column, gate, scale_c, e);
    }
    leave_tmem();
}

struct extended_epilogue {
    template <class T>
    static __device__ __forceinline__ void run(shared_t<T> shared, struct tmem_addr acc,
                                               const struct tile_coord &coord,
                                               const struct blackwell_extended_params &p) {
        epilogue_extended<T>(shared, acc, coord, p);
    }
};

template <class T>
static __global__ void __launch_bounds__(CTA_THREADS, 1)
    extended_gemm_kernel(const __grid_constant__ blackwell_extended_params p) {
    run_tile<T, extended_epilogue>(find_extended_tile<T>(p), p);
}

} // namespace blackwell

#endif
