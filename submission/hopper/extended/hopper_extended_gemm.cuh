/* The extended GEMM for sm_90a (custom_kernel.h, custom_kernel_extended()): the dual GEMM's kernel with another
 * load of B and another epilogue.
 *
 * Read hopper_dual_gemm.cuh first: all but load_b and consume is there.  Gate and up are its two operands; of a
 * plain product they are the first and the second half of a tile's rows of the only B, and columns of C
 * likewise. Where both are rows of one tensor (interleaved, or a plain product), a tile's scale factors are
 * those of 2 * tile_n rows that follow each other, in which a piece of the first operand is followed by one of
 * the second (struct tile_coord).
 *
 *   acc (gate, up) --scale, activation--> fp16 or bf16 --stmatrix--> shared --16-byte stores--> C
 *                                   '---> fp32 (NVFP4) ------------> shared --a thread a group--> codes, sf */
#ifndef HOPPER_EXTENDED_GEMM_CUH
#define HOPPER_EXTENDED_GEMM_CUH

#include "../../gpu/gpu_extended.cuh"
#include "../hopper_dual_gemm.cuh"
#include "hopper_extended_kernels.h"

namespace hopper {

#define STAGED_PAD_FLOATS 4 /* between rows of fp32 outputs: a warp's stores have no bank conflict */

/* A tile, and the first of its columns of C. */
struct extended_coord : tile_coord {
    int32_t column;
};

template <class Base> struct extended_tile : Base {
    using coord = struct extended_coord;
    using params = struct hopper_extended_params;
    static __device__ __forceinline__ const struct hopper_dual_gemm_params &gemm_of(const params &p) {
        return p.gemm;
    }
    static constexpr bool extended = true;
    static constexpr int joint_scale_tiles = JOINT_SCALE_TILES(Base::tile_n);
    static_assert(joint_scale_tiles <= 2 * Base::b_scale_tiles, "joint scale tiles have the places of both");
};

/* The staged output, of so many columns, in fp32 or in 16 bits; it lies where the dual GEMM's does. */
template <class T, int columns_, bool fp32> struct staged : T {
    static constexpr int columns = columns_;
    static constexpr int output_row_bytes =
        fp32 ? (columns_ + STAGED_PAD_FLOATS) * (int)sizeof(float) : columns_ * FP16_BYTES + OUTPUT_PAD_BYTES;
    static_assert(T::received_stages * sizeof(struct shared_stage<T>) +
                          T::output_boxes * WARP_THREADS * output_row_bytes <=
                      T::stages * sizeof(struct shared_stage<T>),
                  "received accumulators and the staged output fit over the stages");
};

template <class T>
static __device__ __forceinline__ struct extended_coord
find_extended_tile(const struct hopper_extended_params &p) {
    struct extended_coord coord;
    struct tile_coord &tile = coord;
    const int32_t number = blockIdx.x / T::split_k;
    const bool joint = p.epilogue.plain || p.interleave != 0;
    coord.column = number * (p.epilogue.plain ? 2 * T::tile_n : T::tile_n);
    tile.n = number * (joint ? 2 * T::tile_n : T::tile_n);
    tile.first_row = blockIdx.y * T::tile_m;
    tile.m = min(tile.first_row, p.gemm.m - p.gemm.a_box_rows);
    tile.batch = 0;
    tile.scale_tile = tile.n / SCALE_TILE_ROWS;
    tile.rank = blockIdx.x % T::split_k;
    tile.first_stage = p.gemm.stages_k * tile.rank / T::split_k;
    tile.stages = p.gemm.stages_k * (tile.rank + 1) / T::split_k - tile.first_stage;
    /* Of a plain product a piece is half of the tile.  Pieces of 32 rows and more lie quarters of a scale tile
     * apart, or a whole one; smaller ones entries. */
    const int32_t piece = p.epilogue.plain ? T::tile_n : p.interleave;
    tile.piece_mask = p.interleave != 0 ? -p.interleave : 0;
    tile.second_scales = !joint                     ? (int32_t)sizeof(shared_stage<T>::scales[0])
                         : piece >= SCALE_TILE_ROWS ? STAGE_SCALE_BYTES
                         : piece >= SCALE_ENTRIES   ? piece / SCALE_ENTRIES * SCALE_WORD_BYTES
                                                    : piece * SCALE_ENTRY_BYTES;
    return coord;
}

/* ---- load ---- */

/* A scale tile's row of so many tensors' to a stage. */
template <class T>
static __device__ __forceinline__ void copy_scale_tile(uint32_t to, const uint8_t *scales, int64_t tile,
                                                       const struct hopper_dual_gemm_params &p, int32_t k_stage,
                                                       struct mbarrier full) {
    const int64_t last_tile = (p.n - 1) / SCALE_TILE_ROWS; /* rows past the end use what is there */
    const int64_t offset = (min(tile, last_tile) * p.scale_tiles_k + k_stage * STAGE_SCALE_TILES);
    cp_async_bulk(to, scales + offset * SCALE_TILE_BYTES, STAGE_SCALE_BYTES, full);
}

/* As load_b of the dual GEMM. */
template <class T>
static __device__ __forceinline__ void load_b(shared_t<T> shared, const struct extended_coord &coord,
                                              const struct hopper_extended_params &p, const CUtensorMap *b1,
                                              const CUtensorMap *b2, int stage, int32_t k_stage) {
    struct mbarrier full = full_barrier(shared, stage);
    stage_t<T> to = stage_of(shared, stage);
    const int32_t row = p.interleave != 0 ? 0 : coord.column;
    const int32_t piece = p.interleave != 0 ? coord.column / p.interleave : 0;
    mbarrier_arrive_expect_tx(full, p.gemm.stage_tx_bytes);
    cp_async_bulk_tensor_3d(SHARED_MEMBER(to, fp4[0]), b1, k_stage * STAGE_FP4_BYTES, row, piece, full);
    cp_async_bulk_tensor_3d(SHARED_MEMBER(to, fp4[1]), b2, k_stage * STAGE_FP4_BYTES,
                            p.epilogue.plain ? row + T::tile_n : row, piece, full);
    const uint32_t scales = SHARED_MEMBER(to, scales);
    if (p.epilogue.plain || p.interleave != 0) {
        for (int i = 0; i < T::joint_scale_tiles; i++) {
            copy_scale_tile<T>(scales + i * STAGE_SCALE_BYTES, p.gemm.sfb1, coord.scale_tile + i, p.gemm,
                               k_stage, full);
        }
        return;
    }
    for (int i = 0; i < 2 * T::b_scale_tiles; i++) {
        copy_scale_tile<T>(scales + i * STAGE_SCALE_BYTES, i < T::b_scale_tiles ? p.gemm.sfb1 : p.gemm.sfb2,
                           coord.scale_tile + i % T::b_scale_tiles, p.gemm, k_stage, full);
    }
}

/* ---- epilogue ---- */

/* Two outputs of neighbouring rows of A: of gate and up, or of one half of a plain product's columns. */
template <bool plain>
static __device__ __forceinline__ void finish_two(const struct extended_params &p, const float *acc, int half,
                                                  const struct row_factors (&factors)[2], float (&outputs)[2]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if constexpr (plain) {
            outputs[i] = acc[2 * half + i] * PRODUCT_CORRECTION * factors[i].gate;
        } else {
            outputs[i] = activate(p, __fmul_rn(acc[i] * PRODUCT_CORRECTION, factors[i].gate),
                                  __fmul_rn(acc[2 + i] * PRODUCT_CORRECTION, factors[i].up));
        }
    }
}

