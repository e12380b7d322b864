/* The fused dual GEMM for sm_90a.
 *
 * Read in this order: hopper_config.h (sizes), hopper_dequantize.cuh (fp4 to fp16), then from the top: tile and
 * shared memory, load, main loop, reduction across CTAs, epilogue, kernel.
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
 * wgmma computes the transpose, C^T = B A^T: its A operand are B1 and B2, its B operand is A (hopper_config.h).
 */
#ifndef HOPPER_DUAL_GEMM_CUH
#define HOPPER_DUAL_GEMM_CUH

#include "../gpu/instructions/wgmma.cuh"
#include "../gpu/instructions/wgmma_descriptors.h"
#include "../gpu/ring.cuh"
#include "../gpu/shared_address.cuh"
#include "hopper_dequantize.cuh"
#include "hopper_epilogue.cuh"

namespace hopper {

/* ---- tile and shared memory ---- */

#define CONSUMER_BARRIER 1
#define STEP_BYTES       (16 * FP16_BYTES)     /* of a row: K of one wgmma is 16 */
#define GROUP_STEPS      4                     /* that one dequantized group a lane feeds */
#define LANE_FP4_BYTES   (STAGE_FP4_BYTES / 4) /* of a row, by each of four lanes */
#define VECTOR_HALVES    8                     /* outputs of a 16-byte store */
/* Registers a thread: one warpgroup copies, the others hold accumulators and fragments. */
#define PRODUCER_REGISTERS 24
/* Of a thread at the launch: what ptxas gives a kernel of so many threads. */
#define LAUNCH_REGISTERS(threads)      (MAX_CTA_REGISTERS / (threads) / REGISTER_GRANULE * REGISTER_GRANULE)
#define WORKING_REGISTERS              28 /* of a consumer, beside accumulators and fragments */
#define CONSUMER_REGISTERS(warpgroups) ((warpgroups) == 2 ? 240 : (warpgroups) == 3 ? 160 : 112)

struct tile_coord; /* below */

/* `most_chains`: three are more exact, but 3 % slower at 256 x 4096 x 7168 (round 114); in one kernel of all
 * grouped tiles ptxas serializes wgmma with them. */
template <int warpgroups_n_, int m_blocks_, int tile_m_, int stages_, int split_k_, int warpgroups_k_,
          int most_chains = 2>
struct tile {
    /* What hopper_extended_gemm.cuh has others of, and where the dual GEMM's parameters are in these. */
    using coord = struct tile_coord;
    using params = struct hopper_dual_gemm_params;
    static __device__ __forceinline__ const struct hopper_dual_gemm_params &gemm_of(const params &p) {
        return p;
    }
    /* Warpgroups along the rows of B, and as many times as many that take the stages of K in turn. */
    static constexpr int warpgroups_n = warpgroups_n_, warpgroups_k = warpgroups_k_;
    static constexpr int warpgroups = warpgroups_n * warpgroups_k;
    static constexpr int m_blocks = m_blocks_, tile_m = tile_m_, stages = stages_;
    static constexpr int split_k = split_k_; /* CTAs of a cluster that share a tile's K, then its rows of A */
    static constexpr int tile_n = TILE_N(warpgroups_n, m_blocks), threads = CTA_THREADS(warpgroups);
    static constexpr int products = 2,
                         columns = tile_n;  /* columns of C: hopper_grouped_gemm.cuh has twice as many */
    static constexpr bool extended = false; /* hopper_extended_gemm.cuh: B's rows may be of one tensor */
    static constexpr int consumers = warpgroups * WARPGROUP_THREADS;   /* threads */
    static constexpr int finishers = warpgroups_n * WARPGROUP_THREADS; /* of them, those of the first in turn */
    /* Bytes from an atom of A (8 rows by A_BOX_K) to that of the next 8 rows, and to that of the next A_BOX_K.
     */
    static constexpr int a_atom_step = SWIZZLE_ATOM_BYTES, a_box_step = tile_m * A_BOX_BYTES;
    static constexpr int b_scale_tiles = SCALE_TILES_TOUCHED(tile_n);
    static constexpr int accs = tile_m / 2; /* accumulators of a thread in an m block: registers */
    /* Registers beside the accumulators, with two fragment buffers of so many steps of K. */
    static constexpr int registers_left(int steps) {
        return CONSUMER_REGISTERS(warpgroups) - 2 * steps * 4 - WORKING_REGISTERS;
    }
    /* Of K, in a fragment buffer: fewer where the accumulators leave few registers, or a third set of them
     * fits. */
    static constexpr int fragment_steps = m_blocks * accs > registers_left(GROUP_STEPS) ||
                                                  (most_chains == 3 && m_blocks == 1 && warpgroups_k == 1 &&
                                                   split_k == 1 &&
                                                   m_blocks * accs * 3 > registers_left(GROUP_STEPS) &&
                                                   m_blocks * accs * 3 <= registers_left(GROUP_STEPS / 2))
                                              ? GROUP_STEPS / 2
                                              : GROUP_STEPS;
    /* Of accumulators, each over a part of K: as many as fit. */
    static constexpr int chains_that_fit = registers_left(fragment_steps) / (m_blocks * accs);
    static constexpr int chains = warpgroups_k > 1                ? 1
                                  : chains_that_fit > most_chains ? most_chains
                                                                  : chains_that_fit;
    /* A warpgroup's m blocks one after another, where registers hold the fp4 of one alone. */
    static constexpr bool in_turn = m_blocks > 1 && fragment_steps < GROUP_STEPS;
    static constexpr int parts = A_BOXES * GROUP_STEPS / fragment_steps; /* of a stage, each a buffer */

