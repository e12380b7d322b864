/* The extended GEMM whose CTAs, one an SM, have equal shares of all tiles' stages: every SM works for the same
 * time, whatever the number of tiles.
 *
 * The tiles before `shared_tiles` have their stages in one line, tile after tile, and a CTA takes a part of it:
 * the end of a tile, or all or the middle of one, or the start of the next.  The other tiles, whole rounds of
 * the grid, belong to one CTA each.  A CTA begins with its last piece of the line.  If that lacks the tile's
 * end, its accumulators go to memory, and the CTA that has the tile's end adds them to its own in the order of
 * K:
 *
 *   CTA i      acc of a tile's start --> sums[i] in memory, arrivals[tile] + 1
 *   CTA i + 1  acc of the tile's end, + sums[i] by way of the ring --> outputs
 *
 * It waits for CTAs with lower numbers alone, which have started before, and whose accumulators are their first
 * work: so the CTAs need not all run at once.  Outputs pass through strips as hopper_extended_persistent.cuh's.
 */
#ifndef HOPPER_EXTENDED_SHARES_CUH
#define HOPPER_EXTENDED_SHARES_CUH

#include "hopper_extended_persistent.cuh"

namespace hopper {

/* ---- tile ---- */

/* A CTA's pieces are short, and so are their chains of steps. */
template <class Base> struct one_chain : Base {
    static constexpr int chains = 1;
};

template <class T> struct shares_storage {
    struct shared_storage<T> ring;
    unsigned char output[T::warpgroups][OUTPUT_STRIP_ROWS][OUTPUT_STRIP_BYTES];
    static_assert(sizeof(shared_storage<T>) % sizeof(uint4) == 0, "the output is aligned for 16-byte stores");
    static_assert(T::m_blocks == 1 && T::split_k == 1 && T::warpgroups_k == 1 && T::chains == 1,
                  "a warpgroup has one block's accumulators over all of K");
    static_assert(T::tile_m % OUTPUT_STRIP_ROWS == 0, "a tile's rows are whole output strips");
};

/* The types above, checked: sizes that the host computes too. */
template <class T> struct shares_layout_of {
    using storage = struct shares_storage<T>;
    static_assert(sizeof(storage) == SHARES_SHARED_BYTES(T::tile_n, T::tile_m, T::stages, T::warpgroups),
                  "shared memory has the bytes that the host asks for");
    static_assert(sizeof(storage) <= MAX_SHARED_BYTES, "a CTA has at most MAX_SHARED_BYTES of shared memory");
};

/* ---- shares ---- */

/* A CTA's part of a tile's stages. */
struct piece {
    int32_t tile, first_stage, stages;
};

/* What a CTA has not taken yet: units of the line before `end`, then whole tiles from `next_tile` on. */
struct share {
    int32_t begin, end, next_tile;
};

static __device__ __forceinline__ int32_t first_unit(const struct hopper_shares_params &p, int32_t cta) {
    return (int32_t)((int64_t)p.units * cta / (int32_t)gridDim.x);
}

static __device__ __forceinline__ struct share share_of(const struct hopper_shares_params &p, int32_t cta) {
    return {first_unit(p, cta), first_unit(p, cta + 1), p.shared_tiles + cta};
}

/* Takes the next piece; false if there is none. */
static __device__ __forceinline__ bool take(struct share &share, const struct hopper_shares_params &p,
                                            int32_t stages_k, struct piece &piece) {
    if (share.end > share.begin) {
        const int32_t tile = (share.end - 1) / stages_k, first = max(share.begin, tile * stages_k);
        piece = {tile, first - tile * stages_k, share.end - first};
        share.end = first;
        return true;
    }
    piece = {share.next_tile, 0, stages_k};
    share.next_tile += gridDim.x;
    return piece.tile < p.tiles;
}

/* The CTAs that have a tile's earlier stages: from the one returned on. */
static __device__ __forceinline__ int32_t first_of_tile(const struct hopper_shares_params &p, int32_t tile,
                                                        int32_t stages_k) {
    int32_t cta = blockIdx.x;
    while (first_unit(p, cta) > tile * stages_k) {
        cta--;
    }
    return cta;
}

static __device__ __forceinline__ bool lacks_end(const struct piece &piece, int32_t stages_k) {
    return piece.first_stage + piece.stages < stages_k;
}

/* ---- load ---- */

/* A CTA's accumulators in memory, [vector][thread], which come to the adding CTA's stages in chunks. */
template <class T> struct sums {
    static constexpr int chunks = 2, chunk_vectors = T::vectors / chunks;
    static constexpr uint32_t chunk_bytes = chunk_vectors * T::consumers * sizeof(float4),
                              bytes = chunks * chunk_bytes;
    static_assert(T::vectors % chunks == 0 && chunk_bytes <= sizeof(shared_stage<T>), "a stage holds a chunk");
};

/* A lane of a copying warp: copies its part of a chunk to stage s.  Each warp has a part, because none may come
 * two laps behind another. */
template <class T>
static __device__ __forceinline__ void copy_sums(shared_t<T> shared, const struct hopper_shares_params &p,
                                                 int32_t cta, int chunk, int stage, int warp) {
    constexpr uint32_t quarter = sums<T>::chunk_bytes / 4;
    static_assert(COPYING_WARPS == 3 && COPIES_B == 0, "the first warp has two quarters");
    const struct mbarrier full = full_barrier(shared, stage);
    if (warp == COPIES_B) {
        mbarrier_arrive_expect_tx(full, sums<T>::chunk_bytes);
    }
    const uint32_t first = warp == COPIES_B ? 0 : (warp + 1) * quarter;
    cp_async_bulk(SHARED_MEMBER(stage_of(shared, stage), a) + first,
                  (const uint8_t *)p.sums + (int64_t)cta * sums<T>::bytes + chunk * sums<T>::chunk_bytes +
                      first,
                  warp == COPIES_B ? 2 * quarter : quarter, full);
}

static __device__ __forceinline__ void wait_for_sums(const struct hopper_shares_params &p, int32_t tile,
                                                     uint32_t ctas) {
    while (ld_acquire_gpu(p.arrivals + tile) < ctas) {
    }
    fence_proxy_async_global(); /* the copies read what threads have stored */
}

/* A copying warp, for every piece.  After one with the end of a tile, the warps bring the accumulators of the
 * other pieces, chunk by chunk, in the order of K. */
template <class T>
static __device__ __forceinline__ void load_share(shared_t<T> shared, const struct hopper_extended_params &p,
                                                  const struct hopper_shares_params &shares,
                                                  const CUtensorMap *a, const CUtensorMap *b1,
                                                  const CUtensorMap *b2, int warp) {
    if (warp == COPIES_A || (warp == COPIES_SCALES && p.gemm.scales_by_previous_kernel)) {
        griddepcontrol_wait(); /* the previous kernel makes this operand */
    }
    struct ring ring = ring_to_fill();
    struct share share = share_of(shares, blockIdx.x);
    struct piece piece;
    while (take(share, shares, p.gemm.stages_k, piece)) {
        const struct joint_coord coord =
            place_extended_tile<T>(p, piece.tile / shares.tiles_m, piece.tile % shares.tiles_m, 0);
        fill_stages<T>(shared, ring, coord, p, a, b1, b2, warp, piece.first_stage,
                       piece.first_stage + piece.stages);
        if (piece.first_stage == 0 || lacks_end(piece, p.gemm.stages_k)) {
            continue;
        }
        const int32_t first = first_of_tile(shares, piece.tile, p.gemm.stages_k);
        griddepcontrol_wait(); /* the previous kernel zeroes the arrivals */
        wait_for_sums(shares, piece.tile, blockIdx.x - first);
        for (int32_t i = 0; i < ((int32_t)blockIdx.x - first) * sums<T>::chunks; i++) {
            wait(empty_barrier(shared, ring.stage), ring.parity);
            if (elect_sync()) {
                copy_sums<T>(shared, shares, first + i / sums<T>::chunks, i % sums<T>::chunks, ring.stage,
                             warp);
            }
            advance<T::stages>(ring);
        }
    }
}

/* ---- sums ---- */

#define GIVEN_BARRIER(warpgroups) (STORE_BARRIER + (warpgroups))

/* Consumers: a tile's accumulators -> memory, for the CTA that has the tile's end. */
template <class T>
static __device__ __forceinline__ void give_sums(const float (&acc)[T::m_blocks][T::accs],
                                                 const struct hopper_shares_params &shares) {
    float4 *to = (float4 *)shares.sums + (int64_t)blockIdx.x * T::vectors * T::consumers + threadIdx.x -
                 WARPGROUP_THREADS;
#pragma unroll
    for (int i = 0; i < T::vectors; i++) {
        const float *four = &acc[i * 4 / T::accs][i * 4 % T::accs];
        to[i * T::consumers] = make_float4(four[0], four[1], four[2], four[3]);
    }
    bar_arrive(GIVEN_BARRIER(T::warpgroups), T::consumers + WARP_THREADS);
}

/* The warp that does not copy: says that the consumers have given the accumulators, so that they need not wait
 * until the stores are performed. */
template <class T>
static __device__ __forceinline__ void say_given(const struct hopper_shares_params &shares, int32_t tile) {
    griddepcontrol_wait(); /* the previous kernel zeroes the arrivals */
    bar_sync(GIVEN_BARRIER(T::warpgroups), T::consumers + WARP_THREADS);
    if (threadIdx.x % WARP_THREADS == 0) {
        red_add_release_gpu(shares.arrivals + tile, 1);
    }
}

/* Consumers: adds the accumulators of `ctas` other CTAs, which come after the piece's stages. */
template <class T>
static __device__ __forceinline__ void add_sums(float (&acc)[T::m_blocks][T::accs], struct consumed &consumed,
                                                shared_t<T> shared, int32_t ctas) {
    const uint32_t mine = (threadIdx.x - WARPGROUP_THREADS) * (uint32_t)sizeof(float4);
    for (int32_t cta = 0; cta < ctas; cta++) {
#pragma unroll
        for (int chunk = 0; chunk < sums<T>::chunks; chunk++) {
            const int stage = consumed.ring.stage;
            wait(full_barrier(shared, stage), consumed.ring.parity);
            const uint32_t from = SHARED_MEMBER(stage_of(shared, stage), a) + mine;
#pragma unroll
            for (int i = 0; i < sums<T>::chunk_vectors; i++) {
                const uint4 other = ld_shared_v4(from + i * T::consumers * (int)sizeof(float4));
                const int first = (chunk * sums<T>::chunk_vectors + i) * 4;
                float *four = &acc[first / T::accs][first % T::accs];
                four[0] += __uint_as_float(other.x);
                four[1] += __uint_as_float(other.y);
                four[2] += __uint_as_float(other.z);
                four[3] += __uint_as_float(other.w);
            }
            fence_proxy_async_shared(); /* HW: without it a copy may overtake the reads */
            mbarrier_arrive(empty_barrier(shared, stage));
            advance<T::stages>(consumed.ring);
        }
    }
}

/* ---- kernel ---- */

template <class T> struct shares_work {
    using storage = typename shares_layout_of<T>::storage;
    static constexpr int copying_registers = PRODUCER_REGISTERS,
                         multiplying_registers = CONSUMER_REGISTERS(T::warpgroups);
    const CUtensorMap &a, &b1, &b2;
    const struct hopper_extended_params &p;
    const struct hopper_shares_params &shares;

    __device__ __forceinline__ void start(storage *storage) const {
        if (threadIdx.x == 0) {
            start_pipeline<T>(ring_of<T>(storage), T::consumers, a, b1, b2);
        }
    }

    __device__ __forceinline__ void copy(storage *storage) const {
        const int warp = uniform_warp();
        if (warp < COPYING_WARPS) {
            load_share<T>(ring_of<T>(storage), p, shares, &a, &b1, &b2, warp);
        } else {
            struct share share = share_of(shares, blockIdx.x);
            struct piece piece;
            ask_for_scales<T>(p.epilogue, 0, 0);
            if (take(share, shares, p.gemm.stages_k, piece) && lacks_end(piece, p.gemm.stages_k)) {
                say_given<T>(shares, piece.tile);
            }
        }
    }

    __device__ __forceinline__ void multiply(storage *storage) const {
        const shared_t<T> shared = ring_of<T>(storage);
        const int32_t stages_k = p.gemm.stages_k;
        struct consumed consumed = {ring_to_use(), -1};
        struct share share = share_of(shares, blockIdx.x);
        struct piece piece;
        griddepcontrol_wait(); /* a kernel before this call's may have made the scales */
        while (take(share, shares, stages_k, piece)) {
            struct joint_coord coord =
                place_extended_tile<T>(p, piece.tile / shares.tiles_m, piece.tile % shares.tiles_m, 0);
            coord.stages = piece.stages;
            float acc[T::m_blocks][T::accs];
            multiply_whole<T>(acc, consumed, shared, coord);
            mbarrier_arrive(empty_barrier(shared, consumed.previous));
            consumed.previous = -1;
            if (lacks_end(piece, stages_k)) {
                give_sums<T>(acc, shares);
                continue;
            }
            if (piece.first_stage > 0) {
                add_sums<T>(acc, consumed, shared, blockIdx.x - first_of_tile(shares, piece.tile, stages_k));
            }
            store_tile_in_strips<T>(acc, coord, p, &storage->output[0][0][0]);
        }
    }
};

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    extended_shares_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                           const __grid_constant__ CUtensorMap b2,
                           const __grid_constant__ hopper_extended_shares_params p) {
    extern __shared__ __align__(SWIZZLE_ATOM_BYTES) unsigned char aligned_memory[];
    run_tiles(aligned_memory, shares_work<T>{a, b1, b2, p.extended, p.shares});
}

} // namespace hopper

#endif
