/* The fused dual GEMM for sm_100a and sm_103a.
 *
 *   load warp                     MMA warp                                       four epilogue warps
 *   ---------                     --------                                       -------------------
 *   A, B1, B2       --TMA--> +    full --> tcgen05.cp --> scale factors
 *   sfa, sfb1, sfb2 --TMA--> | stage        (tensor memory, own columns a stage)
 *                            +--> tcgen05.mma A B1^T --> gate sums --gate_full--> SiLU (registers)
 *              ^             '--> tcgen05.mma A B2^T --> up sums ----up_full----> times up --> C
 *              '-----empty-----------'
 *
 *   barrier         arrivals             bytes         complete when
 *   full[s]         1 (load warp)        stage_size    stage s holds codes and scale factors, in a pair that of
 *                                        a CTA         both CTAs (only the first one's barrier is used)
 *   empty[s]        1 (tcgen05.commit)   0             no MMA and no copy reads stage s, in both CTAs, any more
 *   scales_read[i]  1 (tcgen05.commit)   0             no MMA reads step i's columns of scale factors any more,
 *                                                      where all stages share them
 *   gate_full       1 (tcgen05.commit)   0             A B1^T is complete (not where K is split)
 *   up_full         1 (tcgen05.commit)   0             both products are complete
 *
 * A pair of CTAs has one MMA warp at work, the first CTA's, whose commits arrive at the barriers of both (but
 * for scales_read, which that warp alone waits for).  The last stages are not given back: nothing is loaded
 * after them.  Where CTAs or pairs share a tile's K (splits), each has all of this for its share, and in the
 * end the epilogue warps exchange sums through the cluster's shared memory. */
#ifndef BLACKWELL_DUAL_GEMM_KERNEL_CUH
#define BLACKWELL_DUAL_GEMM_KERNEL_CUH

#include "exchange.cuh"
#include "load.cuh"
#include "multiply.cuh"

enum role { LOAD_WARP, MMA_WARP };

template <class T> static __device__ __forceinline__ void init_barriers(const struct shared_map &shared) {
    for (int stage = 0; stage < T::stages; stage++) {
        mbarrier_init(shared.full<T>(stage), 1);
        mbarrier_init(shared.empty<T>(stage), 1);
    }
    for (int step = 0; T::scales_shared && step < STAGE_STEPS; step++) {
        mbarrier_init(shared.scales_read<T>(step), 1);
    }
    mbarrier_init(shared.gate_full<T>(), 1);
    mbarrier_init(shared.up_full<T>(), 1);
    fence_mbarrier_init();
}

static __device__ __forceinline__ void prefetch_maps(const struct dual_gemm_params &p) {
    prefetch_tensormap(&p.b1);
    prefetch_tensormap(&p.b2);
    prefetch_tensormap(&p.a);
    prefetch_tensormap(&p.sfb1);
    prefetch_tensormap(&p.sfb2);
    prefetch_tensormap(&p.sfa);
}

template <class T>
static __global__ void __launch_bounds__(BLOCK_THREADS, 1)
    dual_gemm_kernel(const __grid_constant__ dual_gemm_params p) {
    extern __shared__ unsigned char memory[];
    uint32_t start = cvta_to_shared(memory);
    struct shared_map shared = {(start + SHARED_ALIGNMENT - 1) / SHARED_ALIGNMENT * SHARED_ALIGNMENT};
    struct place place = find_place<T>(p.steps_k);
    int warp = threadIdx.x / WARP_THREADS;

    if (warp == LOAD_WARP) {
        if (elect_sync()) {
            prefetch_maps(p);
            init_barriers<T>(shared);
        }
    } else if (warp == MMA_WARP) {
        tcgen05_alloc<T::ctas>(shared.base + T::slot_at, TENSOR_COLUMNS);
        tcgen05_relinquish_alloc_permit<T::ctas>();
    }
    tcgen05_fence_before_thread_sync();
    sync_ctas<T>();
    tcgen05_fence_after_thread_sync();
    griddepcontrol_launch_dependents();
    struct tensor_address sums = {ld_shared_u32(shared.base + T::slot_at)};

    if (warp == LOAD_WARP) {
        if (elect_sync()) {
            load<T>(shared, place, p);
        }
        __syncwarp();
    } else if (warp == MMA_WARP) {
        if (place.rank == 0 && elect_sync()) {
            multiply<T>(shared, sums, place);
        }
        __syncwarp();
    } else {
        struct row row = find_row(sums, place, p);
        if constexpr (T::splits == 1) {
            finish<T>(shared, row);
        } else {
            finish_split<T>(shared, row, place);
        }
    }
    if (T::splits > 1 && warp <= MMA_WARP) { /* as finish_split does */
        sync_ctas<T>();
        sync_ctas<T>();
    }
    tcgen05_fence_before_thread_sync();
    sync_ctas<T>();
    if (warp == MMA_WARP) {
        tcgen05_fence_after_thread_sync();
        tcgen05_dealloc<T::ctas>(sums, TENSOR_COLUMNS);
    }
}

#endif
