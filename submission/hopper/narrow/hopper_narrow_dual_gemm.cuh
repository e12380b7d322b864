/* The fused dual GEMM for few rows of A, which is bound by the traffic of B.
 *
 * Read in this order: hopper_narrow_config.h (sizes, layout), hopper_dequantize.cuh (fp4 to fp16),
 * hopper_narrow_products.cuh (the tile, and the products of a step), hopper_narrow_a.cuh (place, and A), then
 * from the top: load, main loop, reduction, epilogue, kernel.  The kernel needs no launch before it and no
 * scratch memory.
 *
 *   every thread                                 every warp, for its own steps of K
 *   ------------                                 -------------------------------------
 *   A fp4, sfa --dequantize--> shared memory     B1, B2 fp4, sfb1, sfb2 --cp.async--> its ring --LDS-->
 *                      |                                                     '--dequantize--> A fragments
 *                      '--- B operand of all warps ---> mma.sync, or a warpgroup's wgmma --> acc (gate, up)
 *                                                                      |
 *   C <--2-byte stores-- fp16(silu(gate) * up) <-- sums in the order of K <--st(.async)-- acc of warps and CTAs
 *
 *   barrier  arrivals          bytes                       complete when
 *   sums     1 (thread 0)      all vectors for this CTA    this CTA has the partial sums of the outputs that it
 *                                                          stores; without split K, __syncthreads does it
 *
 * A lane reads from its warp's ring only what it copied itself, so it needs no wait but its own, and warps run
 * apart. As in hopper_dual_gemm.cuh the kernel computes the transpose, C^T = B A^T: a warp's A operand is 8
 * rows of B1 and 8 of B2, so that a thread holds gate and up of the same output; its B operand is blocks of 8
 * rows of A. */
#ifndef HOPPER_NARROW_DUAL_GEMM_CUH
#define HOPPER_NARROW_DUAL_GEMM_CUH

#include "../../gpu/device/ring.cuh"
#include "../hopper_outputs.cuh"
#include "hopper_narrow_a.cuh"

