/* The pipeline that the wgmma GEMMs share: the producer's copies, the main loop, the reductions.
 *
 * Read the first comment of hopper_dual_gemm.cuh before.  T is a GEMM's tile, made of hopper_tile.cuh's and
 *
 *   T::coord, T::params   types: the tile's place, and the kernel's parameters
 *   T::copy_b(...)        copies B of stage s; arrives on full[s] with all bytes of s
 *   T::copy_scales(...)   copies the scale factors of stage s
 *   T::second_scales      bytes from a row's scale factors of the first operand to those of the second, unless
 *                         the coord has them */
#ifndef HOPPER_PIPELINE_CUH
#define HOPPER_PIPELINE_CUH

#include "../gpu/instructions/wgmma_descriptors.h"
#include "hopper_dequantize.cuh"
#include "hopper_tile.cuh"

namespace hopper {

#define CONSUMER_BARRIER 1                     /* named barrier of the consumers; 0 is __syncthreads */
#define STEP_BYTES       (16 * FP16_BYTES)     /* row of A in a step: K of one wgmma is 16 */
#define LANE_FP4_BYTES   (STAGE_FP4_BYTES / 4) /* each of four lanes' share of a row of B */

/* ---- start ---- */

/* One thread.  Every thread of `reading` consumers arrives on empty[s]. */
template <class T>
static __device__ __forceinline__ void start_pipeline(shared_t<T> shared, int reading, const CUtensorMap &a,
                                                      const CUtensorMap &b1, const CUtensorMap &b2) {
    prefetch_tensormap(&a);
    prefetch_tensormap(&b1);
    prefetch_tensormap(&b2);
    for (int stage = 0; stage < T::stages; stage++) {
        mbarrier_init(full_barrier(shared, stage), 1);
        mbarrier_init(empty_barrier(shared, stage), reading);
    }
    fence_mbarrier_init();
}

/* ---- load ---- */

/* A of a stage: its bytes count for the phase of full[stage] that load_b has armed. */
template <class T>
static __device__ __forceinline__ void load_a(shared_t<T> shared, const struct tile_coord &coord,
                                              const CUtensorMap *a, int stage, int32_t k_stage) {
    for (int box = 0; box < A_BOXES; box++) {
        cp_async_bulk_tensor_3d(
            SHARED_MEMBER(stage_of(shared, stage), a) + box * (int)sizeof(shared_stage<T>::a[0]), a,
            k_stage * STAGE_K + box * A_BOX_K, coord.m, coord.batch, full_barrier(shared, stage));
    }
}

/* B and scale factors of a stage. */
template <class T>
static __device__ __forceinline__ void load_b(shared_t<T> shared, const typename T::coord &coord,
                                              const typename T::params &p, const CUtensorMap *b1,
                                              const CUtensorMap *b2, int stage, int32_t k_stage) {
    T::copy_b(shared, coord, p, b1, b2, stage, k_stage);
    T::copy_scales(shared, coord, p, stage, k_stage);
}

/* Producer, one thread.  Waits for empty[s], and before the first A for the previous kernel, which makes it
 * (PDL); fills stage s, and copies B of the first stages while that kernel still runs; signals full[s]: one
 * arrival, and the stage's bytes.
 *
 * HW: ptxas' code of 14 kernels changes if the types of coord and p are template parameters besides T; it stays
 * if they are T's names (compare_sass). */
template <class T>
static __device__ __forceinline__ void
load(shared_t<T> shared, const typename T::coord &coord, const typename T::params &p, const CUtensorMap *a,
     const CUtensorMap *b1, const CUtensorMap *b2, bool scales_by_previous_kernel) {
    if (scales_by_previous_kernel) {
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
    struct ring ring = second_lap();
    for (int32_t i = ahead; i < coord.stages; i++) {
        wait(empty_barrier(shared, ring.stage), ring.parity);
        load_b<T>(shared, coord, p, b1, b2, ring.stage, coord.first_stage + i);
        load_a<T>(shared, coord, a, ring.stage, coord.first_stage + i);
        advance<T::stages>(ring);
    }
}

/* Warps of the producer's warpgroup, by what they copy to each stage. */
enum { COPIES_B, COPIES_SCALES, COPIES_A, COPYING_WARPS };

/* A copying warp, for stages `first` to before `end` of K: waits for empty[s] and fills its part of stage s.
 * elect.sync picks the lane, because ptxas puts a loop around a copy by thread 0. */
template <class T>
static __device__ __forceinline__ void
fill_stages(shared_t<T> shared, struct ring &ring, const typename T::coord &coord, const typename T::params &p,
            const CUtensorMap *a, const CUtensorMap *b1, const CUtensorMap *b2, int warp, int32_t first,
            int32_t end) {
    for (int32_t k = first; k < end; k++) {
        wait(empty_barrier(shared, ring.stage), ring.parity);
        if (elect_sync()) {
            if (warp == COPIES_B) {
                T::copy_b(shared, coord, p, b1, b2, ring.stage, k);
            } else if (warp == COPIES_SCALES) {
                T::copy_scales(shared, coord, p, ring.stage, k);
            } else {
                load_a<T>(shared, coord, a, ring.stage, k);
            }
        }
        advance<T::stages>(ring);
    }
}

/* load() by three warps, where one thread's instructions would take longer than the stages' products. */
template <class T>
static __device__ __forceinline__ void load_by_warps(shared_t<T> shared, const typename T::coord &coord,
                                                     const typename T::params &p, const CUtensorMap *a,
                                                     const CUtensorMap *b1, const CUtensorMap *b2, int warp,
                                                     bool scales_by_previous_kernel) {
    if (warp == COPIES_A || (warp == COPIES_SCALES && scales_by_previous_kernel)) {
        griddepcontrol_wait(); /* the previous kernel makes this operand */
    }
    struct ring ring = ring_to_fill();
    fill_stages<T>(shared, ring, coord, p, a, b1, b2, warp, coord.first_stage,
                   coord.first_stage + coord.stages);
}

/* ---- main loop ---- */

/* A thread's part of an m block in a stage: 32 elements of a row of B1 and of B2, and their scale factors. */
struct packed_m_block {
    uint4 fp4[2];          /* [B1, B2]: two groups of two words each */
    uint32_t scales[2][2]; /* [B1, B2][group] */
};

/* `block_row`: the warp's first row in the tile; `scale_row`: the same row in the stage's scale tiles, if the
 * rows of an operand follow each other there. */
template <class T>
static __device__ __forceinline__ void read_m_block(struct packed_m_block &packed, stage_t<T> stage,
                                                    const typename T::coord &coord, int block_row,
                                                    int scale_row, int lane) {
    int row = lane / 4, quad_lane = lane % 4;
    /* Consecutive lanes read consecutive 16 bytes: no bank conflict. */
    uint32_t fp4 = SHARED_MEMBER(stage, fp4) + (block_row + row) * STAGE_FP4_BYTES + quad_lane * LANE_FP4_BYTES;
    const int in_tiles = scale_row + row + ((block_row + row) & piece_mask_of(coord)),
              second = second_scales_of<T>(coord);
    uint32_t scale_tile = SHARED_MEMBER(stage, scales) + in_tiles / SCALE_TILE_ROWS * STAGE_SCALE_BYTES +
                          quad_lane / 2 * SCALE_TILE_BYTES;
    uint32_t scales = scale_word_at(scale_tile, in_tiles) + quad_lane % 2 * 2;
    if (has_row_scales(coord)) {
        scales = SHARED_MEMBER(stage, scales) + in_tiles * STAGE_ROW_SCALES + quad_lane * 2;
    }
    for (int which = 0; which < 2; which++) {
        packed.fp4[which] = ld_shared_v4(fp4 + which * (int)sizeof(shared_stage<T>::fp4[0]));
        widen_scales_as<T::a_type>(ld_shared_u16(scales + which * second), packed.scales[which]);
    }
}

/* The A fragments of `steps` K steps, two for each word of the thread's two rows, from `first_word` on. */
template <class T, int steps>
static __device__ __forceinline__ void dequantize_part(uint32_t (&fragment)[steps][4],
                                                       const struct packed_m_block &packed, int first_word) {
#pragma unroll
    for (int which = 0; which < 2; which++) {
#pragma unroll
        for (int i = 0; i < steps / 2; i++) {
            int word = first_word + i;
            uint32_t pairs[4];
            if constexpr (T::dequantizes_by_bytes) {
                dequantize_word_by_bytes(word_of(packed.fp4[which], word), packed.scales[which][word / 2],
                                         pairs);
            } else {
                dequantize_word_as<T::a_type>(word_of(packed.fp4[which], word), packed.scales[which][word / 2],
                                              pairs);
            }
            fragment[2 * i][which] = pairs[0];
            fragment[2 * i][2 + which] = pairs[1];
            fragment[2 * i + 1][which] = pairs[2];
            fragment[2 * i + 1][2 + which] = pairs[3];
        }
    }
}

/* A consumer warpgroup's place in the ring, and the stage whose empty barrier it still has to signal; -1 for
 * none. */
struct consumed {
    struct ring ring;
    int previous;
};

/* Consumer warpgroup, for the tile's stages first, first + warpgroups_k, ... before `end`.  Waits for full[s];
 * dequantizes a part of B1 and B2 into one of two fragment buffers while the tensor cores work on the other;
 * signals empty[s] once nothing reads stage s any more: every thread arrives, since each vouches for its own
 * reads. */
template <class T>
static __device__ __forceinline__ void
multiply_stages(float (&acc)[T::m_blocks][T::accs], struct consumed &consumed, shared_t<T> shared,
                const typename T::coord &coord, int32_t first, int32_t end) {
    int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
    int first_row = warpgroup % T::warpgroups_n * T::m_blocks * WGMMA_M_BLOCK_B_ROWS;
    int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    constexpr int parts = A_BOXES * GROUP_STEPS / T::fragment_steps; /* fragment buffers of a stage */
    uint32_t fragments[2][T::fragment_steps][4];
    struct ring ring = consumed.ring;
    int previous = consumed.previous;
    for (int32_t k = first; k < end; k += T::warpgroups_k) {
        wait(full_barrier(shared, ring.stage), ring.parity);
        stage_t<T> stage = stage_of(shared, ring.stage);
        const uint64_t tile_of_a = wgmma_swizzled_atoms_descriptor(SHARED_MEMBER(stage, a), T::a_atom_step);
        struct packed_m_block packed[T::m_blocks];
#pragma unroll
        for (int i = 0; i < T::m_blocks * parts; i++) {
            int block = T::blocks_in_turn ? i / parts : i % T::m_blocks,
                part = T::blocks_in_turn ? i % parts : i / T::m_blocks;
            uint32_t (&fragment)[T::fragment_steps][4] = fragments[i % 2];
            for (int j = 0; j < T::m_blocks; j++) {
                if (T::blocks_in_turn ? i == j * parts : i == 0) {
                    int row = first_row + j * WGMMA_M_BLOCK_B_ROWS + warp * 8;
                    read_m_block<T>(packed[j], stage, coord, row,
                                    coord.n - coord.scale_tile * SCALE_TILE_ROWS + row, lane);
                }
            }
            /* Only this stage's first part is pending: the stage before has been read. */
            if (i == 1 && previous >= 0) {
                mbarrier_arrive(empty_barrier(shared, previous));
            }
            dequantize_part<T>(fragment, packed[block], part * T::fragment_steps / 2);
            wgmma_fence();
#pragma unroll
            for (int j = 0; j < T::fragment_steps; j++) {
                int step = part * T::fragment_steps + j;
                int offset = step / GROUP_STEPS * T::a_box_step + step % GROUP_STEPS * STEP_BYTES;
                uint64_t a = T::rebuilds_descriptors
                                 ? wgmma_swizzled_tile_descriptor(SHARED_MEMBER(stage, a) + offset)
                                 : wgmma_descriptor_plus(tile_of_a, offset);
                constexpr int rows = T::wgmma_rows;
                wgmma_as<T::a_type, rows>::mma_async((float (&)[rows / 2]) acc[block], fragment[j], a,
                                                     k > first || step > 0);
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

/* The products of a tile that no other warpgroup shares. */
template <class T>
static __device__ __forceinline__ void multiply_whole(float (&acc)[T::m_blocks][T::accs],
                                                      struct consumed &consumed, shared_t<T> shared,
                                                      const typename T::coord &coord) {
    multiply_stages<T>(acc, consumed, shared, coord, 0, coord.stages);
    wgmma_wait_group<0>();
    keep_all<T>(acc);
}

/* The tile's products.  HW: each wgmma step truncates its sum, so the error grows with the length of the chain
 * of steps: if registers allow, each half of K has accumulators of its own; the sums are added at the end. */
template <class T>
static __device__ __forceinline__ void multiply(float (&acc)[T::m_blocks][T::accs], shared_t<T> shared,
                                                const typename T::coord &coord) {
    int turn = T::warpgroups_k == 1 ? 0 : (threadIdx.x / WARPGROUP_THREADS - 1) / T::warpgroups_n;
    struct consumed consumed = {ring_to_use(turn), -1};
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
    if (T::split_k * T::warpgroups_k > 1 && coord.stages <= turn) { /* K has fewer stages than shares */
#pragma unroll
        for (int i = 0; i < T::m_blocks * T::accs; i++) {
            acc[i / T::accs][i % T::accs] = 0;
        }
    }
}

/* ---- reduction ---- */

/* Bytes from a thread's first vector of received accumulators to vector number `vector`. */
template <class T> static constexpr __device__ __forceinline__ int received_offset(int vector) {
    return vector / T::stage_vectors * (int)sizeof(shared_stage<T>) +
           vector % T::stage_vectors * (int)sizeof(shared_stage<T>::received[0]);
}

/* Adds the accumulators of the warpgroups that took the stages in turn, in that order, to those of the first
 * one. After it the stages are free. */
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

/* DSMEM reduction between the two CTAs of a split K.  Waits for the cluster, whose stages are then free;
 * sends the other CTA the accumulators of its rows of A, waits for the cluster, adds what came for our own
 * rows. After it acc[][0 .. output_accs - 1] are the sums of this CTA's rows, and the stages hold what was
 * received. */
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

/* Consumer warpgroup: the tile's products, summed over all warpgroups and CTAs that share its K.  Returns false
 * if another warpgroup has the sums.  After it the stages are free, except for received accumulators. */
template <class T>
static __device__ __forceinline__ bool accumulate(float (&acc)[T::m_blocks][T::accs], shared_t<T> shared,
                                                  const typename T::coord &coord, int warpgroup) {
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

} // namespace hopper

#endif
