/* A tile of the wgmma GEMMs: its constants, what lies in shared memory, its barriers, and where in C it is.
 *
 * Read the first comment of hopper_dual_gemm.cuh before. */
#ifndef HOPPER_TILE_CUH
#define HOPPER_TILE_CUH

#include "../gpu/device/ring.cuh"
#include "../gpu/device/shared_address.cuh"
#include "hopper_kernels.h"

namespace hopper {

/* ---- sizes ---- */

#define GROUP_STEPS 4 /* wgmma K steps fed by one group (16 elements) of each lane of a quad */
#define MOST_CHAINS 2 /* three are more exact, but 3 % slower at 256 x 4096 x 7168 (round 114) */
/* Registers a thread: the producer's warpgroup copies, the others hold accumulators and fragments. */
#define PRODUCER_REGISTERS             24
#define CONSUMER_REGISTERS(warpgroups) ((warpgroups) == 2 ? 240 : (warpgroups) == 3 ? 160 : 112)
#define WORKING_REGISTERS              28 /* a consumer's, besides accumulators and fragments */
/* Registers that ptxas gives each thread of a kernel with `threads` threads. */
#define LAUNCH_REGISTERS(threads) (MAX_CTA_REGISTERS / (threads) / REGISTER_GRANULE * REGISTER_GRANULE)

template <int warpgroups_n_, int m_blocks_, int tile_m_, int stages_, int split_k_, int warpgroups_k_>
struct tile {
    /* warpgroups_n consumer warpgroups share the rows of B; warpgroups_k sets of them take turns at stages. */
    static constexpr int warpgroups_n = warpgroups_n_, warpgroups_k = warpgroups_k_;
    static constexpr int warpgroups = warpgroups_n * warpgroups_k;
    static constexpr int m_blocks = m_blocks_, tile_m = tile_m_, stages = stages_;
    static constexpr int wgmma_rows = tile_m; /* rows of A that are multiplied */
    static constexpr int split_k = split_k_;  /* CTAs of a cluster that share the tile's K */
    static constexpr int tile_n = TILE_N(warpgroups_n, m_blocks), threads = CTA_THREADS(warpgroups);
    static constexpr int consumers = warpgroups * WARPGROUP_THREADS;   /* threads */
    static constexpr int finishers = warpgroups_n * WARPGROUP_THREADS; /* threads that run the epilogue */
    static constexpr int b_scale_tiles = SCALE_TILES_TOUCHED(tile_n);
    /* Bytes from a swizzle atom of A (8 rows by A_BOX_K) to the atom of the next 8 rows, and of the next
     * A_BOX_K. */
    static constexpr int a_atom_step = SWIZZLE_ATOM_BYTES, a_box_step = tile_m * A_BOX_BYTES;

    /* Registers, all a thread.  Two fragment buffers of `steps` wgmma K steps each stay beside the
     * accumulators; the buffers are halved if the accumulators leave too few registers. */
    static constexpr int accs = tile_m / 2;             /* accumulators of an m block */
    static constexpr int vectors = m_blocks * accs / 4; /* all accumulators, in float4 */
    static constexpr int registers_left(int steps) {
        return CONSUMER_REGISTERS(warpgroups) - 2 * steps * 4 - WORKING_REGISTERS;
    }
    static constexpr int fragment_steps = m_blocks * accs > registers_left(GROUP_STEPS) ? GROUP_STEPS / 2
                                                                                        : GROUP_STEPS;
    /* Sets of accumulators, each over its own part of K (multiply). */
    static constexpr int chains_that_fit = registers_left(fragment_steps) / (m_blocks * accs);
    static constexpr int chains = warpgroups_k > 1                ? 1
                                  : chains_that_fit > MOST_CHAINS ? MOST_CHAINS
                                                                  : chains_that_fit;
    /* A stage's m blocks are multiplied one after another if registers hold the fp4 of only one of them. */
    static constexpr bool blocks_in_turn = m_blocks > 1 && fragment_steps < GROUP_STEPS;
    static constexpr int a_type = CUSTOM_KERNEL_A_FP16; /* of A in shared memory, and of B's fragments */
    /* Three warpgroups are faster with a dequantization of fewer products and more integer instructions, and
     * with A's descriptor built anew for each step (measured:H200, round 61). */
    static constexpr bool dequantizes_by_bytes = warpgroups == 3, rebuilds_descriptors = warpgroups == 3;

