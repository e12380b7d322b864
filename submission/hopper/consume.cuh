/* The consumers: weights from codes to fragments, the two products, the epilogue. */
#ifndef HOPPER_CONSUME_CUH
#define HOPPER_CONSUME_CUH

#include "../gpu/wgmma.cuh"
#include "expand.cuh"
#include "tile.cuh"

#define FRAGMENT_STEPS   4 /* k16 steps that one expansion feeds: a group of 16 elements a lane */
#define CONSUMER_BARRIER 1
#define LOG2_E           1.442695041f
#define HALVES_OF_VECTOR 8

/* What a thread reads of a slab in a stage: 32 elements of a feature's row of B1 and of B2, and their scales.
 */
struct raw_slab {
    uint4 codes[2];        /* [B1, B2]: two groups of two words each */
    uint32_t scales[2][2]; /* [B1, B2][group] */
};

template <class T>
static __device__ __forceinline__ void read_slab(struct raw_slab &raw, uint32_t stage, int slab_feature,
                                                 int scale_feature, int lane) {
    int row = lane / 4, quad_lane = lane % 4;
    /* Consecutive lanes read consecutive 16 bytes: no bank conflict. */
    uint32_t codes = stage + T::codes_at + (slab_feature + row) * STAGE_CODE_BYTES + quad_lane * 16;
    int feature = scale_feature + row;
    uint32_t scales = stage + T::scales_at + feature / SCALE_TILE_ROWS * STAGE_SCALE_BYTES +
                      quad_lane / 2 * SCALE_TILE_BYTES + feature % 32 * 16 +
                      feature % SCALE_TILE_ROWS / 32 * 4 + quad_lane % 2 * 2;
    for (int which = 0; which < 2; which++) {
        raw.codes[which] = ld_shared_v4(codes + which * T::code_bytes);
        expand_scales(ld_shared_u16(scales + which * T::scale_bytes), raw.scales[which]);
    }
}

/* The A fragments of FRAGMENT_STEPS steps, from one group of each of the thread's two rows. */
static __device__ __forceinline__ void expand_group(uint32_t (&fragment)[FRAGMENT_STEPS][4],
                                                    const struct raw_slab &raw, int group) {
#pragma unroll
    for (int which = 0; which < 2; which++) {
#pragma unroll
        for (int word = 0; word < 2; word++) {
            uint4 codes = raw.codes[which];
            uint32_t bits = group == 0 ? (word == 0 ? codes.x : codes.y) : (word == 0 ? codes.z : codes.w);
            uint32_t pairs[4];
            expand_word(bits, raw.scales[which][group], pairs);
            fragment[2 * word][which] = pairs[0];
            fragment[2 * word][2 + which] = pairs[1];
            fragment[2 * word + 1][which] = pairs[2];
            fragment[2 * word + 1][2 + which] = pairs[3];
        }
    }
}

/* Consumer warpgroup.  Waits for full[s]; expands a group of weights into one of two fragment buffers while the
 * tensor cores work on the other; signals empty[s] once nothing reads stage s any more. */
template <class T>
static __device__ __forceinline__ void multiply(float (&sums)[T::slabs][T::sums],
                                                const struct shared_map &shared, const struct place &place,
                                                int32_t stages_k, int warpgroup) {
    int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    uint32_t fragments[2][FRAGMENT_STEPS][4];
    struct ring ring = {0, 0};
    int previous = -1;
    for (int32_t k = 0; k < stages_k; k++) {
        wait(shared.full<T>(ring.stage), ring.parity);
        uint32_t stage = shared.base + ring.stage * T::stage_size;
        struct raw_slab raw;
#pragma unroll
        for (int i = 0; i < 2 * T::slabs; i++) {
            int slab = i / 2, group = i % 2;
            if (group == 0) {
                int feature = (warpgroup * T::slabs + slab) * SLAB_FEATURES + warp * 8;
                read_slab<T>(raw, stage, feature, place.feature - place.scale_row * SCALE_TILE_ROWS + feature,
                             lane);
            }
            uint32_t (&fragment)[FRAGMENT_STEPS][4] = fragments[i % 2];
            if (i == 1 &&
                previous >=
                    0) { /* only this stage's first group is still pending; each lane answers for its reads */
                mbarrier_arrive(shared.empty<T>(previous));
            }
            expand_group(fragment, raw, group);
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < FRAGMENT_STEPS; step++) {
                uint64_t tokens = matrix_descriptor_128b_swizzle(stage + group * T::box_bytes + step * 32);
                wgmma_m64k16<T::tokens>::mma_async(sums[slab], fragment[step], tokens,
                                                   k > 0 || group > 0 || step > 0);
            }
            wgmma_commit_group();
            wgmma_wait_group<1>(); /* all but the last: the other buffer is free */
        }
        previous = ring.stage;
        advance<T::stages>(ring);
    }
    wgmma_wait_group<0>();
