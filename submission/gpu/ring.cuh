/* A ring of stages between a warp that fills them and warps that use them. */
#ifndef GPU_RING_CUH
#define GPU_RING_CUH

#include "ptx.cuh"

/* A position in the ring, and the parity of its lap: a stage's barriers complete a phase each lap.  Who fills
 * the stages has nothing to wait for in the first lap. */
struct ring {
    int stage;
    uint32_t parity;
};

/* To the next stage, or to the `step`th after it, of which there are a multiple of `step`. */
template <int stages, int step = 1> static __device__ __forceinline__ void advance(struct ring &ring) {
    ring.stage += step;
    if (ring.stage >= stages) {
        ring.stage -= stages;
        ring.parity ^= 1;
    }
}

static __device__ __forceinline__ void wait(struct mbarrier barrier, uint32_t parity) {
    while (!mbarrier_try_wait_parity(barrier, parity)) {
    }
}

#endif
