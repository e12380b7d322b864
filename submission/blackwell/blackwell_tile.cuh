/* A tile of the dual GEMM: its constants, its shared memory and TMEM, its barriers, and its place in C.
 *
 * The first comment of blackwell_dual_gemm.cuh explains the kernel; read it first. */
#ifndef BLACKWELL_TILE_CUH
#define BLACKWELL_TILE_CUH

#include "../gpu/device/ring.cuh"
#include "../gpu/device/shared_address.cuh"
#include "../gpu/instructions/tcgen05.cuh"
#include "blackwell_kernels.h"

namespace blackwell {

#define LOAD_COLUMNS      32 /* accumulator columns that a lane loads at once */
#define REDUCTION_COLUMNS 16 /* the same with split K */
#define STORE_COLUMNS     8  /* columns of scale factors that a lane stores at once */
#define VECTOR_FLOATS     4
#define VECTOR_HALVES     8  /* outputs of a 16-byte store */
#define SECTOR_HALVES     16 /* outputs of a sector of memory, which one store of sm_100 can fill */

enum role { LOAD_WARP, MMA_WARP };

/*   TMEM, columns:  | A B1^T: acc_gate | A B2^T: acc_up | stage 0: 4 x (sfa sfb1 sfb2) | stage 1 ... |
 *
 * sfb1 and sfb2 are each one scale tile a step, or two if a tile's rows of B touch two. */
template <int tile_n_, int stages_, int ctas_, int tail_, int split_k_, int stored_ = 0> struct tile {
    static constexpr int tile_n = tile_n_, stages = stages_, ctas = ctas_, tail = tail_;
    static constexpr int split_k = split_k_, cluster = ctas * split_k;
    static constexpr int cta_n = tile_n / ctas; /* rows of B that this CTA holds */
    static constexpr bool transposed = false;   /* the MMA has as many columns as the group has rows of A */
    static constexpr int scales_read_arrivals = 1;
    static constexpr int products = 2; /* 1 if the operands are halves of the rows of one B, with one output */
    static constexpr int b_scale_tiles = SCALE_TILES_TOUCHED(tile_n);
    static constexpr bool joint_mma = JOINT_MMA(tail, split_k); /* one MMA computes both products */
    static constexpr int joint_scale_tiles = B_SCALE_TILES(tile_n, true);
    static constexpr bool stored = stored_ != 0; /* warps store scale factors to TMEM */

    /* Warps that gather the joint rows' scale factors of a stage.  A warp has to make its stores visible to
     * the pair before it signals, which takes longer than gathering a step: so few, where the rows are one
     * tile.  A warp that stores factors to TMEM reaches a quarter of it, so all work on each stage. */
    static constexpr int gather_warps = stored ? EPILOGUE_WARPS : joint_scale_tiles == 1 ? 2 : 4;

    static constexpr int up_column = tile_n, scales_column = 2 * tile_n;
    static constexpr int step_columns = STEP_COLUMNS(tile_n, joint_mma),
                         stage_columns = STAGE_STEPS * step_columns;
    static constexpr bool scales_shared = stages >
                                          SCALE_STAGES(tile_n, joint_mma); /* all stages share columns */

    /* With split K, each CTA runs the epilogue for its share of the columns of C; the other CTAs send it their
     * accumulators of those. */
    static constexpr int output_n = tile_n / split_k;
    static constexpr int received_parts = split_k > 1 ? split_k - 1 : 1;

    /* The tensor maps of a CTA's rows of A and of their scale factors. */
    template <class P> static __device__ __forceinline__ const CUtensorMap *own_a(const P &p, int32_t) {
        return &p.a;
    }

    template <class P> static __device__ __forceinline__ const CUtensorMap *own_sfa(const P &p, int32_t) {
        return &p.sfa;
    }

    /* The tensor map of the second product's rows of B: B2's here. */
    template <class P> static __device__ __forceinline__ const CUtensorMap *second_b(const P &p) {
        return &p.b2;
    }

    /* The tensor map of their scale factors: sfb2's here. */
    template <class P> static __device__ __forceinline__ const CUtensorMap *second_sfb(const P &p) {
        return &p.sfb2;
    }

    /* Prefetches all tensor maps of parameters with a B2. */
    template <class P> static __device__ __forceinline__ void prefetch_maps(const P &p) {
        prefetch_tensormap(&p.b1);
        prefetch_tensormap(&p.b2);
        prefetch_tensormap(&p.a);
        prefetch_tensormap(&p.sfb1);
        prefetch_tensormap(&p.sfb2);
        prefetch_tensormap(&p.sfa);
    }

    static_assert(ctas == 1 || ctas == 2, "a tile has one CTA or a pair");
    static_assert(cluster <= MAX_CLUSTER_CTAS, "a cluster has at most MAX_CLUSTER_CTAS CTAs");
    static_assert(
        tile_n <= MAX_TCGEN05_N && cta_n <= MAX_TMA_BOX_ELEMS && TILE_M <= MAX_TMA_BOX_ELEMS,
        "one MMA takes all tile_n rows of B; one TMA box takes a CTA's rows of B, and one its rows of A");
    static_assert(TILE_M == TMEM_LANES, "a lane of TMEM is a row of A");
    static_assert(scales_column + (scales_shared ? 1 : stages) * stage_columns <= TMEM_COLUMNS,
                  "accumulators and scale factors fit in TMEM's columns");
    static_assert(!joint_mma || 2 * tile_n <= MAX_TCGEN05_N, "one MMA takes the rows of B of both products");
    static_assert(joint_mma || tile_n % (SCALE_TILE_ROWS / 2) == 0,
                  "a tile's scale factors start at a scale tile or at half of one, as no others "
                  "are known to work"); /* HW: CUTLASS, N = 64 and 192 */
    static_assert(tail <= stages, "the ring holds all stages of the tail at once");
    static_assert(
        !stored || (ctas == 2 && tail > 0 && !scales_shared && tile_n == SCALE_TILE_ROWS),
        "warps store a scale tile of each product to a stage's own columns of a pair, and each MMA has "
        "a whole tile of them");
    static_assert(!scales_shared || (tail == 0 && !joint_mma),
                  "with a tail or a joint MMA, each stage has columns of its own for scale factors");
    static_assert(tile_n % split_k == 0 &&
                      (split_k > 1 ? output_n % REDUCTION_COLUMNS
                                   : tile_n % (joint_mma ? LOAD_COLUMNS / 2 : LOAD_COLUMNS)) == 0,
                  "a CTA's columns are whole loads of accumulators");
};

/* True if warps have to gather the scale factors of the joint rows of B1 and B2, in shared memory or on their
 * way to TMEM.  The grouped GEMM has one B, whose scale factors are contiguous. */
template <class T> static constexpr __device__ __forceinline__ bool rearranges(void) {
    return T::stored || (T::joint_mma && T::products == 2);
}

/* One stage of the ring in shared memory: a tile's operands over STAGE_K elements of K. */
template <class T> struct shared_stage {
    unsigned char a[TILE_M][STAGE_FP4_BYTES];      /* 128-byte swizzle */
    unsigned char b[2][T::cta_n][STAGE_FP4_BYTES]; /* [B1, B2], same swizzle; a joint MMA of a pair: all rows of
                                                      one of them */
    unsigned char sfa[STAGE_SCALE_BYTES];
    unsigned char sfb[2][T::b_scale_tiles]
                     [STAGE_SCALE_BYTES]; /* [sfb1, sfb2]; then, in the same place, those of the joint rows */
};

/* A CTA's shared memory: the ring's stages, the mbarriers and the TMEM slot. */
template <class T> struct shared_storage {
    union {
        struct shared_stage<T> stages[T::stages];
        /* After the main loop, with split K: accumulators of the other CTAs, [part][columns of gate, then of
         * up][row]. */
        float received[T::received_parts][2 * T::output_n / VECTOR_FLOATS][TILE_M][VECTOR_FLOATS];
    };
    uint64_t full[T::stages], empty[T::stages], scales_full[T::stages], scales_empty[T::stages]; /* mbarriers */
    uint64_t scales_read[STAGE_STEPS], gate_full, up_full;
    unsigned char tmem_slot[TMEM_SLOT_BYTES]; /* where tcgen05.alloc writes its address */
};

/* Asserts that the sizes of the types above are those that the host computes, and that they fit. */
template <class T> struct layout_of {
    using stage = struct shared_stage<T>;
    using storage = struct shared_storage<T>;
    static_assert(sizeof(stage) == STAGE_BYTES(T::tile_n, T::ctas),
                  "a stage has the bytes that the host computes");
    static_assert(sizeof(storage) + SWIZZLE_ATOM_BYTES == SHARED_BYTES(T::tile_n, T::stages, T::ctas),
                  "shared memory has the bytes that the host asks for");
    static_assert(sizeof(storage) + SWIZZLE_ATOM_BYTES <= MAX_SHARED_BYTES,
                  "a CTA has at most MAX_SHARED_BYTES of shared memory");
    static_assert(sizeof(stage) % SWIZZLE_ATOM_BYTES == 0 && offsetof(stage, b) % SWIZZLE_ATOM_BYTES == 0 &&
                      T::cta_n * STAGE_FP4_BYTES % SWIZZLE_ATOM_BYTES == 0,
                  "A, B1 and B2 start swizzle atoms");
    static_assert(STAGE_FP4_BYTES == SWIZZLE_ROW_BYTES, "a row's fp4 are a row of the swizzle");
    static_assert(sizeof(uint64_t) == MBARRIER_BYTES && offsetof(storage, full) % MBARRIER_BYTES == 0,
                  "the mbarriers are 8 bytes each and aligned to 8 bytes");
    static_assert(offsetof(storage, full) == T::stages * sizeof(stage),
                  "received accumulators fit over the stages");
};

template <class T> using stage_t = struct shared_address<struct shared_stage<T>>;
template <class T> using shared_t = struct shared_address<struct shared_storage<T>>;

/* ---- mbarriers: the table in blackwell_dual_gemm.cuh says what each announces ---- */

template <class T>
static __device__ __forceinline__ struct mbarrier scales_full_barrier(shared_t<T> shared, int stage) {
    return mbarrier_element(SHARED_MEMBER(shared, scales_full), stage);
}

template <class T>
static __device__ __forceinline__ struct mbarrier scales_empty_barrier(shared_t<T> shared, int stage) {
    return mbarrier_element(SHARED_MEMBER(shared, scales_empty), stage);
}

template <class T>
static __device__ __forceinline__ struct mbarrier scales_read_barrier(shared_t<T> shared, int step) {
    return mbarrier_element(SHARED_MEMBER(shared, scales_read), step);
}

template <class T> static __device__ __forceinline__ struct mbarrier gate_full_barrier(shared_t<T> shared) {
    return {SHARED_MEMBER(shared, gate_full)};
}

template <class T> static __device__ __forceinline__ struct mbarrier up_full_barrier(shared_t<T> shared) {
    return {SHARED_MEMBER(shared, up_full)};
}

/* Waits for a phase in which threads of other CTAs arrive. */
static __device__ __forceinline__ void wait_cluster(struct mbarrier barrier, uint32_t parity) {
    while (!mbarrier_try_wait_parity_cluster(barrier, parity)) {
    }
}

/* ---- meeting of a cluster's threads ---- */

/* Synchronizes all threads of the cluster, which may be a single CTA, and their memory. */
static __device__ __forceinline__ void sync_ctas(void) {
    barrier_cluster_arrive_release();
    barrier_cluster_wait_acquire();
}

/* Synchronizes execution only; the callers' own fences order what has to be ordered.  A releasing arrival would
 * make each warp wait for a MEMBAR of the chip after the copies and stores under way. */
static __device__ __forceinline__ void meet_ctas(void) {
    barrier_cluster_arrive_relaxed();
    barrier_cluster_wait_acquire();
}

/* Arrives at the kernel's last cluster barrier, after which TMEM is deallocated.  A warp calls it after its
 * last access to TMEM. */
static __device__ __forceinline__ void leave_tmem(void) {
    tcgen05_fence_before_thread_sync();
    barrier_cluster_arrive_relaxed();
}

/* The tile of C that this CTA computes, and its share of the tile's K. */
struct tile_coord {
    int32_t m, n, batch;        /* first row of A, first row of B */
    int32_t rank;               /* rank of this CTA in its pair; rank 0 issues the MMAs */
    int32_t split;              /* index of this CTA's share of K */
    int32_t first_stage, steps; /* first stage and number of steps of that share */
    int32_t columns;            /* of a transposed tile's MMA */
};

/* Columns of the MMA. */
template <class T> static __device__ __forceinline__ int32_t mma_columns(const struct tile_coord &coord) {
    return T::transposed ? coord.columns : (T::joint_mma ? 2 : 1) * T::tile_n;
}

/* The tile and the share of K of this CTA, from its block indices; K has steps_k steps. */
template <class T> static __device__ __forceinline__ struct tile_coord find_tile(int32_t steps_k) {
    struct tile_coord coord;
    int32_t stages_k = (steps_k + STAGE_STEPS - 1) / STAGE_STEPS, in_cluster = blockIdx.x % T::cluster;
    coord.rank = in_cluster % T::ctas; /* the cluster is T::cluster wide along x */
    coord.split = in_cluster / T::ctas;
    coord.m = (blockIdx.x / T::cluster * T::ctas + coord.rank) * TILE_M;
    coord.first_stage = stages_k * coord.split / T::split_k;
    coord.steps =
        min(stages_k * (coord.split + 1) / T::split_k * STAGE_STEPS, steps_k) - coord.first_stage * STAGE_STEPS;
    coord.n = blockIdx.y * T::tile_n;
    coord.batch = blockIdx.z;
    return coord;
}

/* The rank in the cluster of the CTA that issues this CTA's MMAs. */
template <class T> static __device__ __forceinline__ uint32_t leader_rank(const struct tile_coord &coord) {
    return coord.split * T::ctas;
}

/* The mask, by ranks in the cluster, of the CTAs that share an MMA with this one. */
template <class T> static __device__ __forceinline__ uint16_t cta_mask(const struct tile_coord &coord) {
    return (uint16_t)(((1u << T::ctas) - 1) << leader_rank<T>(coord));
}

} // namespace blackwell

#endif