    /* Of a tile whose K is split: each CTA finishes its share of the rows of A. */
    static constexpr int output_m = tile_m / split_k, output_accs = accs / split_k;
    static constexpr int received_vectors = split_k == 1 ? 0 : m_blocks * output_accs / 4; /* float4 a thread */
    static constexpr int stage_vectors = A_BOXES * tile_m * A_BOX_BYTES / (finishers * (int)sizeof(float4));
    static constexpr int received_stages = (received_vectors + stage_vectors - 1) / stage_vectors;
    static constexpr int vectors = m_blocks * accs / 4; /* float4 of all of a thread's accumulators */
    static constexpr int output_boxes = (output_m + WARP_THREADS - 1) / WARP_THREADS; /* of 32 rows of C */
    static constexpr int output_row_bytes = columns * FP16_BYTES + OUTPUT_PAD_BYTES;
    static constexpr int output_bytes = output_boxes * WARP_THREADS * output_row_bytes;

    static_assert(tile_m <= MAX_WGMMA_N && tile_m % WGMMA_N_GRANULE == 0, "a wgmma takes all rows of A");
    static_assert(tile_m <= MAX_TMA_BOX_ELEMS && tile_n <= MAX_TMA_BOX_ELEMS, "a TMA box takes all rows");
    static_assert(threads <= MAX_CTA_THREADS, "a CTA has that many threads");
    /* HW: more than the launch took is never free, and setmaxnreg waits for ever. */
    static_assert(WARPGROUP_THREADS * (PRODUCER_REGISTERS + warpgroups * CONSUMER_REGISTERS(warpgroups)) <=
                      threads * LAUNCH_REGISTERS(threads),
                  "the registers that the launch took suffice for what every warpgroup asks for");
    static_assert(CONSUMER_REGISTERS(warpgroups) <= MAX_THREAD_REGISTERS &&
                      CONSUMER_REGISTERS(warpgroups) % REGISTER_GRANULE == 0 &&
                      PRODUCER_REGISTERS % REGISTER_GRANULE == 0,
                  "setmaxnreg takes these numbers");
    static_assert(output_accs % 4 == 0, "whole vectors, of 8 rows of C");
    static_assert(stages % warpgroups_k == 0, "a stage's barriers are always of the same warpgroups");
    static_assert((warpgroups_k - 1) * vectors <= stages * stage_vectors,
                  "their accumulators fit over the stages");
    static_assert(split_k <= 2 && split_k <= MAX_CLUSTER_CTAS, "each CTA sends half to the one other CTA");
};

/* A stage.  A comes first, for its swizzle atoms' alignment. */
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

/* The staged output lies over the stages after those of received accumulators. */
template <class T> struct shared_storage {
    struct shared_stage<T> stages[T::stages];
    uint64_t full[T::stages], empty[T::stages]; /* mbarriers */
};

template <class T> using stage_t = struct shared_address<struct shared_stage<T>>;
template <class T> using shared_t = struct shared_address<struct shared_storage<T>>;

/* Sizes that the host counts too, and what has to fit. */
template <class T> struct layout_of {
    using stage = struct shared_stage<T>;
    using storage = struct shared_storage<T>;
    static_assert(sizeof(stage) == STAGE_BYTES(T::tile_n, T::tile_m),
                  "a stage has the bytes that the host counts");
    static_assert(sizeof(storage) + SWIZZLE_ATOM_BYTES == SHARED_BYTES(T::tile_n, T::tile_m, T::stages),
                  "shared memory has the bytes that the host asks for");
    static_assert(sizeof(storage) + SWIZZLE_ATOM_BYTES <= MAX_SHARED_BYTES,
                  "a CTA has that much shared memory");
    static_assert(sizeof(stage) % SWIZZLE_ATOM_BYTES == 0 && T::tile_m * A_BOX_BYTES % SWIZZLE_ATOM_BYTES == 0,
                  "every box of A starts a swizzle atom");
    static_assert(sizeof(uint64_t) == MBARRIER_BYTES, "an mbarrier object");
    static_assert(T::received_stages * sizeof(stage) + T::output_bytes <= T::stages * sizeof(stage),
                  "received accumulators and the staged output fit over the stages");
};

/* Which tile of C this CTA computes, and which stages of K of it. */
struct tile_coord {
    int32_t m, n, batch;         /* first row of A, first row of B */
    int32_t first_row;           /* of C that this tile stores: those before it are the tile's before */
    int32_t scale_tile;          /* first row of scale tiles of B */
    int32_t rank;                /* of this CTA among those that share the tile */
    int32_t first_stage, stages; /* maybe none */
    /* hopper_extended_gemm.cuh: the bits of a tile's row that count pieces of interleaved rows; from a row's
     * scale factors of the first operand to those of the second. */
    int32_t piece_mask, second_scales;
};

/* HW: a box that reaches past the end of A is slow where all SMs copy at once (measured:H200: 160 rows took
 * half as long again as 256 by tiles of 128).  So the last tile of rows is moved up to end with A. */
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

/* ---- load ---- */

/* B1, B2 and their scale factors: signals full[stage] with the whole stage's bytes. */
template <class T>
static __device__ __forceinline__ void load_b(shared_t<T> shared, const struct tile_coord &coord,
                                              const struct hopper_dual_gemm_params &p, const CUtensorMap *b1,
                                              const CUtensorMap *b2, int stage, int32_t k_stage) {
    struct mbarrier full = full_barrier(shared, stage);
    stage_t<T> to = stage_of(shared, stage);
    mbarrier_arrive_expect_tx(full, p.stage_tx_bytes);
    cp_async_bulk_tensor_3d(SHARED_MEMBER(to, fp4[0]), b1, k_stage * STAGE_FP4_BYTES, coord.n, coord.batch,
                            full);
    cp_async_bulk_tensor_3d(SHARED_MEMBER(to, fp4[1]), b2, k_stage * STAGE_FP4_BYTES,
                            T::products == 2 ? coord.n : coord.n + T::tile_n, coord.batch, full);
    int32_t last_tile = (p.n - 1) / SCALE_TILE_ROWS;
    for (int i = 0; i < T::b_scale_tiles; i++) {
        int64_t tile = min(coord.scale_tile + i, last_tile); /* rows past the end use what is there */
        int64_t offset = coord.batch * p.scale_batch_bytes +
                         (tile * p.scale_tiles_k + k_stage * STAGE_SCALE_TILES) * SCALE_TILE_BYTES;
        cp_async_bulk(SHARED_MEMBER(to, scales[0]) + i * STAGE_SCALE_BYTES, p.sfb1 + offset, STAGE_SCALE_BYTES,
                      full);
        if constexpr (T::products == 2) {
            cp_async_bulk(SHARED_MEMBER(to, scales[1]) + i * STAGE_SCALE_BYTES, p.sfb2 + offset,
                          STAGE_SCALE_BYTES, full);
        }
    }
}

/* A: signals full[stage], which load_b has told of its bytes. */
template <class T>
static __device__ __forceinline__ void load_a(shared_t<T> shared, const struct tile_coord &coord,
                                              const CUtensorMap *a, int stage, int32_t k_stage) {
    for (int box = 0; box < A_BOXES; box++) {
        cp_async_bulk_tensor_3d(
            SHARED_MEMBER(stage_of(shared, stage), a) + box * (int)sizeof(shared_stage<T>::a[0]), a,
            k_stage * STAGE_K + box * A_BOX_K, coord.m, coord.batch, full_barrier(shared, stage));
    }
}

/* Producer, one thread.  Waits for empty[s], and before A for the previous kernel, which makes it (PDL);
 * fills stage s, the first stages with B1 and B2 before that kernel is complete;
 * signals full[s]: one arrival, and the stage's bytes.  The extended GEMM has a load_b of its own.
 *
 * HW: with types of coord and p as template parameters beside T, ptxas' code of 14 kernels changes; by T's
 * names of them it stays (compare_sass). */
template <class T>
static __device__ __forceinline__ void load(shared_t<T> shared, const typename T::coord &coord,
                                            const typename T::params &p, const CUtensorMap *a,
                                            const CUtensorMap *b1, const CUtensorMap *b2) {
    if (T::gemm_of(p).scales_by_previous_kernel) {
        griddepcontrol_wait();
    }
    int ahead = min(T::stages, coord.stages);
    for (int i = 0; i < ahead; i++) {
        load_b<T>(shared, coord, p, b1, b2, i, coord.first_stage + i);
    }
    griddepcontrol_wait();
    for (int i = 0; i < ahead; i++) {
        load_a<T>(shared, coord, a, i, coord.first_stage + i);
    }
    struct ring ring = {0, 0};
    for (int32_t i = ahead; i < coord.stages; i++) {
        wait(empty_barrier(shared, ring.stage), ring.parity);
        load_b<T>(shared, coord, p, b1, b2, ring.stage, coord.first_stage + i);
        load_a<T>(shared, coord, a, ring.stage, coord.first_stage + i);
        advance<T::stages>(ring);
    }
}

/* ---- main loop ---- */

/* What a thread reads of a wgmma_m_block in a stage: 32 elements of a row of B1 and of B2, and their scales. */
struct packed_m_block {
    uint4 fp4[2];          /* [B1, B2]: two groups of two words each */
    uint32_t scales[2][2]; /* [B1, B2][group] */
};

/* From the scale factors of a row of the first operand to those of the same row of the second: another
 * tensor's, or where the only B fills a scale tile, of its second half. */
template <class T> static constexpr __device__ __forceinline__ int second_scales(void) {
    return T::products == 2 ? (int)sizeof(shared_stage<T>::scales[0])
                            : T::tile_n / SCALE_ENTRIES * SCALE_WORD_BYTES;
}

/* `block_row`: the warp's first row in the tile; `scale_row`: the same row in the stage's scale tiles. */
template <class T>
static __device__ __forceinline__ void read_m_block(struct packed_m_block &packed, stage_t<T> stage,
                                                    const struct tile_coord &coord, int block_row,
                                                    int scale_row, int lane) {
    int row = lane / 4, quad_lane = lane % 4;
    /* Consecutive lanes read consecutive 16 bytes: no bank conflict. */
    uint32_t fp4 = SHARED_MEMBER(stage, fp4) + (block_row + row) * STAGE_FP4_BYTES + quad_lane * LANE_FP4_BYTES;
    int in_tiles = scale_row + row;
    if constexpr (T::extended) {
        in_tiles += (block_row + row) & coord.piece_mask;
    }
    const int second = T::extended ? coord.second_scales : second_scales<T>();
    uint32_t scale_tile = SHARED_MEMBER(stage, scales) + in_tiles / SCALE_TILE_ROWS * STAGE_SCALE_BYTES +
                          quad_lane / 2 * SCALE_TILE_BYTES;
    uint32_t scales = scale_word_at(scale_tile, in_tiles) + quad_lane % 2 * 2;
    for (int which = 0; which < 2; which++) {
        packed.fp4[which] = ld_shared_v4(fp4 + which * (int)sizeof(shared_stage<T>::fp4[0]));
        widen_scales(ld_shared_u16(scales + which * second), packed.scales[which]);
    }
}

/* The A fragments of `steps` steps, two a word from `first_word` on of the thread's two rows. */
template <class T, int steps>
static __device__ __forceinline__ void dequantize_part(uint32_t (&fragment)[steps][4],
                                                       const struct packed_m_block &packed, int first_word) {
#pragma unroll
    for (int which = 0; which < 2; which++) {
#pragma unroll
        for (int i = 0; i < steps / 2; i++) {
            int word = first_word + i;
            uint32_t pairs[4];
            if constexpr (T::warpgroups == 3) {
                dequantize_word_by_bytes(word_of(packed.fp4[which], word), packed.scales[which][word / 2],
                                         pairs);
            } else {
                dequantize_word(word_of(packed.fp4[which], word), packed.scales[which][word / 2], pairs);
            }
            fragment[2 * i][which] = pairs[0];
            fragment[2 * i][2 + which] = pairs[1];
            fragment[2 * i + 1][which] = pairs[2];
            fragment[2 * i + 1][2 + which] = pairs[3];
        }
    }
}

/* Where a consumer warpgroup stands in the ring, and the stage that it has still to signal; -1 for none. */
struct consumed {
    struct ring ring;
    int previous;
};

/* Consumer warpgroup, stages first, first + warpgroups_k .. end - 1 of the tile.  Waits for full[s];
 * dequantizes a group of B1 and B2 into one of two fragment buffers while the tensor cores work on the other;
 * signals empty[s] once nothing reads stage s any more: an arrival a thread, since each answers for its reads.
 */
template <class T>
static __device__ __forceinline__ void
multiply_stages(float (&acc)[T::m_blocks][T::accs], struct consumed &consumed, shared_t<T> shared,
                const struct tile_coord &coord, int32_t first, int32_t end) {
    int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
    int first_row = warpgroup % T::warpgroups_n * T::m_blocks * WGMMA_M_BLOCK_B_ROWS;
    int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    uint32_t fragments[2][T::fragment_steps][4];
    struct ring ring = consumed.ring;
    int previous = consumed.previous;
    for (int32_t k = first; k < end; k += T::warpgroups_k) {
        wait(full_barrier(shared, ring.stage), ring.parity);
        stage_t<T> stage = stage_of(shared, ring.stage);
        /* By addition from here; but three warpgroups are slower with that (measured:H200, round 61). */
        const uint64_t tile_of_a = wgmma_swizzled_atoms_descriptor(SHARED_MEMBER(stage, a), T::a_atom_step);
        struct packed_m_block packed[T::m_blocks];
#pragma unroll
        for (int i = 0; i < T::m_blocks * T::parts; i++) {
            int block = T::in_turn ? i / T::parts : i % T::m_blocks,
                part = T::in_turn ? i % T::parts : i / T::m_blocks;
            uint32_t (&fragment)[T::fragment_steps][4] = fragments[i % 2];
            for (int j = 0; j < T::m_blocks; j++) {
                if (T::in_turn ? i == j * T::parts : i == 0) {
                    int row = first_row + j * WGMMA_M_BLOCK_B_ROWS + warp * 8;
                    read_m_block<T>(packed[j], stage, coord, row,
                                    coord.n - coord.scale_tile * SCALE_TILE_ROWS + row, lane);
                }
            }
            /* Only this stage's first part is still pending. */
            if (i == 1 && previous >= 0) {
                mbarrier_arrive(empty_barrier(shared, previous));
            }
            dequantize_part<T>(fragment, packed[block], part * T::fragment_steps / 2);
            wgmma_fence();
#pragma unroll
            for (int j = 0; j < T::fragment_steps; j++) {
                int step = part * T::fragment_steps + j;
                int offset = step / GROUP_STEPS * T::a_box_step + step % GROUP_STEPS * STEP_BYTES;
                uint64_t a = T::warpgroups == 3
                                 ? wgmma_swizzled_tile_descriptor(SHARED_MEMBER(stage, a) + offset)
                                 : wgmma_descriptor_plus(tile_of_a, offset);
                wgmma_m64k16<T::tile_m>::mma_async(acc[block], fragment[j], a, k > first || step > 0);
            }
            wgmma_commit_group();
            wgmma_wait_group<1>(); /* all but the last: the other buffer is free */
        }
        previous = ring.stage;
        advance<T::stages, T::warpgroups_k>(ring);
    }
    consumed.ring = ring;
    consumed.previous = previous;
}

template <class T> static __device__ __forceinline__ void keep_all(float (&acc)[T::m_blocks][T::accs]) {
#pragma unroll
    for (int i = 0; i < T::m_blocks * T::accs; i++) {
        keep_after_wait(acc[i / T::accs][i % T::accs]);
    }
}

/* The tile's products.  HW: each step of wgmma cuts its sum off, so that the error grows with the length of the
 * chain: where registers allow, halves or thirds of K have accumulators of their own, which are added at the
 * end. */
template <class T>
static __device__ __forceinline__ void multiply(float (&acc)[T::m_blocks][T::accs], shared_t<T> shared,
                                                const struct tile_coord &coord) {
    int turn = T::warpgroups_k == 1 ? 0 : (threadIdx.x / WARPGROUP_THREADS - 1) / T::warpgroups_n;
    struct consumed consumed = {{turn, 0}, -1};
    if constexpr (T::chains > 1) {
        float parts[T::chains - 1][T::m_blocks][T::accs];
#pragma unroll
        for (int i = 0; i < T::chains; i++) {
            multiply_stages<T>(i < T::chains - 1 ? parts[i] : acc, consumed, shared, coord,
                               coord.stages * i / T::chains, coord.stages * (i + 1) / T::chains);
        }
        wgmma_wait_group<0>();
        keep_all<T>(acc);
#pragma unroll
        for (int i = 0; i < T::chains - 1; i++) {
            keep_all<T>(parts[i]);
            const bool any = coord.stages * (i + 1) / T::chains > coord.stages * i / T::chains;
#pragma unroll
            for (int j = 0; j < T::m_blocks * T::accs; j++) {
                acc[j / T::accs][j % T::accs] += any ? parts[i][j / T::accs][j % T::accs] : 0.0f;
            }
        }
    } else {
        multiply_stages<T>(acc, consumed, shared, coord, turn, coord.stages);
        wgmma_wait_group<0>();
        keep_all<T>(acc);
    }
    if (T::split_k * T::warpgroups_k > 1 && coord.stages <= turn) { /* K is shorter than its number of shares */
#pragma unroll
        for (int i = 0; i < T::m_blocks * T::accs; i++) {
            acc[i / T::accs][i % T::accs] = 0;
        }
    }
}

/* ---- reduction ---- */

/* A vector of received accumulators, from where the thread's first one lies. */
template <class T> static constexpr __device__ __forceinline__ int received_offset(int vector) {
    return vector / T::stage_vectors * (int)sizeof(shared_stage<T>) +
           vector % T::stage_vectors * (int)sizeof(shared_stage<T>::received[0]);
}

/* Sums the accumulators of the warpgroups that took the stages in turn, in that order, in the first of them.
 * After it nothing reads the stages but those sums. */
template <class T>
static __device__ __forceinline__ void reduce_in_cta(float (&acc)[T::m_blocks][T::accs], shared_t<T> shared) {
    int thread = (threadIdx.x - WARPGROUP_THREADS) % T::finishers;
    int turn = (threadIdx.x - WARPGROUP_THREADS) / T::finishers;
    uint32_t mine = SHARED_MEMBER(shared, stages[0].received) + thread * sizeof(float4);
    bar_sync(CONSUMER_BARRIER, T::consumers); /* the stages are free */
    if (turn > 0) {
#pragma unroll
        for (int i = 0; i < T::vectors; i++) {
            const float *four = &acc[i * 4 / T::accs][i * 4 % T::accs];
            const uint32_t words[4] = {__float_as_uint(four[0]), __float_as_uint(four[1]),
                                       __float_as_uint(four[2]), __float_as_uint(four[3])};
            st_shared_v4(mine + received_offset<T>((turn - 1) * T::vectors + i), words);
        }
    }
    bar_sync(CONSUMER_BARRIER, T::consumers);
    if (turn == 0) {
#pragma unroll
        for (int from = 0; from < T::warpgroups_k - 1; from++) {
#pragma unroll
            for (int i = 0; i < T::vectors; i++) {
                uint4 other = ld_shared_v4(mine + received_offset<T>(from * T::vectors + i));
                float *four = &acc[i * 4 / T::accs][i * 4 % T::accs];
                four[0] += __uint_as_float(other.x);
                four[1] += __uint_as_float(other.y);
                four[2] += __uint_as_float(other.z);
                four[3] += __uint_as_float(other.w);
            }
        }
    }
}

/* DSMEM reduction of accumulators over a part of K.  Waits for the cluster, whose stages are then free;
 * sends those of the other CTA's rows of A to it, waits for the cluster, adds what came for ours.  After it
 * acc[][0 .. output_accs - 1] are those of this CTA's rows, and the stages hold what it received. */
template <class T>
static __device__ __forceinline__ void reduce(float (&acc)[T::m_blocks][T::accs], shared_t<T> shared,
                                              int rank) {
    uint32_t mine =
                 SHARED_MEMBER(shared, stages[0].received) + (threadIdx.x - WARPGROUP_THREADS) * sizeof(float4),
             theirs = mapa_shared_cluster(mine, rank ^ 1);
    barrier_cluster_arrive_release(); /* our stages are free */
    barrier_cluster_wait_acquire();   /* theirs are */
#pragma unroll
    for (int block = 0; block < T::m_blocks; block++) {
#pragma unroll
        for (int i = 0; i < T::output_accs; i++) {
            float low = acc[block][i], high = acc[block][T::output_accs + i];
            acc[block][i] = rank == 0 ? low : high;
            acc[block][T::output_accs + i] = rank == 0 ? high : low;
        }
#pragma unroll
        for (int i = 0; i < T::output_accs; i += 4) {
            const float *four = &acc[block][T::output_accs + i];
            st_shared_cluster_v4(theirs + received_offset<T>((block * T::output_accs + i) / 4), four);
        }
    }
    barrier_cluster_arrive_release();
    barrier_cluster_wait_acquire();
#pragma unroll
    for (int block = 0; block < T::m_blocks; block++) {
#pragma unroll
        for (int i = 0; i < T::output_accs; i += 4) {
            uint4 other = ld_shared_v4(mine + received_offset<T>((block * T::output_accs + i) / 4));
            acc[block][i] += __uint_as_float(other.x);
            acc[block][i + 1] += __uint_as_float(other.y);
            acc[block][i + 2] += __uint_as_float(other.z);
            acc[block][i + 3] += __uint_as_float(other.w);
        }
    }
}

/* ---- epilogue ---- */

/* Accumulators -> fp16 outputs in shared memory, [row of A][row of B], over stages that nothing uses any more.
 */
template <class T>
static __device__ __forceinline__ void stage_output(float (&acc)[T::m_blocks][T::accs], uint32_t output,
                                                    int warpgroup) {
    int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int block = 0; block < T::m_blocks; block++) {
        int column = (warpgroup * T::m_blocks + block) * WGMMA_M_BLOCK_B_ROWS + warp * 8;
#pragma unroll
        for (int row = 0; row < T::output_m; row += WARP_THREADS) {
            uint32_t halves[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                halves[i] = row + i * 8 < T::output_m ? silu_times_up(&acc[block][(row / 8 + i) * 4]) : 0;
            }
            stmatrix_x4_trans(output + (row + lane) * T::output_row_bytes + column * FP16_BYTES, halves);
        }
    }
}

