/* A narrow tile's products of a step of K, by one of two tensor core instructions
 * (hopper_narrow_dual_gemm.cuh).
 *
 *   team        instruction        A of the problem, in shared memory
 *   one warp    mma.sync m16n8k16  fragments: a lane's 16 bytes are two K steps of 16
 *   warpgroup   wgmma m64nNk16     core matrices of 8 rows by 8 halves, not swizzled: [step of 16][half][row]
 *
 * Either way a warp dequantizes its own rows of B1 and B2 into registers, as the instruction's A operand;
 * fragments and accumulators have the same layout.  mma.sync has little more than half of wgmma's rate, which
 * shows with more than 16 rows of A; but the warps of a warpgroup have to wait for each other. */
#ifndef HOPPER_NARROW_PRODUCTS_CUH
#define HOPPER_NARROW_PRODUCTS_CUH

#include "../../gpu/instructions/wgmma_descriptors.h"
#include "../hopper_dequantize.cuh"

namespace hopper {

/* A vector of partial sums: the CTA of the cluster that adds it up, and its number there. */
struct narrow_place {
    int owner, slot;
};

template <int tile_m_, int stages_, int a_units_, int blocks_, int team_, bool shares_k_> struct narrow_tile {
    static constexpr int stages = stages_, a_units = a_units_;
    static constexpr bool shares_k = shares_k_; /* whether CTAs of a cluster share the tile's K */
    static constexpr int blocks = blocks_;      /* blocks of a warp: each is 8 rows of B1 and 8 of B2 */
    static constexpr int a_blocks = tile_m_ / NARROW_A_ROWS; /* blocks of 8 rows of A */
    static constexpr int vectors = blocks * a_blocks;        /* float4 of a lane's accumulators */
    static constexpr int lane_rows = 2 * blocks, warp_rows = blocks * NARROW_BLOCK_B_ROWS;
    static constexpr int stage_bytes = NARROW_STAGE_BYTES(blocks);
    static constexpr bool by_warpgroup = team_ == NARROW_WARPGROUP;
    static constexpr int ahead = stages_ - (stages_ > 2 ? 1 : 0); /* stages being copied */
    /* Steps of B whose copies a thread starts before it loads A, which is needed first. */
    static constexpr int steps_before_a = 0;
    static constexpr int a_type = CUSTOM_KERNEL_A_NVFP4;
    static_assert(tile_m_ % NARROW_A_ROWS == 0, "a tile's rows of A are whole blocks");
    static_assert(SCALE_TILE_ROWS % warp_rows == 0, "a scale tile's rows are those of whole warps");
    static_assert(team_ == 1 || by_warpgroup, "a team is one warp or one warpgroup");

    /* The CTAs that share K. */
    static __device__ __forceinline__ int split_of(const struct hopper_narrow_layout &layout) {
        return shares_k ? layout.split_k : 1;
    }
    static __device__ __forceinline__ int by_split(const struct hopper_narrow_layout &layout, int i) {
        return shares_k ? i * layout.split_inverse >> NARROW_INVERSE_BITS : i;
    }
    /* The CTA that adds up vector `i` of the warps with number warp_n, and the vector's number there; and the
     * vectors that CTA `rank` adds up. */
    static __device__ __forceinline__ struct narrow_place place_of(const struct hopper_narrow_layout &layout,
                                                                   int warp_n, int i) {
        const int vector = warp_n * vectors + i, slot = by_split(layout, vector);
        return {vector - slot * split_of(layout), slot};
    }
    static __device__ __forceinline__ int places(const struct hopper_narrow_layout &layout, int rank) {
        return by_split(layout, layout.warps_n * vectors - rank + split_of(layout) - 1);
    }
};

/* A lane's accumulators: [gate, gate, up, up] for each block of B and block of A. */
template <class T> struct narrow_accumulators {
    float of[T::blocks][T::a_blocks * 4];
};

template <class T> static __device__ __forceinline__ void clear(struct narrow_accumulators<T> &acc) {
#pragma unroll
    for (int i = 0; i < T::vectors * 4; i++) {
        acc.of[i / (T::a_blocks * 4)][i % (T::a_blocks * 4)] = 0;
    }
}

template <class T>
static __device__ __forceinline__ float (*narrow_vector(struct narrow_accumulators<T> &acc, int block,
                                                        int a_block))[4] {
    return (float (*)[4]) & acc.of[block][a_block * 4];
}

/* A lane's data of a step: 32 elements of each of its rows, and their scale factors. */
template <class T> struct packed_step {
    uint4 fp4[T::blocks][2];
    uint32_t scales[T::blocks][2][2]; /* [block][B1, B2][group] */
};

#define LANE_SCALE_OFFSET(quad_lane) ((quad_lane) % 2 * 2) /* place of a lane's two scale factors in a word */

template <class T>
static __device__ __forceinline__ void read_step(struct packed_step<T> &packed, uint32_t stage, int lane) {
#pragma unroll
    for (int i = 0; i < T::lane_rows; i++) {
        packed.fp4[i / 2][i % 2] = ld_shared_v4(stage + i * NARROW_FP4_BYTES + lane * 16);
        widen_scales_as<T::a_type>(ld_shared_u16(stage + T::lane_rows * NARROW_FP4_BYTES +
                                                 i * NARROW_SCALE_BYTES + lane * SCALE_WORD_BYTES +
                                                 LANE_SCALE_OFFSET(lane % 4)),
                                   packed.scales[i / 2][i % 2]);
    }
}

/* The fragments of a warp's blocks for two K steps of 16: [block][step]. */
template <class T> struct narrow_fragments {
    uint32_t of[T::blocks][2][4];
};

template <class T>
static __device__ __forceinline__ void dequantize_fragments(struct narrow_fragments<T> &fragments,
                                                            const struct packed_step<T> &packed, int word) {
#pragma unroll
    for (int i = 0; i < T::lane_rows; i++) {
        int block = i / 2, which = i % 2;
        uint32_t pairs[4];
        dequantize_word_as<T::a_type>(word_of(packed.fp4[block][which], word),
                                      packed.scales[block][which][word / 2], pairs);
        fragments.of[block][0][which] = pairs[0];
        fragments.of[block][0][2 + which] = pairs[1];
        fragments.of[block][1][which] = pairs[2];
        fragments.of[block][1][2 + which] = pairs[3];
    }
}

/* ---- one warp ---- */

template <class T>
static __device__ __forceinline__ void multiply_fragment(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                                         uint32_t b1) {
    if constexpr (T::a_type == CUSTOM_KERNEL_A_BF16) {
        mma_m16n8k16_bf16(d, a, b0, b1);
    } else {
        mma_m16n8k16(d, a, b0, b1);
    }
}

/* A warp's products with A, whose blocks of this step start at `a`. */
template <class T>
static __device__ __forceinline__ void
multiply_alone(struct narrow_accumulators<T> &acc, const struct packed_step<T> &packed, uint32_t a, int lane) {
#pragma unroll
    for (int word = 0; word < 4; word++) {
        struct narrow_fragments<T> fragments;
        dequantize_fragments<T>(fragments, packed, word);
        uint4 b[T::a_blocks];
#pragma unroll
        for (int i = 0; i < T::a_blocks; i++) {
            b[i] = ld_shared_v4(a + i * NARROW_A_BLOCK_BYTES + word * NARROW_VECTOR_BYTES + lane * 16);
        }
        /* Products that share an accumulator are far apart, because each waits for the one before. */
#pragma unroll
        for (int i = 0; i < T::vectors; i++) {
            int block = i % T::blocks, a_block = i / T::blocks;
            multiply_fragment<T>(*narrow_vector<T>(acc, block, a_block), fragments.of[block][0], b[a_block].x,
                                 b[a_block].y);
        }
#pragma unroll
        for (int i = 0; i < T::vectors; i++) {
            int block = i % T::blocks, a_block = i / T::blocks;
            multiply_fragment<T>(*narrow_vector<T>(acc, block, a_block), fragments.of[block][1], b[a_block].z,
                                 b[a_block].w);
        }
    }
}

/* ---- a warpgroup ---- */

#define CORE_MATRIX_BYTES 128                     /* HW: 8 consecutive rows of 16 bytes */
#define CORE_STEP_BYTES   (2 * CORE_MATRIX_BYTES) /* a block of A for one wgmma, whose K is 16 */

/* Stores the pairs of a lane's word of A as core matrices: in row lane / 4 of each matrix this lane fills
 * halves 2 (lane % 4) and the next one. */
static __device__ __forceinline__ void store_core_matrices(uint32_t block, int word, int lane,
                                                           const uint32_t (&pairs)[4]) {
    constexpr int row_bytes = CORE_MATRIX_BYTES / NARROW_A_ROWS;
    stmatrix_x4(block + word * 2 * CORE_STEP_BYTES + lane * row_bytes, pairs);
}

/* A warpgroup's products.  The last two K steps' products may still run afterwards: their fragments and A stay
 * in use. `more`: 0 for the first step, whose products replace the accumulators. */
template <class T>
static __device__ __forceinline__ void
multiply_together(struct narrow_accumulators<T> &acc, struct narrow_fragments<T> (&fragments)[2],
                  const struct packed_step<T> &packed, uint32_t a, int more) {
    const uint64_t blocks_of_a = wgmma_core_matrix_descriptor(a, CORE_MATRIX_BYTES, NARROW_A_BLOCK_BYTES);
#pragma unroll
    for (int word = 0; word < 4; word++) {
        struct narrow_fragments<T> &ready = fragments[word % 2];
        dequantize_fragments<T>(ready, packed, word);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < 2 * T::blocks; i++) {
            int block = i % T::blocks, step = i / T::blocks;
            wgmma_as<T::a_type, T::a_blocks * NARROW_A_ROWS>::mma_async(
                acc.of[block], ready.of[block][step],
                wgmma_descriptor_plus(blocks_of_a, (2 * word + step) * CORE_STEP_BYTES),
                more || word + step > 0);
        }
        wgmma_commit_group();
        wgmma_wait_group<1>(); /* the other fragments are free */
    }
}

template <class T> static __device__ __forceinline__ void keep_all(struct narrow_accumulators<T> &acc) {
#pragma unroll
    for (int i = 0; i < T::vectors * 4; i++) {
        keep_after_wait(acc.of[i / (T::a_blocks * 4)][i % (T::a_blocks * 4)]);
    }
}

/* Waits for all of the warpgroup's products: afterwards accumulators may be read, and A overwritten. */
template <class T>
static __device__ __forceinline__ void wait_for_products(struct narrow_accumulators<T> &acc) {
    wgmma_wait_group<0>();
    keep_all<T>(acc);
}

} // namespace hopper

#endif
