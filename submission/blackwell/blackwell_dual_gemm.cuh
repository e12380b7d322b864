/* The fused dual GEMM for sm_100a and sm_103a.
 *
 * Read in this order: blackwell_config.h (sizes), this comment, blackwell_tile.cuh (shared memory and TMEM),
 * blackwell_pipeline.cuh (load, main loop), blackwell_warp_scales.cuh (scale factors by warps),
 * blackwell_epilogue.cuh (reduction across CTAs, epilogue), then the kernel below.
 *
 *   load warp                     MMA warp                                       eight epilogue warps
 *   ---------                     --------                                       --------------------
 *   A, B1, B2       --TMA--> +    full --> tcgen05.cp --> scale factors
 *   sfa, sfb1, sfb2 --TMA--> | stage        (TMEM, own columns a stage)
 *                            +--> tcgen05.mma A B1^T --> acc_gate ----gate_full--> SiLU (registers)
 *              ^             '--> tcgen05.mma A B2^T --> acc_up -------up_full---> times up --> C
 *              '-----empty-----------'
 *
 *   barrier           arrivals           complete when
 *   full[s]           1 (load warp)      stage s holds fp4 and scale factors, in a pair those of both CTAs;
 *                     and 2 to 8 a CTA   if warps handle scale factors: these are gathered, or in TMEM
 *   empty[s]          1 (commit)         no MMA and no copy reads stage s, in both CTAs, any more
 *   scales_full[s]    1 (load warp)      stage s holds B's scale factors as they lie in memory
 *   scales_empty[s]   8 (warps), in a    warps have stored the stage's scale factors to the second CTA's TMEM
 *                     first CTA 1
 *   scales_read[i]    1 (commit)         no MMA reads step i's columns of scale factors any more
 *   gate_full         1 (commit)         A B1^T is complete (in tiles that complete it first)
 *   up_full           1 (commit)         both products are complete
 *
 * full and scales_full also count bytes.  A pair uses the first CTA's full.  scales_read exists for stages
 * that share columns.
 *
 * If one MMA computes both products (blackwell_config.h), the epilogue warps, which are idle until the end,
 * wait for scales_full, gather B's scale factors and signal full; gate_full is not used.  If they store all
 * scale factors to TMEM, scales_full announces A's too, each of a CTA's eight warps arrives at full, and there
 * is no tcgen05.cp.  With two MMAs, gate_full then announces both products of half of the columns.
 *
 * In a pair only the first CTA's MMA warp works; its commits arrive at the barriers of both CTAs, except for
 * scales_read, which only that warp waits for.  The last stages' empty barriers are not signalled: nothing is
 * loaded after them.  If CTAs or pairs share a tile's K (split_k), each runs all of this for its share, and at
 * the end the epilogue warps reduce accumulators through the cluster's shared memory (DSMEM). */
#ifndef BLACKWELL_DUAL_GEMM_CUH
#define BLACKWELL_DUAL_GEMM_CUH

#include "blackwell_epilogue.cuh"
#include "blackwell_pipeline.cuh"
#include "blackwell_warp_scales.cuh"