namespace hopper {

/* ---- load ---- */

/* The addresses of a lane's rows, [block][B1, B2]. */
template <class T> struct b_rows {
    const uint8_t *fp4[T::blocks][2], *scales[T::blocks][2];
};

/* Rows past the last one read the last one; their outputs are not stored. */
template <class T>
static __device__ __forceinline__ struct b_rows<T> find_b_rows(const struct hopper_narrow_params &p,
                                                               const struct narrow_coord &coord) {
    struct b_rows<T> rows;
#pragma unroll
    for (int block = 0; block < T::blocks; block++) {
        int32_t row = min(b_row<T>(coord.tile_n * p.layout.warps_n + coord.warp_n, block, coord.quad), p.n - 1);
        int64_t fp4 =
            ((int64_t)coord.batch * p.n + row) * p.fp4_row_bytes + LANE_FP4_OFFSET(0, coord.quad_lane);
        int64_t scales = coord.batch * p.sfb_batch_bytes + scale_row_offset(p, row);
        rows.fp4[block][0] = p.b1 + fp4;
        rows.fp4[block][1] = p.b2 + fp4;
        rows.scales[block][0] = p.sfb1 + scales;
        rows.scales[block][1] = p.sfb2 + scales;
    }
    return rows;
}

/* Copies a step of the warp's rows to a stage, as one cp.async group of this thread; past the last step the
 * group is empty. If K ends in the middle of a step, the step's first half is copied twice: A is zero in the
 * second half. */
template <class T>
static __device__ __forceinline__ void load_step(uint32_t stage, const struct b_rows<T> &rows,
                                                 const struct hopper_narrow_params &p,
                                                 const struct narrow_coord &coord, int32_t step) {
    if (step < coord.first_step + coord.steps) {
        uint32_t word = min(LANE_SCALE_WORD(step, coord.quad_lane), p.scale_words - 1);
#pragma unroll
        for (int i = 0; i < T::lane_rows; i++) {
            cp_async_cg_16(stage + i * NARROW_FP4_BYTES + coord.lane * 16,
                           rows.fp4[i / 2][i % 2] + (uint64_t)word * (NARROW_STEP_BYTES / 2));
            cp_async_ca_4(stage + T::lane_rows * NARROW_FP4_BYTES + i * NARROW_SCALE_BYTES +
                              coord.lane * SCALE_WORD_BYTES,
                          rows.scales[i / 2][i % 2] + (uint64_t)word * p.scale_word_step);
        }
    }
    cp_async_commit_group();
}

/* ---- main loop ---- */

/* All of this warp's steps.  Shared memory holds A a phase of K at a time: during a phase each thread loads its
 * units of the next one and stores them to the other buffer, and __syncthreads ends both.  A lane refills a
 * stage as soon as it has read it, or, in a ring of more than two stages, a step later (T::ahead). */
template <class T>
static __device__ __forceinline__ void
multiply_share(struct narrow_accumulators<T> &acc, uint32_t shared, const struct hopper_narrow_params &p,
               const struct narrow_coord &coord, const struct b_rows<T> &rows) {
    constexpr int a_step_bytes = T::a_blocks * NARROW_A_BLOCK_BYTES;
    const int32_t phase_steps = p.layout.phase_steps, warps_k = p.layout.warps_k;
    const uint32_t ring = shared + p.layout.ring_offset + coord.warp * (T::stages * T::stage_bytes);
    uint32_t a = shared + NARROW_A_OFFSET, next_a = a + phase_steps * a_step_bytes;
    int32_t next_step = coord.first_step + coord.warp_k; /* the next step to load */
    struct packed_a<T> packed;
    for (int stage = 0; stage < T::ahead; stage++, next_step += warps_k) {
        if (stage == T::steps_before_a) {
            load_a<T>(packed, p, coord, coord.first_step, min(phase_steps, coord.steps));
        }
        load_step<T>(ring + stage * T::stage_bytes, rows, p, coord, next_step);
    }
    store_a<T>(a, packed, coord, min(phase_steps, coord.steps));
    __syncthreads();

    struct narrow_fragments<T> fragments[2];
    int stage = 0, free_stage = T::ahead % T::stages;
    for (int32_t phase = 0; phase < coord.steps; phase += phase_steps) {
        int32_t end = min(phase + phase_steps, coord.steps), next_steps = min(phase_steps, coord.steps - end);
        if (next_steps > 0) {
            load_a<T>(packed, p, coord, coord.first_step + end, next_steps);
            if constexpr (!T::by_warpgroup) {
                store_a<T>(next_a, packed, coord, next_steps);
            }
        }
        for (int32_t step = phase + coord.warp_k; step < end; step += warps_k, next_step += warps_k) {
            cp_async_wait_group<T::ahead - 1>();
            struct packed_step<T> b;
            read_step<T>(b, ring + stage * T::stage_bytes, coord.lane);
            load_step<T>(ring + free_stage * T::stage_bytes, rows, p, coord, next_step);
            stage = stage == T::stages - 1 ? 0 : stage + 1;
            free_stage = free_stage == T::stages - 1 ? 0 : free_stage + 1;
            const uint32_t a_of_step = a + (step - phase) * a_step_bytes;
            if constexpr (T::by_warpgroup) {
                multiply_together<T>(acc, fragments, b, a_of_step, step > coord.warp_k);
            } else {
                multiply_alone<T>(acc, b, a_of_step, coord.lane);
            }
        }
        if constexpr (T::by_warpgroup) {
            wait_for_products<T>(acc);
            if (next_steps > 0) {
                store_a<T>(next_a, packed, coord, next_steps);
            }
        }
        if (next_steps > 0) {
            __syncthreads();
        }
        uint32_t used = a;
        a = next_a;
        next_a = used;
    }
    if (T::by_warpgroup && coord.steps <= coord.warp_k) {
        clear<T>(acc); /* no step */
    }
}

/* ---- reduction ---- */

/* A vector is a float4 of each lane: gate and up of 8 rows of B by 8 rows of A.  Each CTA of the cluster adds
 * up and stores some of the tile's vectors (T::place_of); it receives split_k * warps_k partial sums of each,
 * in the order of K. */

/* With split K: arms the barrier with the bytes that this CTA will receive, before others can send them. */
template <class T>
static __device__ __forceinline__ void expect_sums(struct mbarrier sums, const struct hopper_narrow_params &p,
                                                   const struct narrow_coord &coord) {
    if (!T::shares_k) {
        return;
    }
    if (threadIdx.x == 0) {
        mbarrier_init(sums, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(sums, T::places(p.layout, coord.rank) * p.layout.split_k * p.layout.warps_k *
                                            NARROW_VECTOR_BYTES);
    }
    barrier_cluster_arrive_relaxed(); /* fence_mbarrier_init has released the barrier to the cluster */
}

/* Waits, if the sums lie over A and the rings, until nothing reads those any more, here and in other CTAs. */
template <class T> static __device__ __forceinline__ void wait_for_place(const struct hopper_narrow_params &p) {
    if (T::shares_k) {
        barrier_cluster_wait_acquire(); /* the other CTAs run, and their barriers are armed */
    }
    if (p.layout.sums_overlay) {
        if (T::shares_k) {
            barrier_cluster_arrive_release();
            barrier_cluster_wait_acquire();
        } else {
            __syncthreads();
        }
    }
}

/* Sends this warp's partial sums to the CTAs that add them, and waits for all sums that this CTA adds.  HW:
 * st.async is an illegal instruction in a kernel that was launched without clusters (seen on an H200). */
template <class T>
static __device__ __forceinline__ void exchange_sums(const struct narrow_accumulators<T> &acc, uint32_t shared,
                                                     struct mbarrier sums, const struct hopper_narrow_params &p,
                                                     const struct narrow_coord &coord) {
    const int split_k = T::split_of(p.layout), sources = split_k * p.layout.warps_k,
              source = coord.rank * p.layout.warps_k + coord.warp_k;
    wait_for_place<T>(p);
#pragma unroll
    for (int i = 0; i < T::vectors; i++) {
        const struct narrow_place place = T::place_of(p.layout, coord.warp_n, i);
        const float *four = &acc.of[i / T::a_blocks][i % T::a_blocks * 4];
        uint32_t to = shared + p.layout.sums_offset + (place.slot * sources + source) * NARROW_VECTOR_BYTES +
                      coord.lane * 16;
        if constexpr (T::shares_k) {
            st_async_v4(mapa_shared_cluster(to, place.owner), four,
                        mapa_shared_cluster(sums.address, place.owner));
        } else {
            st_shared_v4_f32(to, four);
        }
    }
    if constexpr (T::shares_k) {
        wait(sums, 0);
    } else {
        __syncthreads();
    }
}

/* ---- epilogue ---- */

/* Adds up a vector's partial sums in the order of K. */
static __device__ __forceinline__ void add_up(float (&sum)[4], uint32_t from, int sources) {
    sum[0] = sum[1] = sum[2] = sum[3] = 0;
#pragma unroll 4
    for (int source = 0; source < sources; source++) {
        const uint4 part = ld_shared_v4(from + source * NARROW_VECTOR_BYTES);
        sum[0] += __uint_as_float(part.x);
        sum[1] += __uint_as_float(part.y);
        sum[2] += __uint_as_float(part.z);
        sum[3] += __uint_as_float(part.w);
    }
}

/* The warps take this CTA's vectors in turn: each adds a vector's partial sums in the order of K, and stores
 * two outputs a lane. */
template <class T>
static __device__ __forceinline__ void finish(uint32_t shared, const struct hopper_narrow_params &p,
                                              const struct narrow_coord &coord) {
    const int split_k = T::split_of(p.layout), sources = split_k * p.layout.warps_k,
              count = T::places(p.layout, coord.rank);
    for (int i = coord.warp; i < count; i += coord.warps) {
        uint32_t from = shared + p.layout.sums_offset + i * sources * NARROW_VECTOR_BYTES + coord.lane * 16;
        float sum[4];
        add_up(sum, from, sources);
        int vector = i * split_k + coord.rank, a_block = vector % T::a_blocks;
        int block = vector / T::a_blocks % T::blocks, warp_n = vector / T::vectors;
        int32_t column = b_row<T>(coord.tile_n * p.layout.warps_n + warp_n, block, coord.quad);
        int32_t row = coord.m + a_block * NARROW_A_ROWS + coord.quad_lane * 2;
        store_two_rows(p.c + ((int64_t)coord.batch * p.m + row) * p.n + column, silu_times_up(sum), row, p.m,
                       column, p.n);
    }
}

/* ---- kernel ---- */

template <class T>
static __global__ void __launch_bounds__(NARROW_MAX_WARPS *WARP_THREADS, 1)
    narrow_dual_gemm_kernel(const __grid_constant__ hopper_narrow_params p) {
    extern __shared__ __align__(NARROW_A_OFFSET) unsigned char memory[];
    const uint32_t shared = cvta_to_shared(memory);
    const struct mbarrier sums = {shared};
    const struct narrow_coord coord = find_narrow_tile<T>(p);
    const struct b_rows<T> rows = find_b_rows<T>(p, coord); /* computed while the previous kernel ends */
    expect_sums<T>(sums, p, coord);
    griddepcontrol_launch_dependents();
    ask_for_a<T>(p, coord);
    griddepcontrol_wait(); /* previous kernels may write the inputs, or read C */

    struct narrow_accumulators<T> acc;
    if (!T::by_warpgroup) {
        clear<T>(acc); /* a warpgroup's first products replace them */
    }
    multiply_share<T>(acc, shared, p, coord, rows);
    exchange_sums<T>(acc, shared, sums, p, coord);
    finish<T>(shared, p, coord);
}

} // namespace hopper

#endif
