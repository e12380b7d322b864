/* The extended GEMM for sm_90a (custom_kernel.h, custom_kernel_extended()): the dual GEMM's pipeline with other
 * operands and another epilogue.
 *
 * Read hopper_dual_gemm.cuh first.  Gate and up are the pipeline's two operands.  For a plain product, the
 * operands are the first and the second half of a tile's rows of the only B, and so are columns of C.  If both
 * operands are rows of one tensor (interleaved, or a plain product), the tile has the scale factors of 2 *
 * tile_n rows that follow each other, in which a piece of the second operand comes after each piece of the
 * first.
 *
 *   acc (gate, up) --scale, activation--> fp16 or bf16 --stmatrix--> shared --16-byte stores--> C
 *                                   '---> fp32 (NVFP4) ------------> shared --a thread a group--> codes, sf */
#ifndef HOPPER_EXTENDED_GEMM_CUH
#define HOPPER_EXTENDED_GEMM_CUH

#include "../hopper_dual_gemm.cuh"
#include "hopper_extended_kernels.h"
#include "hopper_extended_outputs.cuh"

namespace hopper {

/* ---- operands ---- */

/* Copies one row of scale tiles, of one tensor, to a stage. */
static __device__ __forceinline__ void copy_scale_tile(uint32_t to, const uint8_t *scales, int64_t tile,
                                                       const struct hopper_dual_gemm_params &p, int32_t k_stage,
                                                       struct mbarrier full) {
    const int64_t last_tile = (p.n - 1) / SCALE_TILE_ROWS; /* rows past the end take any factors */
    const int64_t offset = (min(tile, last_tile) * p.scale_tiles_k + k_stage * STAGE_SCALE_TILES);
    cp_async_bulk(to, scales + offset * SCALE_TILE_BYTES, STAGE_SCALE_BYTES, full);
}

/* Base: the dual GEMM's tile; bf16: A is bf16, and B is dequantized to it. */
template <class Base, bool bf16> struct extended_tile : Base {
    using coord = struct joint_coord;
    using params = struct hopper_extended_params;
    static constexpr bool short_stages = Base::tile_m <= 128; /* copies have more options here */
    static constexpr int a_type = bf16 ? CUSTOM_KERNEL_A_BF16 : CUSTOM_KERNEL_A_FP16;
    static constexpr int joint_scale_tiles = JOINT_SCALE_TILES(Base::tile_n);
    static_assert(joint_scale_tiles <= 2 * Base::b_scale_tiles, "joint scale tiles fit the places of both");

    static __device__ __forceinline__ void copy_b(shared_t<extended_tile> shared,
                                                  const struct joint_coord &coord, const params &p,
                                                  const CUtensorMap *b1, const CUtensorMap *b2, int stage,
                                                  int32_t k_stage) {
        struct mbarrier full = full_barrier(shared, stage);
        stage_t<extended_tile> to = stage_of(shared, stage);
        const int32_t row = p.interleave != 0 ? 0 : coord.column;
        const int32_t piece = p.interleave != 0 ? coord.column / p.interleave : 0;
        mbarrier_arrive_expect_tx(full, p.gemm.stage_tx_bytes);
        cp_async_bulk_tensor_3d(SHARED_MEMBER(to, fp4[0]), b1, k_stage * STAGE_FP4_BYTES, row, piece, full);
        cp_async_bulk_tensor_3d(SHARED_MEMBER(to, fp4[1]), b2, k_stage * STAGE_FP4_BYTES,
                                p.epilogue.plain ? row + Base::tile_n : row, piece, full);
    }

    static __device__ __forceinline__ void copy_scales(shared_t<extended_tile> shared,
                                                       const struct joint_coord &coord, const params &p,
                                                       int stage, int32_t k_stage) {
        struct mbarrier full = full_barrier(shared, stage);
        const uint32_t scales = SHARED_MEMBER(stage_of(shared, stage), scales);
        if (p.epilogue.plain || p.interleave != 0) {
            for (int i = 0; i < joint_scale_tiles; i++) {
                copy_scale_tile(scales + i * STAGE_SCALE_BYTES, p.gemm.sfb1, coord.scale_tile + i, p.gemm,
                                k_stage, full);
            }
            return;
        }
        for (int i = 0; i < 2 * Base::b_scale_tiles; i++) {
            copy_scale_tile(scales + i * STAGE_SCALE_BYTES, i < Base::b_scale_tiles ? p.gemm.sfb1 : p.gemm.sfb2,
                            coord.scale_tile + i % Base::b_scale_tiles, p.gemm, k_stage, full);
        }
    }
};

/* Tile number `number` along the launch's columns of C, in row `row` of tiles; rank: of this CTA in it. */
template <class T>
static __device__ __forceinline__ struct joint_coord
place_extended_tile(const struct hopper_extended_params &p, int32_t number, int32_t row, int32_t rank) {
    struct joint_coord coord;
    const bool joint = p.epilogue.plain || p.interleave != 0;
    coord.column = p.gemm.first_n + number * (p.epilogue.plain ? 2 * T::tile_n : T::tile_n);
    (struct tile_coord &)coord =
        place_tile<T>(p.gemm, p.interleave != 0 ? 2 * coord.column : coord.column, row, 0, rank);
    coord.piece_mask = p.interleave != 0 ? -p.interleave : 0;
    coord.second_scales = joint ? second_scales_of_pieces(p.epilogue.plain ? T::tile_n : p.interleave)
                                : (int32_t)sizeof(shared_stage<T>::scales[0]);
    return coord;
}

/* ---- epilogue ---- */

#define STAGED_PAD_FLOATS 4 /* between rows of fp32 outputs: no bank conflict for a warp's stores */

/* The staged output, `columns_` columns in fp32 or in 16 bits, in the place of the dual GEMM's. */
template <class T, int columns_, bool fp32> struct staged : T {
    static constexpr int columns = columns_;
    static constexpr int output_row_bytes =
        fp32 ? (columns_ + STAGED_PAD_FLOATS) * (int)sizeof(float) : columns_ * FP16_BYTES + OUTPUT_PAD_BYTES;
};

/* Accumulators -> outputs in shared memory, [row of A][column of C], over stages that are free. */
template <class T, int kind, bool fp32>
static __device__ __forceinline__ void stage_extended(float (&acc)[T::m_blocks][T::accs], uint32_t output,
                                                      int warpgroup, int32_t tile_row, int32_t tile_column,
                                                      const struct extended_params &p, float correction) {
    constexpr int parts = kind == PLAIN ? 2 : 1; /* of tile_n columns */
    using S = staged<T, parts * T::tile_n, fp32>;
    static_assert(output_fits<S>, "received accumulators and the staged output fit over the stages");
    const int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    const float scale_gate = number_or_one(p.scale_gate), scale_up = number_or_one(p.scale_up);
#pragma unroll
    for (int row = 0; row < T::output_m; row += WARP_THREADS) {
        struct row_factors factors[4][2];
        find_lane_factors(factors, p, scale_gate, scale_up, tile_row + row);
#pragma unroll
        for (int j = 0; j < T::m_blocks * parts; j++) {
            const int block = j % T::m_blocks, part = j / T::m_blocks;
            const int column =
                part * T::tile_n + (warpgroup * T::m_blocks + block) * WGMMA_M_BLOCK_B_ROWS + warp * 8;
            constexpr int most = T::output_m / 8;
            uint32_t packed[4] = {0, 0, 0, 0};
            float two[8];
            finish_pairs<kind, 4>(two, &acc[block][row / 8 * 4], part, factors,
                                  find_bias(p, tile_column + column + lane / 4), p, correction,
                                  min(4, most - row / 8));
#pragma unroll
            for (int i = 0; i < 4 && row + i * 8 < T::output_m; i++) {
                if constexpr (fp32) {
                    const uint32_t to = output + (row + i * 8 + lane % 4 * 2) * S::output_row_bytes +
                                        (column + lane / 4) * (int)sizeof(float);
                    st_shared_f32(to, two[2 * i]);
                    st_shared_f32(to + S::output_row_bytes, two[2 * i + 1]);
                } else {
                    packed[i] = two_halves(p, two[2 * i], two[2 * i + 1]);
                }
            }
            if constexpr (!fp32) {
                stmatrix_x4_trans(output + (row + lane) * S::output_row_bytes + column * FP16_BYTES, packed);
            }
        }
    }
}

/* fp32 outputs in shared memory -> codes and scale factors: the finishers take a group each in turn. */
template <class S>
static __device__ __forceinline__ void store_nvfp4(const unsigned char *output, const struct tile_coord &tile,
                                                   const struct extended_params &p) {
    constexpr int groups = S::columns / NVFP4_GROUP_ELEMS;
    const int32_t tile_row = tile.m + tile.rank * S::output_m;
    const int thread = threadIdx.x - WARPGROUP_THREADS;
    const float scale_c = number_or_one(p.scale_c);
    for (int i = thread; i < S::output_m * groups; i += S::finishers) {
        const int row = i / groups, column = i % groups * NVFP4_GROUP_ELEMS;
        if (tile_row + row < tile.first_row || tile_row + row >= p.m || tile.n + column >= p.n) {
            continue;
        }
        quantize_row(p, tile_row + row, tile.n + column, scale_c,
                     output + row * S::output_row_bytes + column * (int)sizeof(float));
    }
    if (tile_row < p.m && tile_row + S::output_m >= p.m) {
        pad_scales(p, tile.n, S::columns, thread, S::finishers);
    }
}

template <class T, int kind, bool nvfp4>
static __device__ __forceinline__ void
finish_extended(float (&acc)[T::m_blocks][T::accs], unsigned char *output, int warpgroup,
                const struct tile_coord &tile, const struct hopper_extended_params &p) {
    using S = staged<T, kind == PLAIN ? 2 * T::tile_n : T::tile_n, nvfp4>;
    stage_extended<T, kind, nvfp4>(acc, cvta_to_shared(output), warpgroup, tile.m + tile.rank * T::output_m,
                                   tile.n, p.epilogue, p.correction);
    bar_sync(CONSUMER_BARRIER, T::finishers);
    if constexpr (nvfp4) {
        store_nvfp4<S>(output, tile, p.epilogue);
    } else {
        struct hopper_dual_gemm_params to = p.gemm;
        to.c = (uint16_t *)p.epilogue.c;
        to.n = p.epilogue.n;
        store_output<S>(output, tile, to);
    }
}

/* ---- kernel ---- */

#define SCALES_WARP 3 /* of the producer's warpgroup, behind the copying ones */

/* A warp that has nothing else to do.  Brings the epilogue's scales and biases to L1, which the main loop
 * leaves alone: its lanes ask for the three numbers and for the lines of the tile's token scales and biases. */
template <class T>
static __device__ __forceinline__ void ask_for_scales(const struct extended_params &p, int32_t row,
                                                      int32_t column) {
    constexpr int line_floats = L2_LINE_BYTES / (int)sizeof(float), lines = 2 * T::tile_n / line_floats;
    static_assert(2 * lines <= WARP_THREADS, "a lane asks for a line of either bias");
    const int lane = threadIdx.x % WARP_THREADS;
    const float *scale = lane == 0   ? p.scale_gate
                         : lane == 1 ? p.scale_up
                         : lane == 2 ? p.scale_c
                                     : p.token_scale;
    const int32_t offset = lane < 3 ? 0 : row + (lane - 3) * line_floats;
    const float *bias = lane < lines ? p.bias_gate : p.bias_up;
    const int32_t bias_column = column + lane % lines * line_floats;
    griddepcontrol_wait(); /* a kernel before this call's may have made them */
    if (scale != nullptr && (lane < 3 || offset < p.m)) {
        prefetch_global_l1(scale + offset);
    }
    if (bias != nullptr && lane < 2 * lines && bias_column < p.n) {
        prefetch_global_l1(bias + bias_column);
    }
}

template <class T> struct extended_tile_work : one_tile<T> {
    __device__ __forceinline__ void copy(typename one_tile<T>::storage *storage) const {
        one_tile<T>::copy(storage);
        if (threadIdx.x / WARP_THREADS == SCALES_WARP) {
            ask_for_scales<T>(this->p.epilogue, this->coord.m, this->coord.column);
        }
    }

    /* Consumer warpgroup: the tile's products, then its rows of C. */
    __device__ __forceinline__ void multiply(typename one_tile<T>::storage *storage) const {
        int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
        float acc[T::m_blocks][T::accs];
        if (!accumulate<T>(acc, ring_of<T>(storage), this->coord, warpgroup)) {
            return;
        }
        griddepcontrol_wait(); /* a kernel before this call's may have made the scales */
        unsigned char *output = (unsigned char *)&storage->stages[T::received_stages];
        struct tile_coord tile = this->coord;
        tile.n = this->coord.column;
        with_outputs<GATED_SILU>(this->p.epilogue, [&](auto kind, auto nvfp4) {
            finish_extended<T, kind.value, nvfp4.value>(acc, output, warpgroup, tile, this->p);
        });
    }
};

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    extended_gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                         const __grid_constant__ CUtensorMap b2,
                         const __grid_constant__ hopper_extended_params p) {
    extern __shared__ unsigned char memory[];
    const struct joint_coord coord =
        place_extended_tile<T>(p, blockIdx.x / T::split_k, blockIdx.y, blockIdx.x % T::split_k);
    run_tiles(first_atom(memory),
              extended_tile_work<T>{{a, b1, b2, p, coord, p.gemm.scales_by_previous_kernel}});
}

} // namespace hopper

#endif
