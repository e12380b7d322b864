/* The fused dual GEMM for sm_90a.
 *
 *   producer warpgroup                            consumer warpgroups (2 or 3)
 *   ------------------                            ----------------------------
 *   B1, B2 codes  --TMA------------------> +
 *   sfb1, sfb2    --bulk-----------------> | stage --LDS--> codes, scales --expand--> A fragments (registers)
 *   A codes --TMA--> slot --LDS--> expand  |                                              |
 *   sfa     --LDG----------------> to fp16 --STS--> '-------(B operand, shared)------> wgmma --> gate, up sums
 *                                  (permuted K)                                           |
 *   C <---16-byte stores--- shared, transposed <---stmatrix--- fp16(silu(gate) * up) <----'
 *
 *   barrier         arrivals                    bytes          complete when
 *   codes_full[c]   1 (the copying thread)      slot_size      slot c holds a stage's codes of A
 *   codes_empty[c]  all producer threads        0              nothing reads slot c any more
 *   full[s]         all producers, 1 more for   weight_bytes   stage s holds its weights, scale factors and
 *                   the copies                                 activations
 *   empty[s]        all consumer threads        0              nothing reads stage s any more
 */
#ifndef HOPPER_DUAL_GEMM_KERNEL_CUH
#define HOPPER_DUAL_GEMM_KERNEL_CUH

#include "consume.cuh"
#include "produce.cuh"

/* Registers a thread, of 65,536 a CTA: the consumers hold sums and fragments. */
#define PRODUCER_REGISTERS                88
#define CONSUMER_REGISTERS_OF(warpgroups) ((warpgroups) == 2 ? 208 : 136)

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    dual_gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                     const __grid_constant__ CUtensorMap b2, const __grid_constant__ dual_gemm_params p) {
    extern __shared__ unsigned char memory[];
    uint32_t misaligned = cvta_to_shared(memory) % SHARED_ALIGNMENT;
    unsigned char *aligned = memory + (SHARED_ALIGNMENT - misaligned) % SHARED_ALIGNMENT;
    struct shared_map shared = {cvta_to_shared(aligned)};
    struct place place;
    place.feature = blockIdx.x * T::features;
    place.token = blockIdx.y * T::tokens;
    place.batch = blockIdx.z;
    place.scale_row = place.feature / SCALE_TILE_ROWS;

    if (threadIdx.x == 0) {
        prefetch_tensormap(&a);
        prefetch_tensormap(&b1);
        prefetch_tensormap(&b2);
        for (int stage = 0; stage < T::stages; stage++) {
            mbarrier_init(shared.full<T>(stage), WARPGROUP_THREADS + 1);
            mbarrier_init(shared.empty<T>(stage), T::consumers);
        }
        for (int slot = 0; slot < CODE_SLOTS; slot++) {
            mbarrier_init(shared.codes_full<T>(slot), 1);
            mbarrier_init(shared.codes_empty<T>(slot), WARPGROUP_THREADS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    griddepcontrol_launch_dependents();

    if (threadIdx.x < WARPGROUP_THREADS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        produce<T>(shared, place, p, &a, &b1, &b2);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS_OF(T::warpgroups)>();
        consume<T>(shared, aligned, place, p);
    }
}

#endif
