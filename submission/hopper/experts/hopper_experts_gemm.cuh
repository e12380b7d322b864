/* The products of experts for sm_90a (custom_kernel.h, custom_kernel_experts()): the dual GEMM's main loop over
 * a list of tiles that each CTA makes from the counts on the device.
 *
 * Read hopper_dual_gemm.cuh first.  The operands are those of the extended GEMM: gate and up, or both halves of
 * a tile's rows of the only B.  CTAs stay for tile after tile; tile i of the list goes to CTA i modulo their
 * number. The copying warps run ahead over the ends of tiles, so that B flows without a pause.
 *
 *   counts --one warp's scan--> table in shared memory: ends of rows, ends of tiles --binary search--> tile
 *
 *   copying warps (3)                              consumer warpgroups (2)
 *   -----------------                              -----------------------
 *   B1, B2 fp4   --TMA--> +
 *   sfb1, sfb2   --bulk-> | stage --> main loop of the dual GEMM --> acc --scales, activation--> shared --> C
 *     (or cp.async, by rows)
 *   A fp16       --TMA--> +
 *
 *   barrier   arrivals                               bytes      complete when
 *   full[s]   1 (the warp that copies B), and 32     a stage's  stage s holds its B, scale factors and A
 *             of scale factors by rows
 *   empty[s]  the consumers' threads                 0          nothing reads stage s any more
 *
 * A tile copies tile_m rows of A from its first one on, also those of the next expert: they only affect rows of
 * C that are not stored. */
#ifndef HOPPER_EXPERTS_GEMM_CUH
#define HOPPER_EXPERTS_GEMM_CUH

#include "../hopper_run_tiles.cuh"
#include "hopper_experts_epilogue.cuh"
#include "hopper_experts_large.cuh"

namespace hopper {

template <class T> struct experts_storage {
    struct shared_storage<T> ring;
    unsigned char output[EXPERTS_OUTPUT_BYTES(T::tile_m, T::m_blocks)]; /* [row of A][column of C] */
    struct expert_table table;
    static constexpr int bytes = EXPERTS_SHARED_BYTES(T::tile_m, T::m_blocks, T::stages);
    static_assert(sizeof(struct shared_storage<T>) % sizeof(float4) == 0, "staged outputs are aligned");
    static_assert(sizeof(struct shared_storage<T>) + EXPERTS_OUTPUT_BYTES(T::tile_m, T::m_blocks) +
                          sizeof(struct expert_table) + SWIZZLE_ATOM_BYTES ==
                      bytes,
                  "shared memory has the bytes that the host asks for");
    static_assert(bytes <= MAX_SHARED_BYTES && T::ctas_per_sm * (bytes + CTA_RESERVED_BYTES) <= SM_SHARED_BYTES,
                  "all CTAs of an SM have their shared memory");
};

/* ---- kernel ---- */

/* A CTA with tile after tile. */
template <class T> struct experts_work {
    using storage = struct experts_storage<T>;
    static constexpr int copying_registers = T::ctas_per_sm == 1 ? 40 : 32,
                         multiplying_registers = T::ctas_per_sm == 1 ? 232 : 104;
    static_assert(WARPGROUP_THREADS * (copying_registers + EXPERTS_WARPGROUPS * multiplying_registers) <=
                      T::threads * LAUNCH_REGISTERS(T::ctas_per_sm * T::threads),
                  "the launch's registers suffice for what all warpgroups ask for");
    const CUtensorMap &a, &b1, &b2;
    const struct hopper_experts_params &p;
    const int warp;

    __device__ __forceinline__ void start(storage *storage) const {
        const shared_t<T> shared = ring_of<T>(storage);
        if (threadIdx.x == 0) {
            prefetch_tensormap(&a);
            prefetch_tensormap(&b1);
            prefetch_tensormap(&b2);
            for (int stage = 0; stage < T::stages; stage++) {
                mbarrier_init(full_barrier(shared, stage), p.scales_by_rows ? 1 + WARP_THREADS : 1);
                mbarrier_init(empty_barrier(shared, stage), T::consumers);
            }
            fence_mbarrier_init();
        }
        if (warp == EXPERTS_COPYING_WARPS) {
            make_expert_table(p.tokens, &storage->table);
        }
    }

    __device__ __forceinline__ void copy(storage *storage) const {
        if (warp < EXPERTS_COPYING_WARPS) {
            load_experts<T>(ring_of<T>(storage), p, &storage->table, &a, &b1, &b2, warp);
        }
    }

    __device__ __forceinline__ void multiply(storage *storage) const {
        consume_tiles<T>(*this, storage, expert_tiles(p.tokens, &storage->table) * p.tiles_n);
    }

    __device__ __forceinline__ struct experts_coord place(int32_t tile, const storage *storage) const {
        return find_tile_of_experts<T>(p, &storage->table, tile);
    }

    __device__ __forceinline__ void multiply_tile(float (&acc)[T::m_blocks][T::accs], struct consumed &consumed,
                                                  shared_t<T> shared, const struct experts_coord &coord) const {
        if constexpr (T::large) {
            multiply_large<T>(acc, consumed, shared, coord);
        } else {
            multiply_whole<T>(acc, consumed, shared, coord);
        }
    }

    __device__ __forceinline__ void store_tile(const float (&acc)[T::m_blocks][T::accs],
                                               const struct experts_coord &coord, storage *storage) const {
        const int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
        with_outputs<GATED>(p.epilogue, [&](auto kind, auto nvfp4) {
            constexpr bool plain = kind.value == PLAIN;
            if constexpr (T::large) {
                finish_large_tile<T, plain, nvfp4.value>(acc, storage->output + warpgroup * LARGE_OUTPUT_BYTES,
                                                         warpgroup, coord, p.epilogue, p.correction);
            } else {
                finish_tile<T, plain, nvfp4.value>(acc, storage->output, warpgroup, coord, p.epilogue,
                                                   p.correction);
            }
        });
    }
};

/* The kernel before dequantizes A.  All its CTAs have waited for what was queued before them when they let this
 * kernel start, so the counts, the weights and all scales are there; only A has to be waited for. */
template <class T>
static __global__ void __launch_bounds__(T::threads, T::ctas_per_sm)
    experts_gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                        const __grid_constant__ CUtensorMap b2,
                        const __grid_constant__ hopper_experts_params p) {
    extern __shared__ unsigned char memory[];
    run_tiles(first_atom(memory), experts_work<T>{a, b1, b2, p, uniform_warp()});
}

} // namespace hopper

#endif