#pragma unroll
    for (int slab = 0; slab < T::slabs; slab++) {
#pragma unroll
        for (int i = 0; i < T::sums; i++) {
            keep_after(sums[slab][i]);
        }
    }
}

/* fp32 silu(gate) * up of sums that still carry 2^-14. */
static __device__ __forceinline__ float silu_times(float gate, float up) {
    gate *= PRODUCT_CORRECTION;
    return gate * rcp_approx(1.0f + ex2_approx(-LOG2_E * gate)) * (up * PRODUCT_CORRECTION);
}

/* Sums -> fp16 outputs in shared memory, [token][feature], over the stages nobody uses any more. */
template <class T>
static __device__ __forceinline__ void stage_output(float (&sums)[T::slabs][T::sums], uint32_t output,
                                                    int warpgroup) {
    int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int slab = 0; slab < T::slabs; slab++) {
        int feature = (warpgroup * T::slabs + slab) * SLAB_FEATURES + warp * 8;
#pragma unroll
        for (int token = 0; token < T::tokens; token += 32) {
            uint32_t halves[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *sum = &sums[slab][(token / 8 + i) * 4]; /* gate, gate, up, up of two tokens */
                halves[i] = cvt_rn_f16x2_f32(silu_times(sum[0], sum[2]), silu_times(sum[1], sum[3]));
            }
            stmatrix_x4_trans(output + (token + lane) * T::output_pitch + feature * 2, halves);
        }
    }
}

/* Shared memory -> C, by all consumers; 16 bytes at a time where rows of C allow it. */
template <class T>
static __device__ __forceinline__ void store_output(const unsigned char *output, const struct place &place,
                                                    const struct dual_gemm_params &p) {
    constexpr int vectors = T::features / HALVES_OF_VECTOR, threads = T::consumers;
    int thread = threadIdx.x - WARPGROUP_THREADS;
    for (int i = thread; i < T::tokens * vectors; i += threads) {
        int token = i / vectors, feature = i % vectors * HALVES_OF_VECTOR;
        if (place.token + token >= p.m || place.feature + feature >= p.n) {
            continue;
        }
        const unsigned char *from = output + token * T::output_pitch + feature * 2;
        int64_t row = (int64_t)place.batch * p.m + place.token + token;
        uint16_t *to = p.c + row * p.n + place.feature + feature;
        if (p.n % HALVES_OF_VECTOR == 0) {
            *(uint4 *)to = *(const uint4 *)from;
        } else {
            for (int half = 0; half < HALVES_OF_VECTOR && place.feature + feature + half < p.n; half++) {
                to[half] = ((const uint16_t *)from)[half];
            }
        }
    }
}

template <class T>
static __device__ __forceinline__ void consume(const struct shared_map &shared, unsigned char *output,
                                               const struct place &place, const struct dual_gemm_params &p) {
    int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
    float sums[T::slabs][T::sums]; /* the first step of each slab overwrites them */
    multiply<T>(sums, shared, place, p.stages_k, warpgroup);
    bar_sync(CONSUMER_BARRIER, T::consumers); /* the stages are free */
    stage_output<T>(sums, cvta_to_shared(output), warpgroup);
    bar_sync(CONSUMER_BARRIER, T::consumers);
    store_output<T>(output, place, p);
}

#endif
