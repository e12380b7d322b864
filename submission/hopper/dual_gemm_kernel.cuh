/* The fused dual GEMM for sm_90a.
 *
 *   producer warp                      consumer warpgroups (2 or 3)
 *   -------------                      ----------------------------
 *   B1, B2 codes   --TMA--------> +
 *   sfb1, sfb2     --bulk-------> | stage --LDS--> codes, scales --expand--> A fragments (registers)
 *   activations    --TMA--------> +                                              |
 *     (fp16, permuted K)          '-----------------(B operand, shared)------> wgmma --> gate and up sums
 *                                                                                |
 *   another CTA's sums of other K <---> shared memory of the cluster (split K only)
 *                                                                                |
 *   C <---16-byte stores--- shared, transposed <---stmatrix--- fp16(silu(gate) * up)
 *
 *   barrier   arrivals             bytes        complete when
 *   full[s]   1 (the producer)     stage_size   stage s holds its weights, scale factors and activations
 *   empty[s]  all consumer threads 0            nothing reads stage s any more
 */
#ifndef HOPPER_DUAL_GEMM_KERNEL_CUH
#define HOPPER_DUAL_GEMM_KERNEL_CUH

#include "epilogue.cuh"
#include "multiply.cuh"
#include "produce.cuh"

#define CONSUMER_BARRIER 1
/* Registers a thread: one warpgroup copies, the others hold sums and fragments (65,536 a CTA in all). */
#define PRODUCER_REGISTERS                24
#define CONSUMER_REGISTERS_OF(warpgroups) ((warpgroups) == 2 ? 240 : 160)

template <class T>
static __device__ __forceinline__ void consume(const struct shared_map &shared, unsigned char *memory,
                                               const struct place &place, const struct dual_gemm_params &p) {
    int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
    if (p.own) {
        expand_first_stages<T>(shared, place, p);
        bar_sync(CONSUMER_BARRIER, T::consumers);
    }
    float sums[T::slabs][T::sums]; /* the first step of each slab overwrites them */
    multiply<T>(sums, shared, place, warpgroup);
    if constexpr (T::splits > 1) {
        exchange<T>(sums, shared.base, place.rank);
    } else {
        bar_sync(CONSUMER_BARRIER, T::consumers); /* the stages are free */
    }
    unsigned char *output = memory + T::output_at;
    stage_output<T>(sums, cvta_to_shared(output), warpgroup);
    bar_sync(CONSUMER_BARRIER, T::consumers);
    store_output<T>(output, place, p);
}

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    dual_gemm_kernel(const __grid_constant__ CUtensorMap b1, const __grid_constant__ CUtensorMap b2, const __grid_constant__ dual_gemm_params p) {
    extern __shared__ unsigned char memory[];
    uint32_t misaligned = cvta_to_shared(memory) % SHARED_ALIGNMENT;
    unsigned char *aligned = memory + (SHARED_ALIGNMENT - misaligned) % SHARED_ALIGNMENT;
    struct shared_map shared = {cvta_to_shared(aligned)};
    struct place place = find_place<T>(p);

    if (threadIdx.x == 0) {
        prefetch_tensormap(&b1);
        prefetch_tensormap(&b2);
        for (int stage = 0; stage < T::stages; stage++) {
            mbarrier_init(shared.full<T>(stage), 1);
            mbarrier_init(shared.empty<T>(stage), T::consumers);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    griddepcontrol_launch_dependents();

    if (threadIdx.x < WARPGROUP_THREADS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x / WARP_THREADS == 0) {
            produce_weights<T>(shared, place, p, &b1, &b2);
        } else if (threadIdx.x / WARP_THREADS == 1) {
            produce_activations<T>(shared, place, p);
        }
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS_OF(T::warpgroups)>();
        consume<T>(shared, aligned, place, p);
    }
}

#endif
