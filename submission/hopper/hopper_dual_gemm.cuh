/* The fused dual GEMM for sm_90a.
 *
 * Read in this order: hopper_config.h (sizes), hopper_dequantize.cuh (fp4 to fp16), this comment,
 * hopper_tile.cuh (tile and shared memory), hopper_pipeline.cuh (load, main loop, reductions),
 * hopper_outputs.cuh, hopper_run_tiles.cuh (the kernels' skeleton), then this GEMM's own parts below: where its
 * operands are, and its kernel.
 *
 *   producer warp                      consumer warpgroups (2 to 4)
 *   -------------                      ----------------------------
 *   B1, B2 fp4     --TMA--------> +
 *   sfb1, sfb2     --bulk-------> | stage --LDS--> fp4, scales --dequantize--> A fragments (registers)
 *   A              --TMA--------> +                                              |
 *     (fp16, permuted K)          '-----------------(B operand, shared)------> wgmma --> acc (gate, up)
 *                                                                                |
 *   another CTA's acc of other K <----> shared memory of the cluster (DSMEM; split K only)
 *                                                                                |
 *   C <---16-byte stores--- shared, transposed <---stmatrix--- fp16(silu(gate) * up)
 *
 *   barrier   arrivals             bytes           complete when
 *   full[s]   1 (the producer)     a stage's       stage s holds its B1, B2, scale factors and A
 *   empty[s]  its warpgroups'      0               nothing reads stage s any more
 *             threads
 *
 * wgmma computes the transpose, C^T = B A^T: its A operand is B1 and B2, its B operand A (hopper_config.h). */
#ifndef HOPPER_DUAL_GEMM_CUH
#define HOPPER_DUAL_GEMM_CUH

#include "hopper_outputs.cuh"
#include "hopper_run_tiles.cuh"

namespace hopper {

/* ---- operands ---- */

/* B1 and B2 are two tensors, and so are their scale factors; a stage holds one after the other. */
template <int warpgroups_n, int m_blocks, int tile_m, int stages, int split_k, int warpgroups_k>
struct dual_tile : tile<warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k> {
    using base = tile<warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k>;
    using coord = struct tile_coord;
    using params = struct hopper_dual_gemm_params;
    static constexpr int second_scales = base::b_scale_tiles * STAGE_SCALE_BYTES;

    static __device__ __forceinline__ void copy_b(shared_t<dual_tile> shared, const struct tile_coord &coord,
                                                  const params &p, const CUtensorMap *b1, const CUtensorMap *b2,
                                                  int stage, int32_t k_stage) {
        struct mbarrier full = full_barrier(shared, stage);
        stage_t<dual_tile> to = stage_of(shared, stage);
        mbarrier_arrive_expect_tx(full, p.stage_tx_bytes);
        cp_async_bulk_tensor_3d(SHARED_MEMBER(to, fp4[0]), b1, k_stage * STAGE_FP4_BYTES, coord.n, coord.batch,
                                full);
        cp_async_bulk_tensor_3d(SHARED_MEMBER(to, fp4[1]), b2, k_stage * STAGE_FP4_BYTES, coord.n, coord.batch,
                                full);
    }

    static __device__ __forceinline__ void copy_scales(shared_t<dual_tile> shared,
                                                       const struct tile_coord &coord, const params &p,
                                                       int stage, int32_t k_stage) {
        struct mbarrier full = full_barrier(shared, stage);
        stage_t<dual_tile> to = stage_of(shared, stage);
        int32_t last_tile = (p.n - 1) / SCALE_TILE_ROWS;
        for (int i = 0; i < base::b_scale_tiles; i++) {
            int64_t tile = min(coord.scale_tile + i, last_tile); /* rows past the end take any factors */
            int64_t offset = coord.batch * p.scale_batch_bytes +
                             (tile * p.scale_tiles_k + k_stage * STAGE_SCALE_TILES) * SCALE_TILE_BYTES;
            cp_async_bulk(SHARED_MEMBER(to, scales[0]) + i * STAGE_SCALE_BYTES, p.sfb1 + offset,
                          STAGE_SCALE_BYTES, full);
            cp_async_bulk(SHARED_MEMBER(to, scales[1]) + i * STAGE_SCALE_BYTES, p.sfb2 + offset,
                          STAGE_SCALE_BYTES, full);
        }
    }
};

template <class T>
static __device__ __forceinline__ struct tile_coord find_tile(const struct hopper_dual_gemm_params &p) {
    return place_tile<T>(p, p.first_n + blockIdx.x / T::split_k * T::tile_n, blockIdx.y, blockIdx.z,
                         blockIdx.x % T::split_k);
}

/* ---- kernel ---- */

/* A CTA with one tile: its copies. */
template <class T> struct one_tile {
    using storage = typename layout_of<T>::storage;
    static constexpr int copying_registers = PRODUCER_REGISTERS,
                         multiplying_registers = CONSUMER_REGISTERS(T::warpgroups);
    const CUtensorMap &a, &b1, &b2;
    const typename T::params &p;
    const typename T::coord &coord;
    const int32_t &scales_by_previous_kernel;

    __device__ __forceinline__ void start(storage *storage) const {
        if (threadIdx.x == 0) {
            start_pipeline<T>(ring_of<T>(storage), T::finishers, a, b1, b2);
        }
    }

    __device__ __forceinline__ void copy(storage *storage) const {
        const shared_t<T> shared = ring_of<T>(storage);
        if constexpr (T::short_stages) {
            const int warp = uniform_warp();
            if (warp < COPYING_WARPS) {
                load_by_warps<T>(shared, coord, p, &a, &b1, &b2, warp, scales_by_previous_kernel);
            }
        } else if (threadIdx.x == 0) {
            load<T>(shared, coord, p, &a, &b1, &b2, scales_by_previous_kernel);
        }
    }
};

/* Consumer warpgroup: the tile's products, then its rows of C. */
template <class T> struct dual_tile_work : one_tile<T> {
    __device__ __forceinline__ void multiply(typename one_tile<T>::storage *storage) const {
        int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
        /* [gate, gate, up, up] ...; the first step of each block overwrites them */
        float acc[T::m_blocks][T::accs];
        if (!accumulate<T>(acc, ring_of<T>(storage), this->coord, warpgroup)) {
            return;
        }
        unsigned char *output = (unsigned char *)&storage->stages[T::received_stages];
        stage_output<T>(cvta_to_shared(output), warpgroup,
                        [&](int block, int eight, int) { return silu_times_up(&acc[block][eight * 4]); });
        bar_sync(CONSUMER_BARRIER, T::finishers);
        store_output<T>(output, this->coord, this->p);
    }
};

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    dual_gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                     const __grid_constant__ CUtensorMap b2,
                     const __grid_constant__ hopper_dual_gemm_params p) {
    extern __shared__ unsigned char memory[];
    const struct tile_coord coord = find_tile<T>(p);
    run_tiles(first_atom(memory), dual_tile_work<T>{{a, b1, b2, p, coord, p.scales_by_previous_kernel}});
}

} // namespace hopper

#endif