    /* With split K, each CTA runs the epilogue for its share of A's rows. */
    static constexpr int output_m = tile_m / split_k, output_accs = accs / split_k;
    static constexpr int received_vectors = split_k == 1 ? 0 : m_blocks * output_accs / 4; /* float4 a thread */
    static constexpr int stage_vectors = A_BOXES * tile_m * A_BOX_BYTES / (finishers * (int)sizeof(float4));
    static constexpr int received_stages = (received_vectors + stage_vectors - 1) / stage_vectors;
    static constexpr int columns = tile_n; /* of C */
    static constexpr int output_row_bytes = columns * FP16_BYTES + OUTPUT_PAD_BYTES;

    /* One thread's copies of a stage take 0.3 us (simulated:H200), longer than products with few rows of A. */
    static constexpr bool short_stages = tile_m <= 64;

    static_assert(tile_m <= MAX_WGMMA_N && tile_m % WGMMA_N_GRANULE == 0,
                  "one wgmma takes all of a tile's rows of A");
    static_assert(tile_m <= MAX_TMA_BOX_ELEMS && tile_n <= MAX_TMA_BOX_ELEMS,
                  "one TMA box takes all of a tile's rows of A, and one all its rows of B");
    static_assert(threads <= MAX_CTA_THREADS, "a CTA has at most MAX_CTA_THREADS threads");
    /* HW: registers beyond the launch's are never free, and setmaxnreg would wait for ever. */
    static_assert(WARPGROUP_THREADS * (PRODUCER_REGISTERS + warpgroups * CONSUMER_REGISTERS(warpgroups)) <=
                      threads * LAUNCH_REGISTERS(threads),
                  "the launch's registers suffice for what all warpgroups ask for");
    static_assert(CONSUMER_REGISTERS(warpgroups) <= MAX_THREAD_REGISTERS &&
                      CONSUMER_REGISTERS(warpgroups) % REGISTER_GRANULE == 0 &&
                      PRODUCER_REGISTERS % REGISTER_GRANULE == 0,
                  "setmaxnreg takes multiples of REGISTER_GRANULE up to MAX_THREAD_REGISTERS");
    static_assert(output_accs % 4 == 0, "a lane's accumulators are whole vectors, of 8 rows of C");
    static_assert(stages % warpgroups_k == 0, "a stage's barriers always belong to the same warpgroups");
    static_assert((warpgroups_k - 1) * vectors <= stages * stage_vectors,
                  "the accumulators of warpgroups that take stages in turn fit over the stages");
    static_assert(split_k <= 2 && split_k <= MAX_CLUSTER_CTAS,
                  "at most two CTAs share K: each sends half to the other");
};

/* ---- shared memory ---- */

/* A comes first, because its swizzle atoms are aligned. */
template <class T> struct shared_stage {
    union {
        unsigned char a[A_BOXES][T::tile_m][A_BOX_BYTES]; /* fp16, permuted K, 128-byte swizzle */
        float4 received[T::stage_vectors][T::finishers];  /* others' accumulators, after the main loop */
    };
    unsigned char fp4[2][T::tile_n][STAGE_FP4_BYTES];             /* [B1, B2] */
    unsigned char scales[2][T::b_scale_tiles][STAGE_SCALE_BYTES]; /* [sfb1, sfb2] */

    static_assert(STAGE_FP4_BYTES % BULK_COPY_ALIGNMENT == 0 && STAGE_SCALE_BYTES % BULK_COPY_ALIGNMENT == 0,
                  "every copy is aligned");
};

/* After the main loop the stages hold received accumulators, and behind these the staged output. */
template <class T> struct shared_storage {
    struct shared_stage<T> stages[T::stages];
    uint64_t full[T::stages], empty[T::stages]; /* mbarriers */
};

template <class T> using stage_t = struct shared_address<struct shared_stage<T>>;
template <class T> using shared_t = struct shared_address<struct shared_storage<T>>;

/* True if the staged output, in boxes of 32 rows, has room behind received accumulators. */
template <class T>
constexpr bool output_fits =
    T::received_stages * sizeof(struct shared_stage<T>) +
        (T::output_m + WARP_THREADS - 1) / WARP_THREADS * WARP_THREADS * T::output_row_bytes <=
    T::stages * sizeof(struct shared_stage<T>);

/* The types above, checked: sizes that the host computes too, and what has to fit. */
template <class T> struct layout_of {
    using stage = struct shared_stage<T>;
    using storage = struct shared_storage<T>;
    static_assert(sizeof(stage) == STAGE_BYTES(T::tile_n, T::tile_m),
                  "a stage has the bytes that the host computes");
    static_assert(sizeof(storage) + SWIZZLE_ATOM_BYTES == SHARED_BYTES(T::tile_n, T::tile_m, T::stages),
                  "shared memory has the bytes that the host asks for");
    static_assert(sizeof(storage) + SWIZZLE_ATOM_BYTES <= MAX_SHARED_BYTES,
                  "a CTA has at most MAX_SHARED_BYTES of shared memory");
    static_assert(sizeof(stage) % SWIZZLE_ATOM_BYTES == 0 && T::tile_m * A_BOX_BYTES % SWIZZLE_ATOM_BYTES == 0,
                  "every box of A starts a swizzle atom");
    static_assert(sizeof(uint64_t) == MBARRIER_BYTES, "an mbarrier has MBARRIER_BYTES bytes");
    static_assert(output_fits<T>, "received accumulators and the staged output fit over the stages");
};

/* The ring at the start of a kernel's shared memory. */
template <class T> static __device__ __forceinline__ shared_t<T> ring_of(const void *storage) {
    return {cvta_to_shared(storage)};
}

/* ---- place ---- */

/* The tile of C that this CTA computes, and its stages of the tile's K. */
struct tile_coord {
    int32_t m, n, batch;         /* first row of A, first row of B */
    int32_t first_row;           /* first row of C stored; earlier rows belong to the previous tile */
    int32_t scale_tile;          /* first row of scale tiles of B */
    int32_t rank;                /* rank of this CTA among the CTAs that share the tile */
    int32_t first_stage, stages; /* stages may be 0 */
};

/* Both operands may be rows of one tensor: each half of the tile's columns, or pieces that alternate. */
struct joint_coord : tile_coord {
    int32_t column;        /* the first column of C */
    int32_t piece_mask;    /* the bits of a row in the tile that count pieces of interleaved rows */
    int32_t second_scales; /* bytes from a row's scale factors of the first operand to those of the second */
};

/* HW: a box that reaches past the end of A is slow if all SMs copy at once (measured:H200: 160 rows took half
 * as long again as 256 with tiles of 128).  So the last tile of rows is moved up to end with A. */
template <class T>
static __device__ __forceinline__ struct tile_coord
place_tile(const struct hopper_dual_gemm_params &p, int32_t n, int32_t row, int32_t batch, int32_t rank) {
    struct tile_coord coord;
    coord.n = n;
    coord.first_row = row * T::tile_m;
    coord.m = min(coord.first_row, p.m - p.a_box_rows);
    coord.batch = batch;
    coord.scale_tile = coord.n / SCALE_TILE_ROWS;
    coord.rank = rank;
    coord.first_stage = p.stages_k * coord.rank / T::split_k;
    coord.stages = p.stages_k * (coord.rank + 1) / T::split_k - coord.first_stage;
    return coord;
}

/* joint_coord's second_scales if pieces of `piece` rows alternate: the second operand's factors lie whole scale
 * tiles after the first one's for pieces of 128 rows, quarters of a tile from 32 rows on, and entries for
 * smaller pieces. */
static __device__ __forceinline__ int32_t second_scales_of_pieces(int32_t piece) {
    return piece >= SCALE_TILE_ROWS ? STAGE_SCALE_BYTES
           : piece >= SCALE_ENTRIES ? piece / SCALE_ENTRIES * SCALE_WORD_BYTES
                                    : piece * SCALE_ENTRY_BYTES;
}

/* Where a row's scale factors are in a stage.  Of a tile_coord, both operands have tensors, and T says it. */
template <class T> static __device__ __forceinline__ int32_t second_scales_of(const struct tile_coord &) {
    return T::second_scales;
}

template <class T> static __device__ __forceinline__ int32_t second_scales_of(const struct joint_coord &coord) {
    return coord.second_scales;
}

static __device__ __forceinline__ int32_t piece_mask_of(const struct tile_coord &) {
    return 0;
}

static __device__ __forceinline__ int32_t piece_mask_of(const struct joint_coord &coord) {
    return coord.piece_mask;
}

/* True if a stage's scale factors follow each other row by row. */
static __device__ __forceinline__ bool has_row_scales(const struct tile_coord &) {
    return false;
}

} // namespace hopper

#endif
