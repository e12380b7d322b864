/* A ring of stages between a warp that fills them and warps that use them. */
#ifndef GPU_RING_CUH
#define GPU_RING_CUH

#include <type_traits>

#include "../instructions/ptx.cuh"
#include "shared_address.cuh"

/* A position in the ring, and the parity of its lap: a stage's barriers complete one phase a lap. */
struct ring {
    int stage;
    uint32_t parity;
};

/* At the start, for who waits until stages are full. */
static __device__ __forceinline__ struct ring ring_to_use(int stage = 0) {
    return {stage, 0};
}

/* At the start, for who fills stages and waits until they are empty.  In the first lap nothing has to be waited
 * for: the phase before a barrier's first counts as complete, and has parity 1. */
static __device__ __forceinline__ struct ring ring_to_fill(void) {
    return {0, 1};
}

/* The same after a lap without waiting. */
static __device__ __forceinline__ struct ring second_lap(void) {
    return {0, 0};
}

/* Moves on by `step` stages; their number is a multiple of `step`. */
template <int stages, int step = 1> static __device__ __forceinline__ void advance(struct ring &ring) {
    ring.stage += step;
    if (ring.stage >= stages) {
        ring.stage -= stages;
        ring.parity ^= 1;
    }
}

/* A stage of a ring, and the mbarriers that signal that it is full or empty.  The ring's storage in shared
 * memory has the arrays `stages`, `full` and `empty`. */
template <class Storage>
static __device__ __forceinline__ auto stage_of(struct shared_address<Storage> shared, int stage) {
    return shared_element<std::remove_extent_t<decltype(Storage::stages)>>(SHARED_MEMBER(shared, stages),
                                                                           stage);
}

template <class Storage>
static __device__ __forceinline__ struct mbarrier full_barrier(struct shared_address<Storage> shared,
                                                               int stage) {
    return mbarrier_element(SHARED_MEMBER(shared, full), stage);
}

template <class Storage>
static __device__ __forceinline__ struct mbarrier empty_barrier(struct shared_address<Storage> shared,
                                                                int stage) {
    return mbarrier_element(SHARED_MEMBER(shared, empty), stage);
}

static __device__ __forceinline__ void wait(struct mbarrier barrier, uint32_t parity) {
    while (!mbarrier_try_wait_parity(barrier, parity)) {
    }
}

#endif