/* Accumulators -> outputs in shared memory, [row of A][column of C], over stages that nothing uses any more. */
template <class T, bool plain, bool fp32>
static __device__ __forceinline__ void stage_extended(float (&acc)[T::m_blocks][T::accs], uint32_t output,
                                                      int warpgroup, int32_t tile_row,
                                                      const struct extended_params &p) {
    constexpr int halves = plain ? 2 : 1;
    using S = staged<T, halves * T::tile_n, fp32>;
    const int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    const float scale_gate = number_or_one(p.scale_gate), scale_up = number_or_one(p.scale_up);
#pragma unroll
    for (int row = 0; row < T::output_m; row += WARP_THREADS) {
        struct row_factors factors[4][2];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            factors[i / 2][i % 2] =
                find_factors(p, scale_gate, scale_up, tile_row + row + i / 2 * 8 + lane % 4 * 2 + i % 2);
        }
#pragma unroll
        for (int j = 0; j < T::m_blocks * halves; j++) {
            const int block = j % T::m_blocks, half = j / T::m_blocks;
            const int column =
                half * T::tile_n + (warpgroup * T::m_blocks + block) * WGMMA_M_BLOCK_B_ROWS + warp * 8;
            uint32_t packed[4] = {0, 0, 0, 0};
#pragma unroll
            for (int i = 0; i < 4 && row + i * 8 < T::output_m; i++) {
                float two[2];
                finish_two<plain>(p, &acc[block][(row / 8 + i) * 4], half, factors[i], two);
                if constexpr (fp32) {
                    const uint32_t to = output + (row + i * 8 + lane % 4 * 2) * S::output_row_bytes +
                                        (column + lane / 4) * (int)sizeof(float);
                    st_shared_f32(to, two[0]);
                    st_shared_f32(to + S::output_row_bytes, two[1]);
                } else {
                    packed[i] = two_halves(p, two[0], two[1]);
                }
            }
            if constexpr (!fp32) {
                stmatrix_x4_trans(output + (row + lane) * S::output_row_bytes + column * FP16_BYTES, packed);
            }
        }
    }
}

