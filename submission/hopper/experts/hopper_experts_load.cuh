/* Tiles of experts, and the warps that copy their operands (hopper_experts_gemm.cuh). */
#ifndef HOPPER_EXPERTS_LOAD_CUH
#define HOPPER_EXPERTS_LOAD_CUH

#include "../../gpu/experts/gpu_experts.cuh"
#include "../hopper_pipeline.cuh"
#include "hopper_experts_kernels.h"

namespace hopper {

/* ---- tiles ---- */

/* A tile and its expert. */
struct experts_coord : joint_coord {
    int32_t expert, row_end; /* row_end: the row after the tile's last one */
    int32_t width;           /* rows of A that are copied and multiplied */
    bool row_scales; /* a stage's scale factors follow each other by rows: the first operand's, the second's */
};

static __device__ __forceinline__ bool has_row_scales(const struct experts_coord &coord) {
    return coord.row_scales;
}

/* One chain of accumulators, whatever registers allow, so that all tiles sum alike. */
/* bf16: A is bf16, and B is dequantized to it. */
template <int tile_m, int least_rows_, int m_blocks, int stages, int ctas_per_sm_, bool bf16>
struct experts_tile : tile<EXPERTS_WARPGROUPS, m_blocks, tile_m, stages, 1, 1> {
    using coord = struct experts_coord;
    static constexpr int a_type = bf16 ? CUSTOM_KERNEL_A_BF16 : CUSTOM_KERNEL_A_FP16;
    static constexpr bool large = m_blocks > 1;
    static constexpr int least_rows = least_rows_;
    static_assert(!large || (least_rows % LARGE_UNIT_ROWS == 0 && tile_m % LARGE_UNIT_ROWS == 0),
                  "a large tile has a main loop for each multiple of LARGE_UNIT_ROWS");
    static constexpr int chains = 1, ctas_per_sm = ctas_per_sm_;
};

/* True if both operands' rows are in one tensor. */
static __device__ __forceinline__ bool is_joint(const struct hopper_experts_params &p) {
    return p.epilogue.plain || p.interleave != 0;
}

/* Scale tiles of blocked scale factors of a stage: of one tensor, or of both. */
template <class T>
static __device__ __forceinline__ int blocked_scale_tiles(const struct hopper_experts_params &p) {
    return is_joint(p) ? 2 * T::tile_n / SCALE_TILE_ROWS : 2;
}

template <class T>
static __device__ __forceinline__ struct experts_coord
find_tile_of_experts(const struct hopper_experts_params &p, const struct expert_table *table, int32_t number) {
    const int32_t in_row = number % p.tiles_n;
    const struct expert_tile tile =
        T::large ? find_balanced_tile<LARGE_UNIT_ROWS>(p.tokens, table, number / p.tiles_n)
                 : find_expert_tile(p.tokens, table, number / p.tiles_n);
    const bool plain = p.epilogue.plain, joint = is_joint(p);
    struct experts_coord coord;
    coord.expert = tile.expert;
    coord.row_end = tile.row_end;
    coord.width = T::tile_m;
    if constexpr (T::large) {
        coord.width = max(T::least_rows, (tile.row_end - tile.first_row + LARGE_UNIT_ROWS - 1) /
                                             LARGE_UNIT_ROWS * LARGE_UNIT_ROWS);
    }
    coord.m = coord.first_row = tile.first_row;
    coord.column = in_row * (plain ? 2 * T::tile_n : T::tile_n);
    coord.n = joint ? in_row * (2 * T::tile_n) : coord.column;
    coord.scale_tile = coord.n / SCALE_TILE_ROWS;
    coord.batch = coord.rank = coord.first_stage = 0;
    coord.stages = p.stages_k;
    const int32_t piece = plain || p.interleave == 0 ? T::tile_n : p.interleave;
    coord.piece_mask = p.interleave != 0 ? -p.interleave : 0;
    coord.second_scales = second_scales_of_pieces(piece);
    coord.row_scales = p.scales_by_rows;
    if (coord.row_scales) {
        coord.n = coord.scale_tile = coord.piece_mask = 0;
        coord.second_scales = T::tile_n * STAGE_ROW_SCALES;
    } else if (!joint) {
        coord.second_scales = STAGE_SCALE_BYTES;
    }
    return coord;
}

/* Warps of the producer's warpgroup, by what they copy to each stage. */
enum { EXPERTS_COPY_B, EXPERTS_COPY_SCALES, EXPERTS_COPY_A, EXPERTS_COPYING_WARPS };

/* All threads: barriers, and the list of tiles. */
template <class T>
static __device__ __forceinline__ void
start_experts(shared_t<T> shared, struct expert_table *table, const CUtensorMap &a, const CUtensorMap &b1,
              const CUtensorMap &b2, const struct hopper_experts_params &p, int warp) {
    if (threadIdx.x == 0) {
        prefetch_tensormap(&a);
        prefetch_tensormap(&b1);
        prefetch_tensormap(&b2);
        for (int stage = 0; stage < T::stages; stage++) {
            mbarrier_init(full_barrier(shared, stage), p.scales_by_rows ? 1 + WARP_THREADS : 1);
            mbarrier_init(empty_barrier(shared, stage), T::consumers);
        }
        fence_mbarrier_init();
    }
    if (warp == EXPERTS_COPYING_WARPS) {
        make_expert_table(p.tokens, table);
    }
    __syncthreads();
    griddepcontrol_launch_dependents();
}

/* ---- load ---- */

template <class T>
static __device__ __forceinline__ void copy_b(stage_t<T> stage, const struct experts_coord &coord,
                                              const struct hopper_experts_params &p, const CUtensorMap *b1,
                                              const CUtensorMap *b2, int32_t k_stage, struct mbarrier full) {
    const bool interleaved = p.interleave != 0;
    const int32_t row = interleaved ? 0 : coord.column,
                  batch =
                      interleaved ? (coord.expert * p.epilogue.n + coord.column) / p.interleave : coord.expert;
    mbarrier_arrive_expect_tx(full, coord.width * A_BOX_BYTES * A_BOXES + 2 * T::tile_n * STAGE_FP4_BYTES +
                                        (p.scales_by_rows ? 0 : blocked_scale_tiles<T>(p) * STAGE_SCALE_BYTES));
    cp_async_bulk_tensor_3d(SHARED_MEMBER(stage, fp4[0]), b1, k_stage * STAGE_FP4_BYTES, row, batch, full);
    cp_async_bulk_tensor_3d(SHARED_MEMBER(stage, fp4[1]), b2, k_stage * STAGE_FP4_BYTES,
                            p.epilogue.plain ? row + T::tile_n : row, batch, full);
}

/* One thread: blocked scale factors.  If K ends in the middle of the stage, those of the first half come twice:
 * A is zero in the second half, but a stage's old bytes may be NaN. */
template <class T>
static __device__ __forceinline__ void copy_blocked_scales(stage_t<T> stage, const struct experts_coord &coord,
                                                           const struct hopper_experts_params &p,
                                                           int32_t k_stage, struct mbarrier full) {
    const bool joint = is_joint(p), whole = (k_stage + 1) * STAGE_SCALE_TILES <= p.scale_words;
    for (int which = 0; which < blocked_scale_tiles<T>(p); which++) {
        const int64_t tile = min(coord.scale_tile + (joint ? which : 0), (p.b_rows - 1) / SCALE_TILE_ROWS);
        const uint8_t *from = (joint || which == 0 ? p.sfb1 : p.sfb2) + coord.expert * p.sfb_expert_bytes +
                              (tile * p.scale_words + k_stage * STAGE_SCALE_TILES) * SCALE_TILE_BYTES;
        const uint32_t to = SHARED_MEMBER(stage, scales) + which * STAGE_SCALE_BYTES;
        if (whole) {
            cp_async_bulk(to, from, STAGE_SCALE_BYTES, full);
        } else {
            cp_async_bulk(to, from, SCALE_TILE_BYTES, full);
            cp_async_bulk(to + SCALE_TILE_BYTES, from, SCALE_TILE_BYTES, full);
        }
    }
}

/* One warp: scale factors by rows.  Rows past the end take the last row's. */
template <class T>
static __device__ __forceinline__ void copy_scales_of_rows(stage_t<T> stage, const struct experts_coord &coord,
                                                           const struct hopper_experts_params &p,
                                                           int32_t k_stage, struct mbarrier full) {
    const int lane = threadIdx.x % WARP_THREADS;
    const int32_t last = p.scale_words - 1, word = k_stage * STAGE_SCALE_TILES;
#pragma unroll
    for (int i = 0; i < 2 * T::tile_n / WARP_THREADS; i++) {
        const int in_tile = i * WARP_THREADS + lane, which = in_tile / T::tile_n;
        int32_t row = coord.column + in_tile % T::tile_n;
        if (p.epilogue.plain) {
            row = coord.column + in_tile;
        } else if (p.interleave != 0) {
            row += row / p.interleave * p.interleave + which * p.interleave;
        }
        const uint8_t *scales = (is_joint(p) || which == 0 ? p.sfb1 : p.sfb2) +
                                coord.expert * p.sfb_expert_bytes +
                                (int64_t)min(row, p.b_rows - 1) * p.scale_words * SCALE_WORD_BYTES;
        const uint32_t to = SHARED_MEMBER(stage, scales) + in_tile * STAGE_ROW_SCALES;
        if (p.scale_words % STAGE_SCALE_TILES == 0) {
            cp_async_ca_8(to, scales + word * SCALE_WORD_BYTES);
        } else { /* rows are aligned to words only, and K may end in the middle of the stage */
#pragma unroll
            for (int half = 0; half < STAGE_SCALE_TILES; half++) {
                cp_async_ca_4(to + half * SCALE_WORD_BYTES, scales + min(word + half, last) * SCALE_WORD_BYTES);
            }
        }
    }
    cp_async_mbarrier_arrive_noinc(full);
}

/* One thread. */
template <class T>
static __device__ __forceinline__ void copy_a(shared_t<T> shared, const struct experts_coord &coord,
                                              const CUtensorMap *a, int stage, int32_t k_stage) {
    if constexpr (T::large) {
        const uint32_t to = SHARED_MEMBER(stage_of(shared, stage), a);
        for (int32_t row = 0; row < coord.width; row += LARGE_UNIT_ROWS) {
#pragma unroll
            for (int box = 0; box < A_BOXES; box++) {
                cp_async_bulk_tensor_3d(to + box * T::a_box_step + row * A_BOX_BYTES, a,
                                        k_stage * STAGE_K + box * A_BOX_K, coord.m + row, coord.batch,
                                        full_barrier(shared, stage));
            }
        }
    } else {
        load_a<T>(shared, coord, a, stage, k_stage);
    }
}

/* A copying warp, for one tile after another.  Waits for empty[s]; fills its part of stage s; signals full[s].
 * A is what the kernel before makes. */
template <class T>
static __device__ __forceinline__ void load_experts(shared_t<T> shared, const struct hopper_experts_params &p,
                                                    const struct expert_table *table, const CUtensorMap *a,
                                                    const CUtensorMap *b1, const CUtensorMap *b2, int warp) {
    const int32_t tiles = expert_tiles(p.tokens, table) * p.tiles_n;
    struct ring ring = ring_to_fill();
    if (warp == EXPERTS_COPY_A) {
        griddepcontrol_wait();
    }
    for (int32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const struct experts_coord coord = find_tile_of_experts<T>(p, table, tile);
        for (int32_t k = 0; k < coord.stages; k++) {
            wait(empty_barrier(shared, ring.stage), ring.parity);
            const stage_t<T> stage = stage_of(shared, ring.stage);
            const struct mbarrier full = full_barrier(shared, ring.stage);
            if (warp == EXPERTS_COPY_SCALES && p.scales_by_rows) {
                copy_scales_of_rows<T>(stage, coord, p, k, full);
            } else if (elect_sync()) {
                if (warp == EXPERTS_COPY_B) {
                    copy_b<T>(stage, coord, p, b1, b2, k, full);
                } else if (warp == EXPERTS_COPY_SCALES) {
                    copy_blocked_scales<T>(stage, coord, p, k, full);
                } else {
                    copy_a<T>(shared, coord, a, ring.stage, k);
                }
            }
            advance<T::stages>(ring);
        }
    }
}

} // namespace hopper

#endif
