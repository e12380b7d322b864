/* The dual GEMM whose CTAs take tile after tile, and dequantize A ahead of the tiles that need it.
 *
 * Read hopper_dual_gemm.cuh first: copies and main loop are the same.  The ring goes on from tile to tile, so
 * that the producer fills it while the consumers store a tile's outputs.  Outputs pass through 32 rows of
 * shared memory that belong to one warpgroup, and only that warpgroup synchronizes for them: one warpgroup
 * multiplies while another stores.
 *
 *   A fp4, sfa --dequantize, three warps--> A fp16 in scratch memory --TMA, the producer--> stage
 *
 * The kernel before this one dequantizes the parts of A that the first tiles start with, or all of A
 * (hopper_config.h). */
#ifndef HOPPER_PERSISTENT_GEMM_CUH
#define HOPPER_PERSISTENT_GEMM_CUH

#include "hopper_dual_gemm.cuh"

namespace hopper {

#define AHEAD_WARPS 3 /* warps of the producer's warpgroup that dequantize A; one more copies */
#define BANDS_AHEAD                                                                                            \
    1 /* bands before the own tile's: three are no faster (measured:H200), and L2 would keep less */
#define THROTTLE_NS 1000
/* Registers a thread: dequantizing needs more than copying. */
#define AHEAD_REGISTERS        56
#define REGISTERS_BESIDE_AHEAD 224

template <class T> struct persistent_storage {
    struct shared_storage<T> ring;
    unsigned char output[T::warpgroups][OUTPUT_STRIP_ROWS][OUTPUT_STRIP_BYTES];
    uint32_t wave; /* number of the tile that the producer copies for, counted on this CTA */

    static_assert(sizeof(shared_storage<T>) % sizeof(uint4) == 0, "the output is aligned for 16-byte stores");
    static_assert(OUTPUT_STRIP_ROWS == WARP_THREADS, "stmatrix takes a row's address from each lane");
    static_assert(OUTPUT_STRIP_BYTES == WGMMA_M_BLOCK_B_ROWS * FP16_BYTES,
                  "an output strip's row holds a warpgroup's columns");
    static_assert(T::m_blocks == 1 && T::split_k == 1 && T::warpgroups_k == 1 && T::chains == 1,
                  "a warpgroup has one block's accumulators over all of K");
    static_assert(T::tile_m % OUTPUT_STRIP_ROWS == 0 && T::tile_m % A_ITEM_ROWS == 0,
                  "a tile's rows are whole output strips and whole items");
    static_assert(WARPGROUP_THREADS * (AHEAD_REGISTERS + T::warpgroups * REGISTERS_BESIDE_AHEAD) <=
                      T::threads * LAUNCH_REGISTERS(T::threads),
                  "the launch's registers suffice for what all warpgroups ask for");
    static_assert(REGISTERS_BESIDE_AHEAD >= T::accs + 2 * T::fragment_steps * 4 + WORKING_REGISTERS,
                  "a consumer's registers hold accumulators and fragments");
};

/* The types above, checked: sizes that the host computes too. */
template <class T> struct persistent_layout_of {
    using storage = struct persistent_storage<T>;
    static_assert(sizeof(storage) == PERSISTENT_SHARED_BYTES(T::tile_n, T::tile_m, T::stages, T::warpgroups),
                  "shared memory has the bytes that the host asks for");
    static_assert(sizeof(storage) <= MAX_SHARED_BYTES, "a CTA has at most MAX_SHARED_BYTES of shared memory");
};

/* The tiles of the dual GEMM: columns count fastest, then rows of A, then batches. */
template <class T> struct dual_tiles {
    const struct hopper_persistent_params &p;

    __device__ __forceinline__ const struct hopper_persistent_params &schedule(void) const {
        return p;
    }

    __device__ __forceinline__ const struct hopper_dual_gemm_params &operands(void) const {
        return p.gemm;
    }

    __device__ __forceinline__ struct tile_coord place(int32_t tile) const {
        const int32_t row = tile / p.tiles_n;
        return place_tile<T>(p.gemm, p.gemm.first_n + tile % p.tiles_n * T::tile_n, row % p.tiles_m,
                             row / p.tiles_m, 0);
    }

    /* What a warp that dequantizes does first. */
    __device__ __forceinline__ void ask_for_scales(void) const {}
};

/* ---- A, ahead of its tiles ---- */

/* A part of K of A_ITEM_ROWS rows of A, which a warp dequantizes at a time. */
struct a_item {
    int32_t band, part;
    int32_t row_tile; /* row of tiles, counted over all batches */
    int32_t row;      /* the first one, in that row of tiles */
};

/* Items are numbered in the order in which tiles need them: bands, parts of K, rows. */
template <class T>
static __device__ __forceinline__ struct a_item find_item(const struct hopper_persistent_params &p,
                                                          uint32_t index) {
    constexpr uint32_t tile_items = T::tile_m / A_ITEM_ROWS;
    const uint32_t part_items = p.band_tiles * tile_items;
    const uint32_t part = index / part_items + p.parts_before, item = index % part_items;
    const uint32_t band = part / p.parts;
    return {(int32_t)band, (int32_t)(part % p.parts), (int32_t)(band * p.band_tiles + item / tile_items),
            (int32_t)(item % tile_items * A_ITEM_ROWS)};
}

/* A warp: four lanes for each stage, and each of them for the units of one parity of one box. */
template <class T>
static __device__ __forceinline__ void dequantize_item(const struct hopper_persistent_params &p,
                                                       const struct a_item &item) {
    const int lane = threadIdx.x % WARP_THREADS;
    const uint32_t chunk = item.part * A_PART_STAGES + lane / CHUNK_PARTS, box = lane % CHUNK_PARTS / 2,
                   parity = lane % 2;
    const int32_t batch = item.row_tile / p.tiles_m, first = item.row_tile % p.tiles_m * T::tile_m + item.row;
    if (item.row_tile >= p.row_tiles || (int32_t)chunk >= p.gemm.stages_k) {
        return;
    }
    const int64_t row_bytes = (int64_t)p.gemm.stages_k * A_BOXES * A_BOX_BYTES;
    const int64_t first_of_all = (int64_t)batch * p.gemm.m + first;
    const uint8_t *fp4 =
        p.a.a + first_of_all * p.a.fp4_row_bytes + chunk * (DEQUANTIZE_CHUNK_K / 2) + box * sizeof(uint2);
    uint8_t *to = (uint8_t *)p.a.a_fp16 + first_of_all * row_bytes + (chunk * A_BOXES + box) * A_BOX_BYTES;
    const int32_t rows = min(A_ITEM_ROWS, p.gemm.m - first);
#pragma unroll 1
    for (int32_t i = 0; i < rows; i++) {
        dequantize_box_parity(fp4, scales_of_chunk(p.a, batch, first + i, chunk), p.a.scale_half_step, box,
                              parity, chunk < p.a.full_chunks, to, parity * sizeof(uint4));
        fp4 += p.a.fp4_row_bytes;
        to += row_bytes;
    }
}

static __device__ __forceinline__ uint32_t claim_item(const struct hopper_persistent_params &p) {
    return threadIdx.x % WARP_THREADS == 0 ? atom_add_relaxed_gpu(p.claimed, 1) : 0;
}

/* A warp.  Claims items, which all CTAs share, until none is left; waits before an item that is more than
 * BANDS_AHEAD bands ahead of this CTA's tile; dequantizes it; counts it in ready[row tile][part].
 *
 * Tiles of wave w need bands up to w, so the running CTA with the lowest wave never waits for an item that a
 * throttled warp holds back.  The CTAs therefore need not all run at once. */
template <class T>
static __device__ __forceinline__ void dequantize_ahead(uint32_t wave,
                                                        const struct hopper_persistent_params &p) {
    griddepcontrol_wait(); /* until A is written and the counters are zero */
    uint32_t claimed = claim_item(p);
    for (;;) {
        const uint32_t index = __shfl_sync(~0u, claimed, 0);
        if (index >= p.items) {
            return;
        }
        const struct a_item item = find_item<T>(p, index);
        while (item.band > (int32_t)ld_relaxed_cta_shared(wave) + BANDS_AHEAD) {
            nanosleep(THROTTLE_NS);
        }
        claimed = claim_item(p); /* the next one, so that its latency passes meanwhile */
        dequantize_item<T>(p, item);
        fence_proxy_async_global(); /* TMA reads it */
        __syncwarp();
        if (threadIdx.x % WARP_THREADS == 0) {
            red_add_release_gpu(p.ready + item.row_tile * p.parts + item.part, 1);
        }
    }
}

/* ---- load ---- */

/* One thread, before it copies a part of a tile's A: waits until that part is dequantized. */
template <class T>
static __device__ __forceinline__ void wait_for_a(const struct hopper_persistent_params &p,
                                                  const struct tile_coord &coord, int32_t row_tile,
                                                  int32_t part) {
    if (part >= p.parts || row_tile >= p.row_tiles) {
        return;
    }
    /* The last tile of rows, moved up, has rows of the one before. */
    for (int32_t i = coord.m < coord.first_row ? row_tile - 1 : row_tile; i <= row_tile; i++) {
        if (i >= p.band_tiles || part >= p.parts_before) {
            while (ld_acquire_gpu(p.ready + i * p.parts + part) < T::tile_m / A_ITEM_ROWS) {
            }
        }
    }
    fence_proxy_async_global();
}

/* Producer, one thread: load() for one tile after another.  The stages filled ahead belong to the first part of
 * the first band, which the kernel before has made. */
template <class T, class Tiles>
static __device__ __forceinline__ void load_tiles(shared_t<T> shared, uint32_t wave, const Tiles &tiles,
                                                  const CUtensorMap *a, const CUtensorMap *b1,
                                                  const CUtensorMap *b2) {
    const struct hopper_persistent_params &p = tiles.schedule();
    if (p.gemm.scales_by_previous_kernel) {
        griddepcontrol_wait();
    }
    typename T::coord coord = tiles.place(blockIdx.x);
    const int ahead = min(T::stages, coord.stages);
    for (int i = 0; i < ahead; i++) {
        load_b<T>(shared, coord, tiles.operands(), b1, b2, i, i);
    }
    griddepcontrol_wait();
    struct ring ring = ring_to_fill();
    for (int i = 0; i < ahead; i++) {
        load_a<T>(shared, coord, a, i, i);
        advance<T::stages>(ring);
    }
    int32_t first = ahead;
    for (int32_t tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
        const int32_t row_tile = tile / p.tiles_n;
        coord = tiles.place(tile);
        for (int32_t i = first; i < coord.stages; i++) {
            wait(empty_barrier(shared, ring.stage), ring.parity);
            load_b<T>(shared, coord, tiles.operands(), b1, b2, ring.stage, i);
            load_a<T>(shared, coord, a, ring.stage, i);
            advance<T::stages>(ring);
            if (i % A_PART_STAGES == A_PART_STAGES - 1) { /* wait here, while the ring is full */
                wait_for_a<T>(p, coord, row_tile, (i + 1) / A_PART_STAGES);
            }
        }
        first = 0;
        const int32_t next = tile + gridDim.x;
        if (next < p.tiles) {
            wait_for_a<T>(p, tiles.place(next), next / p.tiles_n, 0);
        }
        red_add_relaxed_cta_shared(wave, 1);
    }
}

/* ---- kernel ---- */

/* A CTA with tile after tile: its copies, and the dequantization of A ahead of them. */
template <class T, class Tiles> struct persistent_work {
    using storage = typename persistent_layout_of<T>::storage;
    static constexpr int copying_registers = AHEAD_REGISTERS, multiplying_registers = REGISTERS_BESIDE_AHEAD;
    const CUtensorMap &a, &b1, &b2;
    const Tiles tiles;

    __device__ __forceinline__ void start(storage *storage) const {
        if (threadIdx.x == 0) {
            start_pipeline<T>(ring_of<T>(storage), T::consumers, a, b1, b2);
            storage->wave = 0;
        }
    }

    __device__ __forceinline__ void copy(storage *storage) const {
        const uint32_t wave = cvta_to_shared(&storage->wave);
        if (threadIdx.x == 0) {
            load_tiles<T>(ring_of<T>(storage), wave, tiles, &a, &b1, &b2);
        } else if (threadIdx.x >= WARPGROUP_THREADS - AHEAD_WARPS * WARP_THREADS) {
            tiles.ask_for_scales();
            if (tiles.schedule().items > 0) {
                dequantize_ahead<T>(wave, tiles.schedule());
            }
        }
    }

    __device__ __forceinline__ typename T::coord place(int32_t tile, storage *) const {
        return tiles.place(tile);
    }

    __device__ __forceinline__ void multiply_tile(float (&acc)[T::m_blocks][T::accs], struct consumed &consumed,
                                                  shared_t<T> shared, const typename T::coord &coord) const {
        multiply_whole<T>(acc, consumed, shared, coord);
    }
};

template <class T> struct persistent_dual_work : persistent_work<T, dual_tiles<T>> {
    using storage = struct persistent_storage<T>;

    __device__ __forceinline__ void multiply(storage *storage) const {
        consume_tiles<T>(*this, storage, this->tiles.p.tiles);
    }

    __device__ __forceinline__ void store_tile(float (&acc)[T::m_blocks][T::accs],
                                               const struct tile_coord &coord, storage *storage) const {
        const struct hopper_dual_gemm_params &p = this->tiles.p.gemm;
        const int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
        const struct strip_place place = {&storage->output[warpgroup][0][0], STORE_BARRIER + warpgroup, coord.m,
                                          coord.first_row, coord.n + warpgroup * WGMMA_M_BLOCK_B_ROWS};
#pragma unroll
        for (int first = 0; first < T::tile_m; first += OUTPUT_STRIP_ROWS) {
            uint32_t packed[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                packed[i] = silu_times_up(&acc[0][(first / 8 + i) * 4]);
            }
            store_strip(place, first, packed, p.c, (int64_t)coord.batch * p.m, p.m, p.n);
        }
    }
};

/* The linker aligns the ring's start, because shared memory has no bytes left for doing it here. */
template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    persistent_dual_gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                                const __grid_constant__ CUtensorMap b2,
                                const __grid_constant__ hopper_persistent_params p) {
    extern __shared__ __align__(SWIZZLE_ATOM_BYTES) unsigned char aligned_memory[];
    run_tiles(aligned_memory, persistent_dual_work<T>{{a, b1, b2, {p}}});
}

} // namespace hopper

#endif
