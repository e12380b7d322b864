/* The dual GEMM where tiles are more than SMs: a CTA for each SM takes tile after tile.
 *
 * dual_gemm.cuh's copies and main loop.  The ring goes on from tile to tile, so that the producer fills it
 * while the consumers make a tile's outputs; these pass through 32 rows of shared memory for each warpgroup,
 * which meets none but itself: one warpgroup multiplies while another stores. */
#ifndef HOPPER_PERSISTENT_GEMM_CUH
#define HOPPER_PERSISTENT_GEMM_CUH

#include "dual_gemm.cuh"

namespace hopper {

#define STORE_BARRIER 2 /* the first of a barrier for each warpgroup, behind CONSUMER_BARRIER */

template <class T> struct persistent_storage {
    struct shared_storage<T> ring;
    unsigned char output[T::warpgroups][OUTPUT_CHUNK_ROWS][OUTPUT_CHUNK_BYTES];

    static_assert(sizeof(shared_storage<T>) % sizeof(uint4) == 0, "16-byte stores");
    static_assert(OUTPUT_CHUNK_ROWS == WARP_THREADS, "stmatrix takes a row's address from each lane");
    static_assert(OUTPUT_CHUNK_BYTES == WGMMA_M_BLOCK_B_ROWS * FP16_BYTES, "a warpgroup's columns");
    static_assert(T::m_blocks == 1 && T::split_k == 1 && T::warpgroups_k == 1 && T::chains == 1,
                  "a warpgroup has one block's accumulators over all of K");
    static_assert(T::tile_m == PERSISTENT_TILE_M && T::tile_m % OUTPUT_CHUNK_ROWS == 0, "whole chunks");
};

/* Tile number `tile`, columns first, then rows of A, then batches. */
template <class T>
static __device__ __forceinline__ struct tile_coord tile_number(const struct hopper_persistent_params &p,
                                                                int32_t tile) {
    const int32_t row = tile / p.tiles_n;
    struct tile_coord coord;
    coord.n = p.gemm.first_n + tile % p.tiles_n * T::tile_n;
    coord.first_row = row % p.tiles_m * T::tile_m;
    coord.m = min(coord.first_row, p.gemm.m - p.gemm.a_box_rows); /* as find_tile */
    coord.batch = row / p.tiles_m;
    coord.scale_tile = coord.n / SCALE_TILE_ROWS;
    coord.rank = 0;
    coord.first_stage = 0;
    coord.stages = p.gemm.stages_k;
    return coord;
}

/* Producer, one thread.  As load(), and then the same for the next tiles.  In the ring's first lap there is
 * nothing to wait for: the phase before a barrier's first counts as complete, and has parity 1. */
template <class T>
static __device__ __forceinline__ void load_tiles(shared_t<T> shared, const struct hopper_persistent_params &p,
                                                  const CUtensorMap *a, const CUtensorMap *b1,
                                                  const CUtensorMap *b2) {
    if (p.gemm.scales_by_previous_kernel) {
        griddepcontrol_wait();
    }
    struct tile_coord coord = tile_number<T>(p, blockIdx.x);
    const int ahead = min(T::stages, coord.stages);
    for (int i = 0; i < ahead; i++) {
        load_b<T>(shared, coord, p.gemm, b1, b2, i, i);
    }
    griddepcontrol_wait();
    struct ring ring = {0, 1};
    for (int i = 0; i < ahead; i++) {
        load_a<T>(shared, coord, a, i, i);
        advance<T::stages>(ring);
    }
    int32_t first = ahead;
    for (int32_t tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        coord = tile_number<T>(p, tile);
        for (int32_t i = first; i < coord.stages; i++) {
            wait(empty_barrier(shared, ring.stage), ring.parity);
            load_b<T>(shared, coord, p.gemm, b1, b2, ring.stage, i);
            load_a<T>(shared, coord, a, ring.stage, i);
            advance<T::stages>(ring);
        }
        first = 0;
    }
}

/* A warpgroup's accumulators -> C, 32 rows of C at a time: transposed by stmatrix into the warpgroup's chunk, a
 * row of which are 16 bytes from each warp, and from there 16 bytes a thread.  Rows' 16 bytes are swizzled: two
 * rows fill all banks, and eight rows are written at once. */
template <class T>
static __device__ __forceinline__ void store_by_chunks(float (&acc)[T::m_blocks][T::accs], unsigned char *chunk,
                                                       const struct tile_coord &coord,
                                                       const struct hopper_dual_gemm_params &p, int warpgroup) {
    constexpr int units = OUTPUT_CHUNK_BYTES / (int)sizeof(uint4);
    const int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    const int thread = threadIdx.x % WARPGROUP_THREADS, row = thread / units, unit = thread % units;
    const uint32_t to =
        cvta_to_shared(chunk) + lane * OUTPUT_CHUNK_BYTES + (warp ^ lane / 2 % units) * (int)sizeof(uint4);
    const unsigned char *from =
        chunk + row * OUTPUT_CHUNK_BYTES + (unit ^ row / 2 % units) * (int)sizeof(uint4);
    const int32_t column = coord.n + warpgroup * WGMMA_M_BLOCK_B_ROWS + unit * VECTOR_HALVES;
#pragma unroll
    for (int first = 0; first < T::tile_m; first += OUTPUT_CHUNK_ROWS) {
        uint32_t halves[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            halves[i] = silu_times_up(&acc[0][(first / 8 + i) * 4]);
        }
        bar_sync(STORE_BARRIER + warpgroup, WARPGROUP_THREADS); /* the chunk before was read */
        stmatrix_x4_trans(to, halves);
        bar_sync(STORE_BARRIER + warpgroup, WARPGROUP_THREADS);
        const int32_t row_of_a = coord.m + first + row;
        if (row_of_a < coord.first_row || row_of_a >= p.m || column >= p.n) {
            continue;
        }
        uint16_t *c = p.c + ((int64_t)coord.batch * p.m + row_of_a) * p.n + column;
        if (p.n % VECTOR_HALVES == 0) {
            *(uint4 *)c = *(const uint4 *)from;
        } else {
            for (int half = 0; half < VECTOR_HALVES && column + half < p.n; half++) {
                c[half] = ((const uint16_t *)from)[half];
            }
        }
    }
}

/* Consumer warpgroup.  A tile's last stage is given back before its outputs are made. */
template <class T>
static __device__ __forceinline__ void consume_tiles(shared_t<T> shared, struct persistent_storage<T> *storage,
                                                     const struct hopper_persistent_params &p) {
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
    struct consumed consumed = {{0, 0}, -1};
    for (int32_t tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const struct tile_coord coord = tile_number<T>(p, tile);
        float acc[T::m_blocks][T::accs];
        multiply_stages<T>(acc, consumed, shared, coord, 0, coord.stages);
        wgmma_wait_group<0>();
        keep_all<T>(acc);
        mbarrier_arrive(empty_barrier(shared, consumed.previous));
        consumed.previous = -1;
        store_by_chunks<T>(acc, &storage->output[warpgroup][0][0], coord, p.gemm, warpgroup);
    }
}

/* Where the ring starts is for the linker to align: no bytes are left to do it here. */
template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    persistent_dual_gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                                const __grid_constant__ CUtensorMap b2,
                                const __grid_constant__ hopper_persistent_params p) {
    extern __shared__ __align__(SWIZZLE_ATOM_BYTES) unsigned char aligned_memory[];
    struct persistent_storage<T> *storage = (struct persistent_storage<T> *)aligned_memory;
    shared_t<T> shared = {cvta_to_shared(aligned_memory)};
    static_assert(sizeof *storage == PERSISTENT_SHARED_BYTES(T::tile_n, T::tile_m, T::stages, T::warpgroups),
                  "shared memory has the bytes that the host asks for");
    static_assert(sizeof *storage <= MAX_SHARED_BYTES, "a CTA has that much shared memory");

    if (threadIdx.x == 0) {
        prefetch_tensormap(&a);
        prefetch_tensormap(&b1);
        prefetch_tensormap(&b2);
        for (int stage = 0; stage < T::stages; stage++) {
            mbarrier_init(full_barrier(shared, stage), 1);
            mbarrier_init(empty_barrier(shared, stage), T::consumers);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    griddepcontrol_launch_dependents();

    if (threadIdx.x < WARPGROUP_THREADS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            load_tiles<T>(shared, p, &a, &b1, &b2);
        }
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS(T::warpgroups)>();
        consume_tiles<T>(shared, storage, p);
    }
}

} // namespace hopper

#endif
