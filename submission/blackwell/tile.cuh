/* A CTA's tile, its shared memory, barriers and tensor memory. */
#ifndef BLACKWELL_TILE_CUH
#define BLACKWELL_TILE_CUH

#include "../gpu/tcgen05.cuh"
#include "../gpu/tcgen05_descriptors.h"
#include "kernels.h"

/* A position in the ring of stages, and the parity of the barrier phase to wait for there; it changes every
 * lap.  The load warp fills the first lap without waiting, and from then on waits for the phase before. */
struct ring {
    int stage;
    uint32_t parity;
};

template <int stages> static __device__ __forceinline__ void advance(struct ring &ring) {
    if (++ring.stage == stages) {
        ring.stage = 0;
        ring.parity ^= 1;
    }
}

static __device__ __forceinline__ void wait(struct mbarrier barrier, uint32_t parity) {
    while (!mbarrier_try_wait_parity(barrier, parity)) {
    }
}

/*   shared memory, a stage: | A | B1 | B2 | sfa | sfb1 | sfb2 |
 *   tensor memory:          | A B1^T (gate) | A B2^T (up) | stage 0: 4 x (sfa sfb1 sfb2) | stage 1 ... | */
template <int features_, int stages_, int ctas_, int tail_> struct tile {
    static constexpr int features = features_, stages = stages_, ctas = ctas_, tail = tail_;
    static constexpr int cta_features = features / ctas; /* whose codes this CTA holds */

    static constexpr int a_bytes = TILE_TOKENS * STAGE_CODE_BYTES, b_bytes = cta_features * STAGE_CODE_BYTES;
    static constexpr int b1_at = a_bytes, b2_at = b1_at + b_bytes;
    static constexpr int sfa_at = b2_at + b_bytes, sfb1_at = sfa_at + STAGE_SCALE_BYTES,
                         sfb2_at = sfb1_at + STAGE_SCALE_BYTES;
    static constexpr int stage_size = sfb2_at + STAGE_SCALE_BYTES;
    static constexpr int barriers_at = stages * stage_size;
    static constexpr int slot_at = barriers_at + (2 * stages + 2) * BARRIER_BYTES;

    /* Columns.  Scale factors have their own for each stage, so that no copy overwrites what an MMA reads. */
    static constexpr int up_at = features, scales_at = 2 * features;

    static_assert(stage_size == STAGE_BYTES_OF(features, ctas), "as the host counts it");
    static_assert(slot_at + SLOT_BYTES + SHARED_ALIGNMENT == SHARED_BYTES_OF(features, stages, ctas), "too");
    static_assert(slot_at + SLOT_BYTES + SHARED_ALIGNMENT <= MAX_SHARED_BYTES, "fits in shared memory");
    static_assert(b_bytes % SHARED_ALIGNMENT == 0 && stage_size % SHARED_ALIGNMENT == 0, "whole swizzle atoms");
    static_assert(scales_at + stages * STAGE_COLUMNS <= TENSOR_COLUMNS, "fits in tensor memory");
    static_assert(SCALE_TILE_ROWS % features == 0 && features % 64 == 0,
                  "a tile's scale factors start at half a scale tile and end in it"); /* HW: CUTLASS, N = 64 */
    static_assert(tail >= 1 && tail <= stages, "the last stages are all there at once");
};

struct shared_map {
    uint32_t base; /* of stage 0 */

    template <class T> __device__ __forceinline__ struct mbarrier full(int stage) const {
        return {base + T::barriers_at + stage * BARRIER_BYTES};
    }
    template <class T> __device__ __forceinline__ struct mbarrier empty(int stage) const {
        return {base + T::barriers_at + (T::stages + stage) * BARRIER_BYTES};
    }
    template <class T> __device__ __forceinline__ struct mbarrier gate_full(void) const {
        return {base + T::barriers_at + 2 * T::stages * BARRIER_BYTES};
    }
    template <class T> __device__ __forceinline__ struct mbarrier up_full(void) const {
        return {base + T::barriers_at + (2 * T::stages + 1) * BARRIER_BYTES};
    }
};

/* Which part of C this CTA computes. */
struct place {
    int32_t token, feature, batch; /* first ones */
    int32_t rank;                  /* of this CTA in its pair; the first issues the MMAs */
};

template <class T> static __device__ __forceinline__ struct place find_place(void) {
    struct place place;
    place.token = blockIdx.x * TILE_TOKENS;
    place.feature = blockIdx.y * T::features;
    place.batch = blockIdx.z;
    place.rank = T::ctas == 1 ? 0 : blockIdx.x % T::ctas; /* the cluster is T::ctas wide along x */
    return place;
}

#endif
