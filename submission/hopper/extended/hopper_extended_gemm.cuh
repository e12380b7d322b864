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

#include "../../gpu/gpu_extended.cuh"
#include "../hopper_dual_gemm.cuh"
#include "hopper_extended_kernels.h"

namespace hopper {

/* ---- operands ---- */

/* A tile, the first of its columns of C, and where its scale factors are in a stage. */
struct extended_coord : tile_coord {
    int32_t column;
    int32_t piece_mask;    /* the bits of a row in the tile that count pieces of interleaved rows */
    int32_t second_scales; /* bytes from a row's scale factors of the first operand to those of the second */
};

/* Copies one row of scale tiles, of one tensor, to a stage. */
static __device__ __forceinline__ void copy_scale_tile(uint32_t to, const uint8_t *scales, int64_t tile,
                                                       const struct hopper_dual_gemm_params &p, int32_t k_stage,
                                                       struct mbarrier full) {
    const int64_t last_tile = (p.n - 1) / SCALE_TILE_ROWS; /* rows past the end take any factors */
    const int64_t offset = (min(tile, last_tile) * p.scale_tiles_k + k_stage * STAGE_SCALE_TILES);
    cp_async_bulk(to, scales + offset * SCALE_TILE_BYTES, STAGE_SCALE_BYTES, full);
}

template <class T>
static __device__ __forceinline__ struct extended_coord
place_extended_tile(const struct hopper_extended_params &p, int32_t number, int32_t row, int32_t rank);

/* Base: the dual GEMM's tile; bf16: A is bf16, and B is dequantized to it. */
template <class Base, bool bf16> struct extended_tile : Base {
    using coord = struct extended_coord;
    using params = struct hopper_extended_params;
    static constexpr bool interleaves = true;
    static constexpr bool short_stages = Base::tile_m <= 128; /* copies have more options here */
    static constexpr int a_type = bf16 ? CUSTOM_KERNEL_A_BF16 : CUSTOM_KERNEL_A_FP16;
    using persistent_params = struct hopper_extended_persistent_params;
    static constexpr int joint_scale_tiles = JOINT_SCALE_TILES(Base::tile_n);
    static_assert(joint_scale_tiles <= 2 * Base::b_scale_tiles, "joint scale tiles fit the places of both");

    static __device__ __forceinline__ const struct hopper_dual_gemm_params &gemm_of(const params &p) {
        return p.gemm;
    }

    static __device__ __forceinline__ const struct hopper_persistent_params &
    schedule_of(const persistent_params &p) {
        return p.schedule;
    }

    static __device__ __forceinline__ const params &operands_of(const persistent_params &p) {
        return p.extended;
    }

    static __device__ __forceinline__ coord place_of_tile(const persistent_params &p, int32_t tile) {
        return place_extended_tile<extended_tile>(p.extended, tile % p.schedule.tiles_n,
                                                  tile / p.schedule.tiles_n, 0);
    }

    static __device__ __forceinline__ void copy_b(shared_t<extended_tile> shared,
                                                  const struct extended_coord &coord, const params &p,
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
                                                       const struct extended_coord &coord, const params &p,
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
static __device__ __forceinline__ struct extended_coord
place_extended_tile(const struct hopper_extended_params &p, int32_t number, int32_t row, int32_t rank) {
    struct extended_coord coord;
    struct tile_coord &tile = coord;
    const bool joint = p.epilogue.plain || p.interleave != 0;
    coord.column = p.gemm.first_n + number * (p.epilogue.plain ? 2 * T::tile_n : T::tile_n);
    tile.n = p.interleave != 0 ? 2 * coord.column : coord.column;
    tile.first_row = row * T::tile_m;
    tile.m = min(tile.first_row, p.gemm.m - p.gemm.a_box_rows);
    tile.batch = 0;
    tile.scale_tile = tile.n / SCALE_TILE_ROWS;
    tile.rank = rank;
    tile.first_stage = p.gemm.stages_k * tile.rank / T::split_k;
    tile.stages = p.gemm.stages_k * (tile.rank + 1) / T::split_k - tile.first_stage;
    /* A plain product's piece is half of the tile.  The second operand's factors lie whole scale tiles after
     * the first one's for pieces of 128 rows, quarters of a tile from 32 rows on, and entries for smaller
     * pieces. */
    const int32_t piece = p.epilogue.plain ? T::tile_n : p.interleave;
    coord.piece_mask = p.interleave != 0 ? -p.interleave : 0;
    coord.second_scales = !joint                     ? (int32_t)sizeof(shared_stage<T>::scales[0])
                          : piece >= SCALE_TILE_ROWS ? STAGE_SCALE_BYTES
                          : piece >= SCALE_ENTRIES   ? piece / SCALE_ENTRIES * SCALE_WORD_BYTES
                                                     : piece * SCALE_ENTRY_BYTES;
    return coord;
}

template <class T>
static __device__ __forceinline__ struct extended_coord
find_extended_tile(const struct hopper_extended_params &p) {
    return place_extended_tile<T>(p, blockIdx.x / T::split_k, blockIdx.y, blockIdx.x % T::split_k);
}

/* ---- epilogue ---- */

#define STAGED_PAD_FLOATS 4 /* between rows of fp32 outputs: no bank conflict for a warp's stores */

/* The staged output, `columns_` columns in fp32 or in 16 bits, in the place of the dual GEMM's. */
template <class T, int columns_, bool fp32> struct staged : T {
    static constexpr int columns = columns_;
    static constexpr int output_row_bytes =
        fp32 ? (columns_ + STAGED_PAD_FLOATS) * (int)sizeof(float) : columns_ * FP16_BYTES + OUTPUT_PAD_BYTES;
    static_assert(T::received_stages * sizeof(struct shared_stage<T>) +
                          T::output_boxes * WARP_THREADS * output_row_bytes <=
                      T::stages * sizeof(struct shared_stage<T>),
                  "received accumulators and the staged output fit over the stages");
};

/* Two outputs of neighbouring rows of A: from gate and up, or from one half of a plain product's columns. */
template <bool plain>
static __device__ __forceinline__ void finish_two(const struct extended_params &p, float correction,
                                                  const float *acc, int half,
                                                  const struct row_factors (&factors)[2], float (&outputs)[2]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if constexpr (plain) {
            outputs[i] = acc[2 * half + i] * correction * factors[i].gate;
        } else {
            outputs[i] = activate(p, __fmul_rn(acc[i] * correction, factors[i].gate),
                                  __fmul_rn(acc[2 + i] * correction, factors[i].up));
        }
    }
}

/* Accumulators -> outputs in shared memory, [row of A][column of C], over stages that are free. */
template <class T, bool plain, bool fp32>
static __device__ __forceinline__ void stage_extended(float (&acc)[T::m_blocks][T::accs], uint32_t output,
                                                      int warpgroup, int32_t tile_row,
                                                      const struct extended_params &p, float correction) {
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
                finish_two<plain>(p, correction, &acc[block][(row / 8 + i) * 4], half, factors[i], two);
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

/* fp32 outputs in shared memory -> codes and scale factors: the finishers take a group each in turn. */
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
                                    p.epilogue, p.correction);
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

/* A warp that has nothing else to do.  Brings the epilogue's scales to L1, which the main loop leaves alone:
 * its lanes ask for the three numbers and for the lines of the tile's token scales. */
static __device__ __forceinline__ void ask_for_scales(const struct extended_params &p, int32_t row) {
    const int lane = threadIdx.x % WARP_THREADS;
    const float *scale = lane == 0   ? p.scale_gate
                         : lane == 1 ? p.scale_up
                         : lane == 2 ? p.scale_c
                                     : p.token_scale;
    const int32_t offset = lane < 3 ? 0 : row + (lane - 3) * (L2_LINE_BYTES / (int)sizeof(float));
    griddepcontrol_wait(); /* a kernel before this call's may have made them */
    if (scale != nullptr && (lane < 3 || offset < p.m)) {
        prefetch_global_l1(scale + offset);
    }
}

/* Consumer warpgroup: the tile's products, then its rows of C. */
template <class T>
static __device__ __forceinline__ void consume_extended(shared_t<T> shared, struct shared_storage<T> *storage,
                                                        const struct extended_coord &coord,
                                                        const struct hopper_extended_params &p) {
    int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
    float acc[T::m_blocks][T::accs];
    if (!accumulate<T>(acc, shared, coord, warpgroup)) {
        return;
    }
    griddepcontrol_wait(); /* a kernel before this call's may have made the scales */
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

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    extended_gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                         const __grid_constant__ CUtensorMap b2,
                         const __grid_constant__ hopper_extended_params p) {
    extern __shared__ unsigned char memory[];
    const struct extended_coord coord = find_extended_tile<T>(p);
    uint32_t misaligned = cvta_to_shared(memory) % SWIZZLE_ATOM_BYTES;
    unsigned char *aligned = memory + (SWIZZLE_ATOM_BYTES - misaligned) % SWIZZLE_ATOM_BYTES;
    typename layout_of<T>::storage *storage = (typename layout_of<T>::storage *)aligned;
    const shared_t<T> shared = {cvta_to_shared(aligned)};

    if (threadIdx.x == 0) {
        start_pipeline<T>(shared, T::finishers, a, b1, b2);
    }
    __syncthreads();
    griddepcontrol_launch_dependents();

    if (threadIdx.x < WARPGROUP_THREADS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if constexpr (T::short_stages) {
            const int warp = __shfl_sync(~0u, threadIdx.x / WARP_THREADS, 0);
            if (warp < COPYING_WARPS) {
                load_by_warps<T>(shared, coord, p, &a, &b1, &b2, warp);
            }
        } else if (threadIdx.x == 0) {
            load<T>(shared, coord, p, &a, &b1, &b2);
        }
        if (threadIdx.x / WARP_THREADS == SCALES_WARP) {
            ask_for_scales(p.epilogue, coord.m);
        }
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS(T::warpgroups)>();
        consume_extended<T>(shared, storage, coord, p);
    }
}

} // namespace hopper

#endif
