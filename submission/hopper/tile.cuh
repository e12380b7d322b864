/* A CTA's tile, its share of the work, its shared memory and barriers. */
#ifndef HOPPER_TILE_CUH
#define HOPPER_TILE_CUH

#include "../gpu/ring.cuh"
#include "config.h"

#define WARP_THREADS 32

template <int warpgroups_, int slabs_, int tokens_, int stages_, int splits_> struct tile {
    static constexpr int warpgroups = warpgroups_, slabs = slabs_, tokens = tokens_, stages = stages_;
    static constexpr int splits = splits_; /* CTAs of a cluster that share a tile's K, then its tokens */
    static constexpr int threads = (warpgroups + 1) * WARPGROUP_THREADS;
    static constexpr int consumers = warpgroups * WARPGROUP_THREADS; /* threads */
    static constexpr int features = warpgroups * slabs * SLAB_FEATURES;
    static constexpr int scale_tile_rows = SCALE_TILE_ROWS_OF(features);

    /* A stage: activations first, for their swizzle atoms' alignment. */
    static constexpr int box_bytes = tokens * ACTIVATION_BOX_BYTES;
    static constexpr int code_bytes = features * STAGE_CODE_BYTES;          /* of one B */
    static constexpr int scale_bytes = scale_tile_rows * STAGE_SCALE_BYTES; /* of one B */
    static constexpr int codes_at = ACTIVATION_BOXES * box_bytes;
    static constexpr int scales_at = codes_at + 2 * code_bytes;
    static constexpr int stage_size = scales_at + 2 * scale_bytes;
    static constexpr int barriers_at = stages * stage_size;
    static constexpr int output_pitch = features * 2 + OUTPUT_PAD_BYTES;
    static constexpr int sums = tokens / 2; /* registers of a slab's sums */
    static constexpr int output_tokens = tokens / splits, output_sums = sums / splits;
    /* Another CTA leaves its sums of our tokens, so many float4 a thread, where activations were; the staged
     * output goes behind them. */
    static constexpr int exchange_vectors = splits == 1 ? 0 : slabs * output_sums / 4;
    static constexpr int stage_vectors = codes_at / (16 * consumers);
    static constexpr int output_at = (exchange_vectors + stage_vectors - 1) / stage_vectors * stage_size;

    static constexpr __device__ __forceinline__ int exchange_at(int vector) {
        return vector / stage_vectors * stage_size + vector % stage_vectors * 16 * consumers;
    }

    static_assert(stage_size % SHARED_ALIGNMENT == 0, "every stage starts a swizzle atom");
    static_assert(tokens % 32 == 0, "whole stmatrix instructions");
    static_assert(barriers_at + stages * 16 + SHARED_ALIGNMENT <= MAX_SHARED_BYTES, "fits in shared memory");
    static_assert(output_at + output_tokens * output_pitch <= barriers_at, "both fit over the stages");
    static_assert(splits <= 2, "each CTA sends half of its sums to the one other CTA");
    static_assert(features % SLAB_FEATURES == 0 && features <= 256, "a TMA box has at most 256 rows");
};

struct shared_map {
    uint32_t base; /* of stage 0 */

    template <class T> __device__ __forceinline__ struct mbarrier full(int stage) const {
        return {base + T::barriers_at + stage * 8};
    }
    template <class T> __device__ __forceinline__ struct mbarrier empty(int stage) const {
        return {base + T::barriers_at + (T::stages + stage) * 8};
    }
};

/* Which tile of C this CTA computes, and which stages of K of it. */
struct place {
    int32_t feature, token, batch; /* first ones */
    int32_t scale_row;             /* first row of scale tiles */
    int32_t rank;                  /* of this CTA among those that share the tile */
    int32_t first_stage, stages;   /* maybe none */
};

template <class T> static __device__ __forceinline__ struct place find_place(int32_t stages_k) {
    struct place place;
    place.feature = blockIdx.x / T::splits * T::features;
    place.token = blockIdx.y * T::tokens;
    place.batch = blockIdx.z;
    place.scale_row = place.feature / SCALE_TILE_ROWS;
    place.rank = blockIdx.x % T::splits;
    place.first_stage = stages_k * place.rank / T::splits;
    place.stages = stages_k * (place.rank + 1) / T::splits - place.first_stage;
    return place;
}

#endif