/* The same of one product (hopper_grouped_gemm.cuh), whose second half of columns has the dual GEMM's places of
 * up. */
template <class T>
static __device__ __forceinline__ void stage_plain_output(float (&acc)[T::m_blocks][T::accs], uint32_t output,
                                                          int warpgroup) {
    int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int i = 0; i < T::m_blocks * (T::columns / T::tile_n); i++) {
        int block = i % T::m_blocks, half = i / T::m_blocks;
        int column = half * T::tile_n + (warpgroup * T::m_blocks + block) * WGMMA_M_BLOCK_B_ROWS + warp * 8;
#pragma unroll
        for (int row = 0; row < T::output_m; row += WARP_THREADS) {
            uint32_t halves[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                halves[j] =
                    row + j * 8 < T::output_m ? plain_outputs(&acc[block][(row / 8 + j) * 4 + 2 * half]) : 0;
            }
            stmatrix_x4_trans(output + (row + lane) * T::output_row_bytes + column * FP16_BYTES, halves);
        }
    }
}

/* Shared memory -> C, by all consumers; 16 bytes at a time where rows of C allow it. */
template <class T>
static __device__ __forceinline__ void store_output(const unsigned char *output, const struct tile_coord &coord,
                                                    const struct hopper_dual_gemm_params &p) {
    int32_t tile_row = coord.m + coord.rank * T::output_m;
    constexpr int vectors = T::columns / VECTOR_HALVES, threads = T::finishers;
    int thread = threadIdx.x - WARPGROUP_THREADS;
    for (int i = thread; i < T::output_m * vectors; i += threads) {
        int row = i / vectors, column = i % vectors * VECTOR_HALVES;
        if (tile_row + row < coord.first_row || tile_row + row >= p.m || coord.n + column >= p.n) {
            continue;
        }
        const unsigned char *from = output + row * T::output_row_bytes + column * FP16_BYTES;
        int64_t row_of_c = (int64_t)coord.batch * p.m + tile_row + row;
        uint16_t *to = p.c + row_of_c * p.n + coord.n + column;
        if (p.n % VECTOR_HALVES == 0) {
            *(uint4 *)to = *(const uint4 *)from;
        } else {
            for (int half = 0; half < VECTOR_HALVES && coord.n + column + half < p.n; half++) {
                to[half] = ((const uint16_t *)from)[half];
            }
        }
    }
}

