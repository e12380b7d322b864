/* A CTA's tile, its shared memory, and positions in rings of barriers. */
#ifndef HOPPER_TILE_CUH
#define HOPPER_TILE_CUH

#include "../gpu/ptx.cuh"
#include "config.h"

#define WARP_THREADS 32

/* A position in a ring, and the parity of the barrier phase to wait for there; it changes every lap. */
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

template <int warpgroups_, int slabs_, int tokens_, int stages_> struct tile {
    static constexpr int warpgroups = warpgroups_, slabs = slabs_, tokens = tokens_, stages = stages_;
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
    static constexpr int weight_bytes = 2 * (code_bytes + scale_bytes);
    static constexpr int slots_at = stages * stage_size;
    static constexpr int slot_scales_at = tokens * STAGE_CODE_BYTES;
    static constexpr int slot_size = slot_scales_at + STAGE_SCALE_BYTES;
    static constexpr int barriers_at = slots_at + CODE_SLOTS * slot_size;
    static constexpr int output_pitch = features * 2 + OUTPUT_PAD_BYTES;
    static constexpr int sums = tokens / 2; /* registers of a slab's sums */

    static_assert(stage_size % SHARED_ALIGNMENT == 0, "every stage starts a swizzle atom");
    static_assert(tokens % 32 == 0, "whole stmatrix instructions");
    static_assert(slot_size % CODE_ALIGNMENT == 0, "every slot starts a swizzle atom");
    static_assert(barriers_at + (stages + CODE_SLOTS) * 16 + SHARED_ALIGNMENT <= MAX_SHARED_BYTES,
                  "fits in shared memory");
    static_assert(tokens * output_pitch <= slots_at, "the staged output fits over the stages");
    static_assert(WARPGROUP_THREADS % tokens == 0, "whole words a producer thread");
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
    template <class T> __device__ __forceinline__ struct mbarrier codes_full(int slot) const {
        return {base + T::barriers_at + (2 * T::stages + slot) * 8};
    }
    template <class T> __device__ __forceinline__ struct mbarrier codes_empty(int slot) const {
        return {base + T::barriers_at + (2 * T::stages + CODE_SLOTS + slot) * 8};
    }
};

/* Which tile of C this CTA computes. */
struct place {
    int32_t feature, token, batch; /* first ones */
    int32_t scale_row;             /* first row of scale tiles */
};

#endif
