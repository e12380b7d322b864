/* A tile: its warps, what lies in shared memory, and where in C it is. */
#ifndef GEFORCE_TILE_CUH
#define GEFORCE_TILE_CUH

#include "../gpu/device/ring.cuh"
#include "../gpu/device/shared_address.cuh"
#include "geforce_kernels.h"

namespace geforce {

template <int tile_m_, int tile_n_, int stages_, int warps_m_, int warps_n_> struct tile {
    static constexpr int tile_m = tile_m_, tile_n = tile_n_, stages = stages_;
    static constexpr int warps_m = warps_m_, warps_n = warps_n_, warps = warps_m * warps_n;
    static constexpr int threads = CTA_THREADS(warps_m, warps_n);
    static constexpr int warp_m = tile_m / warps_m, warp_n = tile_n / warps_n; /* a warp's part */
    static constexpr int m_blocks = warp_m / MMA_M, n_blocks = warp_n / MMA_N; /* MMAs of a warp */
    static constexpr int b_scale_tiles = SCALE_TILES_TOUCHED(tile_n);
    /* Products; columns of C; how many rows after B1's rows B2's start; copies of B's scale factors a stage. */
    static constexpr int products = 2, columns = tile_n, second_column = 0, sfb_copies = 2 * b_scale_tiles;
    /* Words of scale factors that a lane supplies in a step: one for each 32 rows. */
    static constexpr int a_words = (warp_m + WARP_THREADS - 1) / WARP_THREADS;
    static constexpr int b_words = (warp_n + WARP_THREADS - 1) / WARP_THREADS;

    static_assert(tile_m % (warps_m * MMA_M) == 0 && tile_n % (warps_n * MMA_N) == 0,
                  "a warp's rows and columns are whole MMAs");
    static_assert(SCALE_TILE_ROWS % tile_m == 0, "a tile's rows of A are in one scale tile");
    static_assert(tile_m <= MAX_TMA_BOX_ELEMS && tile_n <= MAX_TMA_BOX_ELEMS,
                  "one TMA box takes all of a tile's rows of A, and one all its rows of B");
    static_assert(threads <= MAX_CTA_THREADS, "a CTA has at most MAX_CTA_THREADS threads");
    static_assert(warps * WARP_THREADS % WARPGROUP_THREADS == 0, "setmaxnreg applies to whole warpgroups");
    /* HW: registers beyond the launch's are never free, and setmaxnreg would wait for ever. */
    static_assert(WARP_THREADS * (LOAD_WARPS * LOAD_REGISTERS + warps * MMA_REGISTERS) <=
                      threads * LAUNCH_REGISTERS(threads),
                  "the launch's registers suffice for what all warpgroups ask for");
};

template <class T> struct shared_stage {
    unsigned char a[T::tile_m][STAGE_FP4_BYTES];    /* 64-byte swizzle, as in b */
    unsigned char b[2][T::tile_n][STAGE_FP4_BYTES]; /* [B1, B2] */
    unsigned char sfa[STAGE_SCALE_BYTES];
    unsigned char sfb[2][T::b_scale_tiles][STAGE_SCALE_BYTES]; /* [B1, B2] */
};

template <class T> struct shared_storage {
    struct shared_stage<T> stages[T::stages];
    uint64_t full[T::stages], empty[T::stages]; /* mbarriers */
};

template <class T> using stage_t = struct shared_address<struct shared_stage<T>>;
template <class T> using shared_t = struct shared_address<struct shared_storage<T>>;

/* HW: the 64-byte swizzle moves 16-byte unit c of row r of 64 bytes to unit c ^ (r / 2 % 4), so that the same
 * unit of eight rows is in different banks; it repeats every 8 rows (CUDA driver API, tensor maps). */
#define SWIZZLE_64_BYTES   512
#define SWIZZLE_UNIT       16
#define SWIZZLE_ROWS_SHARE 2 /* consecutive rows whose units move alike */

/* The types above, checked: sizes that the host computes too, and what has to fit. */
template <class T> struct layout_of {
    using stage = struct shared_stage<T>;
    using storage = struct shared_storage<T>;
    /* Bytes from a word of B1's scale factors to B2's: those are in scale tiles of their own, or some rows
     * further on in the same one. */
    static constexpr uint32_t second_sfb =
        T::products == 2 ? sizeof(stage::sfb[0]) : T::second_column / SCALE_ENTRIES * SCALE_WORD_BYTES;
    static_assert(sizeof(stage) == STAGE_BYTES(T::tile_m, T::tile_n),
                  "a stage has the bytes that the host computes");
    static_assert(sizeof(storage) + SWIZZLE_ATOM_BYTES == SHARED_BYTES(T::tile_m, T::tile_n, T::stages),
                  "shared memory has the bytes that the host asks for");
    static_assert(SHARED_BYTES(T::tile_m, T::tile_n, T::stages) <= MAX_SHARED_BYTES_SM120,
                  "a CTA has at most MAX_SHARED_BYTES of shared memory");
    static_assert(sizeof(stage) % SWIZZLE_64_BYTES == 0 && T::tile_n * STAGE_FP4_BYTES % SWIZZLE_64_BYTES == 0,
                  "every box starts where the swizzle repeats");
    static_assert(sizeof(uint64_t) == MBARRIER_BYTES, "an mbarrier has MBARRIER_BYTES bytes");
};

/* The tile of C that the CTA computes. */
struct tile_coord {
    int32_t m, n, batch; /* first row of A, first row of B */
};

/* The GEMM that tile number `index` belongs to: the only one, or a group. */
static __device__ __forceinline__ const struct geforce_dual_gemm_params &
gemm_of(const struct geforce_dual_gemm_params &p, int32_t) {
    return p;
}

template <class P>
static __device__ __forceinline__ const struct geforce_group &gemm_of(const P &p, int32_t index) {
    int32_t group = 0;
    while (group + 1 < p.groups && index >= p.group[group + 1].first_tile) {
        group++;
    }
    return p.group[group];
}

/* The tensor with the second half of a stage's rows of B. */
static __device__ __forceinline__ const CUtensorMap *second_b(const struct geforce_dual_gemm_params &p) {
    return &p.b2;
}

static __device__ __forceinline__ const CUtensorMap *second_b(const struct geforce_group &group) {
    return &group.b1;
}

/* The place of tile number `index`: tiles with the same rows of B follow each other, so that they run at the
 * same time. */
template <class T>
static __device__ __forceinline__ struct tile_coord find_tile(const struct geforce_dual_gemm_params &p,
                                                              int32_t index) {
    const int32_t column = index / p.tiles_m, batch = column / p.tiles_n;
    return {(index - column * p.tiles_m) * T::tile_m, (column - batch * p.tiles_n) * T::columns, batch};
}

template <class T>
static __device__ __forceinline__ struct tile_coord find_tile(const struct geforce_group &group,
                                                              int32_t index) {
    const int32_t number = index - group.first_tile, column = number / group.tiles_m;
    return {(number - column * group.tiles_m) * T::tile_m, column * T::columns, 0};
}

} // namespace geforce

#endif