/* ---- kernel ---- */

/* The tile's accumulators, of all who share its K.  False: another warpgroup has them.  After it the stages are
 * free, but for what was received. */
template <class T>
static __device__ __forceinline__ bool accumulate(float (&acc)[T::m_blocks][T::accs], shared_t<T> shared,
                                                  const struct tile_coord &coord, int warpgroup) {
    multiply<T>(acc, shared, coord);
    if constexpr (T::warpgroups_k > 1) {
        reduce_in_cta<T>(acc, shared);
        if (warpgroup >= T::warpgroups_n) {
            return false;
        }
    }
    if constexpr (T::split_k > 1) {
        reduce<T>(acc, shared, coord.rank);
    } else {
        bar_sync(CONSUMER_BARRIER, T::finishers); /* the stages are free */
    }
    return true;
}

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

/* What a CTA does: the producer's warpgroup and the consumers', from the first barrier on. */
template <class T>
static __device__ __forceinline__ void compute_tile(const typename T::coord &coord, const typename T::params &p,
                                                    const CUtensorMap &a, const CUtensorMap &b1,
                                                    const CUtensorMap &b2) {
    extern __shared__ unsigned char memory[];
    uint32_t misaligned = cvta_to_shared(memory) % SWIZZLE_ATOM_BYTES;
    unsigned char *aligned = memory + (SWIZZLE_ATOM_BYTES - misaligned) % SWIZZLE_ATOM_BYTES;
    typename layout_of<T>::storage *storage = (typename layout_of<T>::storage *)aligned;
    shared_t<T> shared = {cvta_to_shared(aligned)};

    if (threadIdx.x == 0) {
        prefetch_tensormap(&a);
        prefetch_tensormap(&b1);
        prefetch_tensormap(&b2);
        for (int stage = 0; stage < T::stages; stage++) {
            mbarrier_init(full_barrier(shared, stage), 1);
            mbarrier_init(empty_barrier(shared, stage), T::finishers);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    griddepcontrol_launch_dependents();

    if (threadIdx.x < WARPGROUP_THREADS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            load<T>(shared, coord, p, &a, &b1, &b2);
        }
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS(T::warpgroups)>();
        consume<T>(shared, storage, coord, p);
    }
}

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    dual_gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                     const __grid_constant__ CUtensorMap b2,
                     const __grid_constant__ hopper_dual_gemm_params p) {
    compute_tile<T>(find_tile<T>(p), p, a, b1, b2);
}

} // namespace hopper

#endif