/* fp32 outputs in shared memory -> codes and scale factors, by all finishers, a group at a time. */
template <class S>
static __device__ __forceinline__ void store_nvfp4(const unsigned char *output, const struct tile_coord &tile,
                                                   const struct extended_params &p) {
    constexpr int groups = S::columns / NVFP4_GROUP_ELEMS, quarters = NVFP4_GROUP_ELEMS / 4;
    const int32_t tile_row = tile.m + tile.rank * S::output_m;
    const int thread = threadIdx.x - WARPGROUP_THREADS;
    const float scale_c = number_or_one(p.scale_c);
    for (int i = thread; i < S::output_m * groups; i += S::finishers) {
        const int row = i / groups, column = i % groups * NVFP4_GROUP_ELEMS;
        if (tile_row + row < tile.first_row || tile_row + row >= p.m || tile.n + column >= p.n) {
            continue;
        }
        const float4 *from = (const float4 *)(output + row * S::output_row_bytes + column * (int)sizeof(float));
        float values[NVFP4_GROUP_ELEMS];
#pragma unroll
        for (int quarter = 0; quarter < quarters; quarter++) {
            const float4 four = from[quarter];
            values[4 * quarter] = four.x;
            values[4 * quarter + 1] = four.y;
            values[4 * quarter + 2] = four.z;
            values[4 * quarter + 3] = four.w;
        }
        store_group(p, tile_row + row, tile.n + column, quantize_group(values, scale_c));
    }
    if (tile_row < p.m && tile_row + S::output_m >= p.m) {
        pad_scales(p, tile.n, S::columns, thread, S::finishers);
    }
}

template <class T, bool plain, bool nvfp4>
static __device__ __forceinline__ void
finish_extended(float (&acc)[T::m_blocks][T::accs], unsigned char *output, int warpgroup,
                const struct tile_coord &tile, const struct hopper_extended_params &p) {
    using S = staged<T, plain ? 2 * T::tile_n : T::tile_n, nvfp4>;
    stage_extended<T, plain, nvfp4>(acc, cvta_to_shared(output), warpgroup, tile.m + tile.rank * T::output_m,
                                    p.epilogue);
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

/* As consume of the dual GEMM. */
template <class T>
static __device__ __forceinline__ void consume(shared_t<T> shared, struct shared_storage<T> *storage,
                                               const struct extended_coord &coord,
                                               const struct hopper_extended_params &p) {
    int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
    float acc[T::m_blocks][T::accs];
    if (!accumulate<T>(acc, shared, coord, warpgroup)) {
        return;
    }
    griddepcontrol_wait(); /* scales of tokens may be the work of a kernel before this call's */
    unsigned char *output = (unsigned char *)&storage->stages[T::received_stages];
    struct tile_coord tile = coord;
    tile.n = coord.column;
    const bool nvfp4 = p.epilogue.output == CUSTOM_KERNEL_NVFP4;
    if (p.epilogue.plain) {
        nvfp4 ? finish_extended<T, true, true>(acc, output, warpgroup, tile, p)
              : finish_extended<T, true, false>(acc, output, warpgroup, tile, p);
    } else {
        nvfp4 ? finish_extended<T, false, true>(acc, output, warpgroup, tile, p)
              : finish_extended<T, false, false>(acc, output, warpgroup, tile, p);
    }
}

/* ---- kernel ---- */

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    extended_gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                         const __grid_constant__ CUtensorMap b2,
                         const __grid_constant__ hopper_extended_params p) {
    compute_tile<T>(find_extended_tile<T>(p), p, a, b1, b2);
}

} // namespace hopper

#endif