namespace blackwell {

/* ---- kernel ---- */

/* Load warp, one thread: initialises the barriers that it uses. */
template <class T> static __device__ __forceinline__ void init_ring(shared_t<T> shared) {
    for (int stage = 0; stage < T::stages; stage++) {
        mbarrier_init(full_barrier(shared, stage), 1 + (rearranges<T>() ? T::ctas * T::gather_warps : 0));
        mbarrier_init(empty_barrier(shared, stage), 1);
    }
    fence_mbarrier_init();
}

/* MMA warp, one thread, at the same time: the others. */
template <class T>
static __device__ __forceinline__ void init_other_barriers(shared_t<T> shared, int32_t rank) {
    for (int stage = 0; rearranges<T>() && stage < T::stages; stage++) {
        mbarrier_init(scales_full_barrier<T>(shared, stage), 1);
        if constexpr (T::stored) {
            mbarrier_init(scales_empty_barrier<T>(shared, stage), rank == 0 ? 1 : T::gather_warps);
        }
    }
    for (int step = 0; (T::scales_shared || T::transposed) && step < STAGE_STEPS; step++) {
        mbarrier_init(scales_read_barrier<T>(shared, step), T::scales_read_arrivals);
    }
    mbarrier_init(gate_full_barrier<T>(shared), 1);
    mbarrier_init(up_full_barrier<T>(shared), 1);
    fence_mbarrier_init();
}

/* A warp without a part in the reduction of a split K: joins the cluster barriers of epilogue_split_k. */
template <class T> static __device__ __forceinline__ void meet_for_reduction(void) {
    if constexpr (T::split_k > 1) {
        sync_ctas();
        sync_ctas();
    }
}

#define TMEM_BARRIER 1 /* named barrier of all warps but the load warp */

/* A CTA with one tile. */
template <class T, class Epilogue, class P> struct one_tile {
    const struct tile_coord &coord;
    const P &p;

    __device__ __forceinline__ int32_t rank(void) const {
        return coord.rank;
    }

    __device__ __forceinline__ void prefetch_maps(void) const {
        T::prefetch_maps(p);
    }

    __device__ __forceinline__ void read_parameters(void) const {
        trap_if_negative(p.steps_k);
    }

    __device__ __forceinline__ void load_tiles(shared_t<T> shared) const {
        struct ring ring = ring_to_use();
        load<T>(shared, coord, p, ring, 0);
    }

    __device__ __forceinline__ void multiply_tiles(shared_t<T> shared, struct tmem_addr acc) const {
        struct ring ring = ring_to_use();
        multiply<T>(shared, acc, 0, coord, ring, false, up_full_barrier<T>(shared));
    }

    __device__ __forceinline__ void store_tiles(shared_t<T> shared, struct tmem_addr acc) const {
        if constexpr (T::stored) {
            store_scales<T>(shared, acc, coord);
        } else if constexpr (rearranges<T>()) {
            rearrange_scales<T>(shared, coord);
        }
        Epilogue::template run<T>(shared, acc, coord, p);
    }
};

/* A CTA's tiles, from start to end.  All threads of the cluster meet after the barriers' initialization, in a
 * pair after TMEM's allocation, and after the last read of TMEM; the epilogue warps arrive at the last meeting
 * before they have stored. */
template <class T, class Tiles> static __device__ __forceinline__ void run_tiles(const Tiles &tiles) {
    extern __shared__ unsigned char memory[];
    uint32_t start = cvta_to_shared(memory);
    struct shared_address<typename layout_of<T>::storage> shared = {
        (start + SWIZZLE_ATOM_BYTES - 1) / SWIZZLE_ATOM_BYTES *SWIZZLE_ATOM_BYTES
    };
    int warp = threadIdx.x / WARP_THREADS;

    if (warp == LOAD_WARP && elect_sync()) {
        init_ring<T>(shared);
    } else if (warp == MMA_WARP && elect_sync()) {
        init_other_barriers<T>(shared, tiles.rank());
    } else if (warp == OTHER_WARPS) { /* so that they are there when the load warp reads them */
        tiles.read_parameters();
    }
    barrier_cluster_arrive_relaxed();
    if (warp == LOAD_WARP && elect_sync()) {
        tiles.prefetch_maps();
    }
    barrier_cluster_wait_acquire(); /* HW: also, the pair's other CTA must run before tcgen05.alloc (PTX ISA) */
    if (warp == LOAD_WARP) { /* needs only the barriers: starts while the others wait for TMEM's address */
        if constexpr (T::ctas > 1) {
            barrier_cluster_arrive_relaxed();
        }
        if (elect_sync()) {
            tiles.load_tiles(shared);
        }
        __syncwarp();
        if constexpr (T::ctas > 1) {
            barrier_cluster_wait_acquire();
        }
        meet_for_reduction<T>();
        meet_ctas();
        return;
    }
    if (warp == MMA_WARP) {
        tcgen05_alloc<T::ctas>(SHARED_MEMBER(shared, tmem_slot), TMEM_COLUMNS);
        tcgen05_relinquish_alloc_permit<T::ctas>();
    }
    tcgen05_fence_before_thread_sync();
    bar_sync(TMEM_BARRIER, CTA_THREADS - WARP_THREADS); /* publishes TMEM's address in the CTA */
    if constexpr (T::ctas > 1) {
        meet_ctas(); /* the pair's other CTA has allocated too */
    }
    tcgen05_fence_after_thread_sync();
    griddepcontrol_launch_dependents();
    struct tmem_addr acc = {ld_shared_u32(SHARED_MEMBER(shared, tmem_slot))};

    if (warp == MMA_WARP) {
        if (tiles.rank() == 0 && elect_sync()) {
            tiles.multiply_tiles(shared, acc);
        } else if constexpr (T::stored) {
            if (tiles.rank() != 0 && elect_sync()) {
                forward_empty_scales<T>(shared, tiles.coord);
            }
        }
        __syncwarp();
        meet_for_reduction<T>();
        meet_ctas();
        tcgen05_fence_after_thread_sync();
        tcgen05_dealloc<T::ctas>(acc, TMEM_COLUMNS);
        return;
    }
    tiles.store_tiles(shared, acc);
    barrier_cluster_wait_acquire();
}

template <class T, class Epilogue, class P>
static __device__ __forceinline__ void run_tile(const struct tile_coord &coord, const P &p) {
    run_tiles<T>(one_tile<T, Epilogue, P>{coord, p});
}

template <class T>
static __global__ void __launch_bounds__(CTA_THREADS, 1)
    dual_gemm_kernel(const __grid_constant__ blackwell_dual_gemm_params p) {
    run_tile<T, dual_epilogue>(find_tile<T>(p.steps_k), p);
}

} // namespace blackwell

#endif
