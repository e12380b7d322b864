/* The pipeline that the mma.sync GEMMs share: the load warp and the MMA warps.
 *
 * Read the first comment of geforce_dual_gemm.cuh before.  T is a GEMM's tile (geforce_tile.cuh), P its
 * kernel's parameters. */
#ifndef GEFORCE_PIPELINE_CUH
#define GEFORCE_PIPELINE_CUH

#include "../gpu/instructions/sm120.cuh"
#include "geforce_tile.cuh"

namespace geforce {

/* ---- load ---- */

/* Copies `bytes` of scale factors to a stage that starts with step number `step`, from row number `tile_row` of
 * the tensor's scale tiles, each row steps_k tiles long; past the tensor's end from its last row, which affects
 * no output. */
static __device__ __forceinline__ void copy_scales(uint32_t to, const uint8_t *scales, int32_t tile_rows,
                                                   int32_t batch, int32_t tile_row, int32_t steps_k,
                                                   int32_t step, uint32_t bytes, struct mbarrier full) {
    const int64_t row = (int64_t)batch * tile_rows + min(tile_row, tile_rows - 1);
    cp_async_bulk_cta(to, scales + (row * steps_k + step) * SCALE_TILE_BYTES, bytes, full);
}

/* Load warp, one thread.  Waits for the previous kernel (PDL), then for each empty[s];
 * fills stage s: out-of-bounds elements read as zero, scale factors come only for the steps that K has;
 * signals full[s]: one arrival and the stage's bytes. */
template <class T, class P> static __device__ __forceinline__ void load(shared_t<T> shared, const P &p) {
    constexpr int fp4_bytes = (T::tile_m + 2 * T::tile_n) * STAGE_FP4_BYTES;
    struct ring ring = ring_to_fill();
    griddepcontrol_wait();
#pragma unroll 1
    for (int32_t index = blockIdx.x; index < p.tiles; index += gridDim.x) {
        const auto &gemm = gemm_of(p, index);
        const struct tile_coord coord = find_tile<T>(gemm, index);
        const int32_t a_tile_rows = (gemm.m + SCALE_TILE_ROWS - 1) / SCALE_TILE_ROWS;
        const int32_t b_tile_rows = (gemm.n + SCALE_TILE_ROWS - 1) / SCALE_TILE_ROWS;
        const int32_t a_tile_row = coord.m / SCALE_TILE_ROWS, b_tile_row = coord.n / SCALE_TILE_ROWS;
#pragma unroll 1
        for (int32_t step = 0; step < gemm.steps_k; step += STAGE_STEPS) {
            const struct mbarrier full = full_barrier(shared, ring.stage);
            const stage_t<T> to = stage_of(shared, ring.stage);
            const uint32_t scale_bytes = min(STAGE_STEPS, gemm.steps_k - step) * SCALE_TILE_BYTES;
            const int32_t k = step * (STEP_K / 2);
            wait(empty_barrier(shared, ring.stage), ring.parity);
            mbarrier_arrive_expect_tx(full, fp4_bytes + (1 + T::sfb_copies) * scale_bytes);
            cp_async_bulk_tensor_3d_cta(SHARED_MEMBER(to, b[0]), &gemm.b1, k, coord.n, coord.batch, full);
            cp_async_bulk_tensor_3d_cta(SHARED_MEMBER(to, b[1]), second_b(gemm), k, coord.n + T::second_column,
                                        coord.batch, full);
            cp_async_bulk_tensor_3d_cta(SHARED_MEMBER(to, a), &gemm.a, k, coord.m, coord.batch, full);
#pragma unroll
            for (int i = 0; i < T::b_scale_tiles; i++) {
                copy_scales(SHARED_MEMBER(to, sfb[0]) + i * STAGE_SCALE_BYTES, gemm.sfb1, b_tile_rows,
                            coord.batch, b_tile_row + i, gemm.steps_k, step, scale_bytes, full);
                if constexpr (T::products == 2) {
                    copy_scales(SHARED_MEMBER(to, sfb[1]) + i * STAGE_SCALE_BYTES, gemm.sfb2, b_tile_rows,
                                coord.batch, b_tile_row + i, gemm.steps_k, step, scale_bytes, full);
                }
            }
            copy_scales(SHARED_MEMBER(to, sfa), gemm.sfa, a_tile_rows, coord.batch, a_tile_row, gemm.steps_k,
                        step, scale_bytes, full);
            advance<T::stages>(ring);
        }
    }
}

/* ---- main loop ---- */

/* A lane's places in a stage: offsets in bytes from the stage's start. */
template <class T> struct lane_places {
    uint32_t a, b;            /* unit of the lane's row of A and of B1, for the first block's first ldmatrix */
    uint32_t sfa[T::a_words]; /* words of A's scale factors that the lane supplies, in a step's tile */
    uint32_t sfb[T::b_words]; /* the same for B1 */
};

/* Bytes of a block's rows, which is the distance from one block to the next. */
#define A_BLOCK_BYTES (MMA_M * STAGE_FP4_BYTES)
#define B_BLOCK_BYTES (MMA_N * STAGE_FP4_BYTES)
#define MATRIX_ROWS   8 /* HW: rows of each of an ldmatrix's four matrices */

/* The offset of unit `unit` of row `row`; row 0 is where the swizzle repeats. */
static __device__ __forceinline__ uint32_t swizzled(int row, int unit) {
    const int moved = unit ^ (row / SWIZZLE_ROWS_SHARE % (STAGE_FP4_BYTES / SWIZZLE_UNIT));
    return row * STAGE_FP4_BYTES + moved * SWIZZLE_UNIT;
}

/* The row, among the `rows` rows of a warp's part, whose scale factors are the lane's word number `word`: MMAs
 * read those of row 8 i + r of 32 from lane 4 r + i.  A lane without such a row supplies the first row's, which
 * no MMA reads. */
static __device__ __forceinline__ int supplied_row(int lane, int word, int rows) {
    const int row = word * WARP_THREADS + lane % 4 * MATRIX_ROWS + lane / 4;
    return row < rows ? row : 0;
}

template <class T>
static __device__ __forceinline__ struct lane_places<T> lane_places_of(struct tile_coord coord) {
    using stage = struct shared_stage<T>;
    const int lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    const int first_m = warp % T::warps_m * T::warp_m, first_n = warp / T::warps_m * T::warp_n;
    const int matrix = lane / MATRIX_ROWS, row = lane % MATRIX_ROWS;
    struct lane_places<T> places;
    /* A's four matrices are 16 rows by two units, which is a step; B's are eight rows by four units, which is
     * a stage. */
    places.a = (uint32_t)offsetof(stage, a) + swizzled(first_m + matrix % 2 * MATRIX_ROWS + row, matrix / 2);
    places.b = (uint32_t)offsetof(stage, b) + swizzled(first_n + row, matrix);
#pragma unroll
    for (int i = 0; i < T::a_words; i++) {
        const int scale_row = coord.m % SCALE_TILE_ROWS + first_m + supplied_row(lane, i, T::warp_m);
        places.sfa[i] = scale_word_at((uint32_t)offsetof(stage, sfa), scale_row);
    }
#pragma unroll
    for (int i = 0; i < T::b_words; i++) {
        const int scale_row = coord.n % SCALE_TILE_ROWS + first_n + supplied_row(lane, i, T::warp_n);
        places.sfb[i] = scale_word_at(
            (uint32_t)offsetof(stage, sfb) + scale_row / SCALE_TILE_ROWS * STAGE_SCALE_BYTES, scale_row);
    }
    return places;
}

/* A warp's accumulators: a lane has four of each block of 16 x 8 (sm120.cuh). */
template <class T> struct accumulators {
    float gate[T::m_blocks][T::n_blocks][4], up[T::m_blocks][T::n_blocks][4];
};

/* A warp's scale factors of a stage. */
template <class T> struct stage_scales {
    uint32_t a[STAGE_STEPS][T::a_words], b1[STAGE_STEPS][T::b_words], b2[STAGE_STEPS][T::b_words];
};

/* Loads a stage's scale factors; zeros for a step past the end of K, because shared memory might hold NaN
 * there, which times the step's zero fp4 would not be zero. */
template <class T>
static __device__ __forceinline__ void load_scales(struct stage_scales<T> &scales, uint32_t stage,
                                                   const struct lane_places<T> &places, int32_t steps) {
#pragma unroll
    for (int step = 0; step < STAGE_STEPS; step++) {
        const uint32_t tile = stage + step * SCALE_TILE_BYTES;
        const bool there = step == 0 || step < steps;
#pragma unroll
        for (int i = 0; i < T::a_words; i++) {
            scales.a[step][i] = there ? ld_shared_u32(tile + places.sfa[i]) : 0;
        }
#pragma unroll
        for (int i = 0; i < T::b_words; i++) {
            scales.b1[step][i] = there ? ld_shared_u32(tile + places.sfb[i]) : 0;
            scales.b2[step][i] = there ? ld_shared_u32(tile + places.sfb[i] + layout_of<T>::second_sfb) : 0;
        }
    }
}

/* A stage's MMAs for one block of columns.  The block's number says which word of scale factors it uses, and
 * which lane of each four supplies it, which the instruction takes as a constant. */
template <class T, int n_block>
static __device__ __forceinline__ void
multiply_column(struct accumulators<T> &acc, const uint32_t (&a)[T::m_blocks][STAGE_STEPS][4],
                const struct stage_scales<T> &scales, const uint32_t (&b1)[4], const uint32_t (&b2)[4]) {
    constexpr int word = n_block / 4, thread = n_block % 4;
#pragma unroll
    for (int step = 0; step < STAGE_STEPS; step++) {
#pragma unroll
        for (int m = 0; m < T::m_blocks; m++) {
            const uint32_t sfa = scales.a[step][m / 2];
            const uint32_t sfb1 = scales.b1[step][word], sfb2 = scales.b2[step][word];
            float (&gate)[4] = acc.gate[m][n_block], (&up)[4] = acc.up[m][n_block];
            if (m % 2 == 0) {
                mma_m16n8k64_mxf4nvf4<0, thread>(gate, a[m][step], b1[2 * step], b1[2 * step + 1], sfa, sfb1);
                mma_m16n8k64_mxf4nvf4<0, thread>(up, a[m][step], b2[2 * step], b2[2 * step + 1], sfa, sfb2);
            } else {
                mma_m16n8k64_mxf4nvf4<1, thread>(gate, a[m][step], b1[2 * step], b1[2 * step + 1], sfa, sfb1);
                mma_m16n8k64_mxf4nvf4<1, thread>(up, a[m][step], b2[2 * step], b2[2 * step + 1], sfa, sfb2);
            }
        }
    }
}

/* For the blocks of columns from n_block on: loads fragments of B1 and B2 for all of the stage's K, then issues
 * their MMAs. */
template <class T, int n_block>
static __device__ __forceinline__ void multiply_columns(struct accumulators<T> &acc,
                                                        const uint32_t (&a)[T::m_blocks][STAGE_STEPS][4],
                                                        const struct stage_scales<T> &scales, uint32_t b) {
    if constexpr (n_block < T::n_blocks) {
        uint32_t b1[4], b2[4];
        ldmatrix_x4(b1, b + n_block * B_BLOCK_BYTES);
        ldmatrix_x4(b2, b + n_block * B_BLOCK_BYTES + (uint32_t)sizeof(shared_stage<T>::b[0]));
        multiply_column<T, n_block>(acc, a, scales, b1, b2);
        multiply_columns<T, n_block + 1>(acc, a, scales, b);
    }
}

/* A stage of K, of which `steps` steps exist. */
template <class T>
static __device__ __forceinline__ void multiply_stage(struct accumulators<T> &acc, uint32_t stage,
                                                      const struct lane_places<T> &places, int32_t steps) {
    struct stage_scales<T> scales;
    uint32_t a[T::m_blocks][STAGE_STEPS][4];
    load_scales<T>(scales, stage, places, steps);
#pragma unroll
    for (int m = 0; m < T::m_blocks; m++) {
#pragma unroll
        for (int step = 0; step < STAGE_STEPS; step++) { /* the next step is two units further, swizzled */
            ldmatrix_x4(a[m][step], ((stage + places.a) ^ (step * 2 * SWIZZLE_UNIT)) + m * A_BLOCK_BYTES);
        }
    }
    multiply_columns<T, 0>(acc, a, scales, stage + places.b);
}

/* MMA warp.  Waits for full[s]; multiplies its part of the tile; signals empty[s], one arrival a warp, once its
 * reads of stage s are complete; stores its part of C at the end of K. */
template <class T, class Epilogue, class P>
static __device__ __forceinline__ void multiply(shared_t<T> shared, const P &p) {
    struct ring ring = ring_to_use();
#pragma unroll 1
    for (int32_t index = blockIdx.x; index < p.tiles; index += gridDim.x) {
        const auto &gemm = gemm_of(p, index);
        const struct tile_coord coord = find_tile<T>(gemm, index);
        const struct lane_places<T> places = lane_places_of<T>(coord);
        struct accumulators<T> acc = {};
#pragma unroll 1
        for (int32_t step = 0; step < gemm.steps_k; step += STAGE_STEPS) {
            wait(full_barrier(shared, ring.stage), ring.parity);
            multiply_stage<T>(acc, stage_of(shared, ring.stage).value, places, gemm.steps_k - step);
            __syncwarp();
            if (threadIdx.x % WARP_THREADS == 0) {
                mbarrier_arrive(empty_barrier(shared, ring.stage));
            }
            advance<T::stages>(ring);
        }
        Epilogue::template run<T>(acc.gate, acc.up, coord, gemm);
    }
}

} // namespace geforce

#endif
