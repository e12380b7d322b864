/* The fused dual GEMM for sm_120a and sm_121a.
 *
 * Read in this order: geforce_config.h (sizes), this comment, geforce_tile.cuh (shared memory),
 * geforce_pipeline.cuh (load, main loop), geforce_epilogue.cuh, then the kernel below.
 *
 *   load warp                            eight MMA warps, each for its part of the tile
 *   ---------                            ------------------------------------------
 *   A, B1, B2       --TMA--> +           full --ldmatrix--> fragments of A, B1, B2 (registers)
 *   sfa, sfb1, sfb2 --bulk-> | stage ----------LDS--------> scale factors (registers)
 *              ^             '                               mma.sync A B1^T --> acc_gate (registers)
 *              |                                             mma.sync A B2^T --> acc_up
 *              '-----empty-----------------------------------------'
 *                                        end of K: silu(acc_gate) * acc_up --fp16, transposed in quads--> C
 *
 *   barrier    arrivals                 bytes          complete when
 *   full[s]    1 (load warp)            a stage's      stage s holds fp4 and scale factors
 *   empty[s]   its MMA warps            0              no warp reads stage s any more
 *
 * A CTA computes one tile after another; the load warp copies the next tile's stages while the MMA warps are in
 * the epilogue.  These chips have neither tensor memory nor multicast between CTAs: MMAs read registers, and
 * tiles with the same rows of B share them through L2. */
#ifndef GEFORCE_DUAL_GEMM_CUH
#define GEFORCE_DUAL_GEMM_CUH

#include "geforce_epilogue.cuh"
#include "geforce_pipeline.cuh"

namespace geforce {

/* ---- kernel ---- */

template <class T> static __device__ __forceinline__ void init_barriers(shared_t<T> shared) {
    for (int stage = 0; stage < T::stages; stage++) {
        mbarrier_init(full_barrier(shared, stage), 1);
        mbarrier_init(empty_barrier(shared, stage), T::warps);
    }
    fence_mbarrier_init();
}

/* Computes all of a CTA's tiles; P are the parameters of the dual GEMM or of a list of groups. */
template <class T, class Epilogue, class P> static __device__ __forceinline__ void run_tiles(const P &p) {
    extern __shared__ unsigned char memory[];
    const uint32_t start = cvta_to_shared(memory);
    const struct shared_address<typename layout_of<T>::storage> shared = {
        (start + SWIZZLE_ATOM_BYTES - 1) / SWIZZLE_ATOM_BYTES *SWIZZLE_ATOM_BYTES
    };
    const int warp = threadIdx.x / WARP_THREADS;
    if (warp == T::warps && elect_sync()) {
        const auto &gemm = gemm_of(p, blockIdx.x);
        prefetch_tensormap(&gemm.b1);
        prefetch_tensormap(second_b(gemm));
        prefetch_tensormap(&gemm.a);
        init_barriers<T>(shared);
    }
    __syncthreads();
    griddepcontrol_launch_dependents();
    if (warp >= T::warps) {
        setmaxnreg_dec<LOAD_REGISTERS>();
        if (warp == T::warps && elect_sync()) {
            load<T>(shared, p);
        }
    } else {
        setmaxnreg_inc<MMA_REGISTERS>();
        multiply<T, Epilogue>(shared, p);
    }
}

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    dual_gemm_kernel(const __grid_constant__ geforce_dual_gemm_params p) {
    run_tiles<T, dual_epilogue>(p);
}

} // namespace geforce

#endif
