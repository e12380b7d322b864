/* The fused dual GEMM for sm_90a.
 *
 * Read in this order: hopper_config.h (sizes), hopper_dequantize.cuh (fp4 to fp16), this comment,
 * hopper_tile.cuh (tile and shared memory), hopper_pipeline.cuh (load, main loop, reductions),
 * hopper_epilogue.cuh, then this GEMM's own parts below: where its operands are, and its kernel.
 *
 *   producer warp                      consumer warpgroups (2 or 3)
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
 * wgmma computes the transpose, C^T = B A^T: its A operand is B1 and B2, its B operand is A (hopper_config.h).
 */
#ifndef HOPPER_DUAL_GEMM_CUH
#define HOPPER_DUAL_GEMM_CUH

#include "hopper_epilogue.cuh"
#include "hopper_pipeline.cuh"

namespace hopper {

/* ---- operands ---- */

template <class T>
static __device__ __forceinline__ struct tile_coord tile_number(const struct hopper_persistent_params &p,
                                                                int32_t tile);

/* B1 and B2 are two tensors, and so are their scale factors; a stage holds one after the other. */
template <int warpgroups_n, int m_blocks, int tile_m, int stages, int split_k, int warpgroups_k>
struct dual_tile : tile<warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k> {
    using base = tile<warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k>;
    using coord = struct tile_coord;
    using params = struct hopper_dual_gemm_params;
    static constexpr bool interleaves = false;
    static constexpr int second_scales = base::b_scale_tiles * STAGE_SCALE_BYTES;

    static __device__ __forceinline__ const struct hopper_dual_gemm_params &gemm_of(const params &p) {
        return p;
    }

    /* For CTAs that take tile after tile (hopper_persistent_gemm.cuh). */
    using persistent_params = struct hopper_persistent_params;

    static __device__ __forceinline__ const persistent_params &schedule_of(const persistent_params &p) {
        return p;
    }

    static __device__ __forceinline__ const params &operands_of(const persistent_params &p) {
        return p.gemm;
    }

    static __device__ __forceinline__ coord place_of_tile(const persistent_params &p, int32_t tile) {
        return tile_number<dual_tile>(p, tile);
    }

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

/* HW: a box that reaches past the end of A is slow if all SMs copy at once (measured:H200: 160 rows took half
 * as long again as 256 with tiles of 128).  So the last tile of rows is moved up to end with A. */
template <class T>
static __device__ __forceinline__ struct tile_coord find_tile(const struct hopper_dual_gemm_params &p) {
    const int32_t stages_k = p.stages_k;
    struct tile_coord coord;
    coord.n = p.first_n + blockIdx.x / T::split_k * T::tile_n;
    coord.first_row = blockIdx.y * T::tile_m;
    coord.m = min(coord.first_row, p.m - p.a_box_rows);
    coord.batch = blockIdx.z;
    coord.scale_tile = coord.n / SCALE_TILE_ROWS;
    coord.rank = blockIdx.x % T::split_k;
    coord.first_stage = stages_k * coord.rank / T::split_k;
    coord.stages = stages_k * (coord.rank + 1) / T::split_k - coord.first_stage;
    return coord;
}

/* ---- kernel ---- */

/* Consumer warpgroup: the tile's products, then its rows of C. */
template <class T>
static __device__ __forceinline__ void consume(shared_t<T> shared, struct shared_storage<T> *storage,
                                               const struct tile_coord &coord,
                                               const struct hopper_dual_gemm_params &p) {
    int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
    float acc[T::m_blocks]
             [T::accs]; /* [gate, gate, up, up] ...; the first step of each block overwrites them */
    if (!accumulate<T>(acc, shared, coord, warpgroup)) {
        return;
    }
    unsigned char *output = (unsigned char *)&storage->stages[T::received_stages];
    stage_output<T>(acc, cvta_to_shared(output), warpgroup);
    bar_sync(CONSUMER_BARRIER, T::finishers);
    store_output<T>(output, coord, p);
}

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    dual_gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                     const __grid_constant__ CUtensorMap b2,
                     const __grid_constant__ hopper_dual_gemm_params p) {
    extern __shared__ unsigned char memory[];
    const struct tile_coord coord = find_tile<T>(p);
    uint32_t misaligned = cvta_to_shared(memory) % SWIZZLE_ATOM_BYTES;
    unsigned char *aligned = memory + (SWIZZLE_ATOM_BYTES - misaligned) % SWIZZLE_ATOM_BYTES;
    typename layout_of<T>::storage *storage = (typename layout_of<T>::storage *)aligned;
    const shared_t<T> shared = {cvta_to_shared(aligned)};

    if (threadIdx.x == 0) {
        start_pipeline<T>(shared, T::finishers, a, b1, b2);
    }
    __syncthreads();
    griddepcontrol_launch_dependents();

    if (threadIdx.x < WARPGROUP_THREADS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if constexpr (T::short_stages) {
            const int warp = __shfl_sync(~0u, threadIdx.x / WARP_THREADS, 0);
            if (warp < COPYING_WARPS) {
                load_by_warps<T>(shared, coord, p, &a, &b1, &b2, warp);
            }
        } else if (threadIdx.x == 0) {
            load<T>(shared, coord, p, &a, &b1, &b2);
        }
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS(T::warpgroups)>();
        consume<T>(shared, storage, coord, p);
    }
}

} // namespace hopper

#endif
