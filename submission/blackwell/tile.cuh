/* A CTA's tile, its shared memory, barriers and tensor memory. */
#ifndef BLACKWELL_TILE_CUH
#define BLACKWELL_TILE_CUH

#include "../gpu/ring.cuh"
#include "../gpu/tcgen05.cuh"
#include "../gpu/tcgen05_descriptors.h"
#include "kernels.h"

/*   shared memory, a stage: | A | B1 | B2 | sfa | sfb1 | sfb2 |
 *   tensor memory:          | A B1^T (gate) | A B2^T (up) | stage 0: 4 x (sfa sfb1 sfb2) | stage 1 ... |
 *
 * sfb1 and sfb2 are one scale tile a step each, or two where a tile of features does not fit into one.  Each
 * stage's scale factors have their own columns, or, where these do not fit, all stages the same ones. */
template <int features_, int stages_, int ctas_, int tail_, int splits_> struct tile {
    static constexpr int features = features_, stages = stages_, ctas = ctas_, tail = tail_;
    static constexpr int splits = splits_, cluster = ctas * splits;
    static constexpr int cta_features = features / ctas; /* whose codes this CTA holds */

    static constexpr int a_bytes = TILE_TOKENS * STAGE_CODE_BYTES, b_bytes = cta_features * STAGE_CODE_BYTES;
    static constexpr int b1_at = a_bytes, b2_at = b1_at + b_bytes;
    static constexpr int b_scale_tiles = B_SCALE_TILES(features);
    static constexpr int sfa_at = b2_at + b_bytes, sfb1_at = sfa_at + STAGE_SCALE_BYTES,
                         sfb2_at = sfb1_at + b_scale_tiles * STAGE_SCALE_BYTES;
    static constexpr int stage_size = sfb2_at + b_scale_tiles * STAGE_SCALE_BYTES;
    static constexpr int barriers_at = stages * stage_size;
    static constexpr int slot_at = barriers_at + BARRIERS_OF(stages) * BARRIER_BYTES;

    /* Columns. */
    static constexpr int up_at = features, scales_at = 2 * features;
    static constexpr int step_columns = STEP_COLUMNS_OF(features), stage_columns = STAGE_STEPS * step_columns;
    static constexpr bool scales_shared = stages > SCALE_STAGES_OF(features); /* columns, by all stages */

    static_assert(stage_size == STAGE_BYTES_OF(features, ctas), "as the host counts it");
    static_assert(slot_at + SLOT_BYTES + SHARED_ALIGNMENT == SHARED_BYTES_OF(features, stages, ctas), "too");
    static_assert(slot_at + SLOT_BYTES + SHARED_ALIGNMENT <= MAX_SHARED_BYTES, "fits in shared memory");
    static_assert(b_bytes % SHARED_ALIGNMENT == 0 && stage_size % SHARED_ALIGNMENT == 0, "whole swizzle atoms");
    static_assert(scales_at + (scales_shared ? 1 : stages) * stage_columns <= TENSOR_COLUMNS,
                  "fits in tensor memory");
    static_assert(features % 64 == 0,
                  "a tile's scale factors start at a scale tile or at half of one, as no others "
                  "are known to work"); /* HW: CUTLASS, N = 64 and 192 */
    static_assert(splits > 1 ? tail == 0 : tail >= 1, "without an exchange, the gates are awaited first");
    static_assert(tail <= stages, "the last stages are all there at once");
    static_assert(!scales_shared || tail == 0, "the last stages' scale factors are all there at once");

    /* Of a tile whose K is split: each CTA finishes its share of the features.  The others send their sums of
     * them, each to a part of its own, over the stages. */
    static constexpr int output_features = features / splits;
    static constexpr int sums_bytes = 2 * output_features * TILE_TOKENS * (int)sizeof(float);
    static_assert(features % splits == 0 && (splits - 1) * sums_bytes <= barriers_at, "fit over the stages");
};

/* All threads of the CTA, or of its cluster. */
template <class T> static __device__ __forceinline__ void sync_ctas(void) {
    if constexpr (T::cluster == 1) {
        __syncthreads();
    } else {
        barrier_cluster_arrive_release();
        barrier_cluster_wait_acquire();
    }
}

struct shared_map {
    uint32_t base; /* of stage 0 */

    template <class T> __device__ __forceinline__ struct mbarrier full(int stage) const {
        return {base + T::barriers_at + stage * BARRIER_BYTES};
    }
    template <class T> __device__ __forceinline__ struct mbarrier empty(int stage) const {
        return {base + T::barriers_at + (T::stages + stage) * BARRIER_BYTES};
    }
    template <class T> __device__ __forceinline__ struct mbarrier scales_read(int step) const {
        return {base + T::barriers_at + (2 * T::stages + step) * BARRIER_BYTES};
    }
    template <class T> __device__ __forceinline__ struct mbarrier gate_full(void) const {
        return {base + T::barriers_at + (2 * T::stages + STAGE_STEPS) * BARRIER_BYTES};
    }
    template <class T> __device__ __forceinline__ struct mbarrier up_full(void) const {
        return {base + T::barriers_at + (2 * T::stages + STAGE_STEPS + 1) * BARRIER_BYTES};
    }
};

/* Which part of C this CTA computes. */
struct place {
    int32_t token, feature, batch; /* first ones */
    int32_t rank;                  /* of this CTA in its pair; the first issues the MMAs */
    int32_t split;                 /* which share of K */
    int32_t first_stage, steps;    /* of K */
};

template <class T> static __device__ __forceinline__ struct place find_place(int32_t steps_k) {
    struct place place;
    int32_t stages_k = (steps_k + STAGE_STEPS - 1) / STAGE_STEPS, in_cluster = blockIdx.x % T::cluster;
    place.rank = in_cluster % T::ctas; /* the cluster is T::cluster wide along x */
    place.split = in_cluster / T::ctas;
    place.token = (blockIdx.x / T::cluster * T::ctas + place.rank) * TILE_TOKENS;
    place.first_stage = stages_k * place.split / T::splits;
    place.steps =
        min(stages_k * (place.split + 1) / T::splits * STAGE_STEPS, steps_k) - place.first_stage * STAGE_STEPS;
    place.feature = blockIdx.y * T::features;
    place.batch = blockIdx.z;
    return place;
}

/* Of the CTAs that share an MMA: the first one's rank in the cluster, and all of them as a mask. */
template <class T> static __device__ __forceinline__ uint32_t leader_of(const struct place &place) {
    return place.split * T::ctas;
}

template <class T> static __device__ __forceinline__ uint16_t ctas_of(const struct place &place) {
    return (uint16_t)(((1u << T::ctas) - 1) << leader_of<T>(place));
}

#endif
