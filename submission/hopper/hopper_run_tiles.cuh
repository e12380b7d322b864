/* The skeleton of the wgmma GEMMs' kernels: one warpgroup copies, the others multiply and store.
 *
 * A kernel calls run_tiles(memory, work).  Its `work` is a struct with the kernel's parameters and
 *
 *   storage                                   the type of what lies in shared memory, from `memory` on
 *   copying_registers, multiplying_registers  of a thread of either kind of warpgroup
 *   start(storage)                            all threads, before they meet: initializes barriers
 *   copy(storage)                             the threads of the first warpgroup
 *   multiply(storage)                         those of the others
 *
 * A `work` whose consumers take tile after tile has a multiply() that calls consume_tiles(), and for that
 *
 *   place(tile)                               the place of tile number `tile`
 *   multiply_tile(acc, consumed, shared, coord)  a tile's products, complete
 *   store_tile(acc, coord, storage)           their outputs -> C */
#ifndef HOPPER_RUN_TILES_CUH
#define HOPPER_RUN_TILES_CUH

#include "hopper_pipeline.cuh"

namespace hopper {

/* This thread's warp, which the compiler then knows to be the same in the whole warp. */
static __device__ __forceinline__ int uniform_warp(void) {
    return __shfl_sync(~0u, threadIdx.x / WARP_THREADS, 0);
}

/* The first swizzle atom in shared memory whose start the linker does not align. */
static __device__ __forceinline__ unsigned char *first_atom(unsigned char *memory) {
    const uint32_t misaligned = cvta_to_shared(memory) % SWIZZLE_ATOM_BYTES;
    return memory + (SWIZZLE_ATOM_BYTES - misaligned) % SWIZZLE_ATOM_BYTES;
}

template <class Work>
static __device__ __forceinline__ void run_tiles(unsigned char *memory, const Work &work) {
    typename Work::storage *storage = (typename Work::storage *)memory;
    work.start(storage);
    __syncthreads();
    griddepcontrol_launch_dependents();
    if (threadIdx.x < WARPGROUP_THREADS) {
        setmaxnreg_dec<Work::copying_registers>();
        work.copy(storage);
    } else {
        setmaxnreg_inc<Work::multiplying_registers>();
        work.multiply(storage);
    }
}

/* Consumer warpgroup, for the CTA's tiles among `tiles`.  Gives a tile's last stage back before it makes the
 * tile's outputs. */
template <class T, class Work>
static __device__ __forceinline__ void consume_tiles(const Work &work, typename Work::storage *storage,
                                                     int32_t tiles) {
    const shared_t<T> shared = ring_of<T>(storage);
    struct consumed consumed = {ring_to_use(), -1};
    for (int32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const typename T::coord coord = work.place(tile, storage);
        float acc[T::m_blocks][T::accs];
        work.multiply_tile(acc, consumed, shared, coord);
        mbarrier_arrive(empty_barrier(shared, consumed.previous));
        consumed.previous = -1;
        work.store_tile(acc, coord, storage);
    }
}

} // namespace hopper

#endif
