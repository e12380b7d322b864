/* The consumers' main loop: weights from codes to fragments, and the two products. */
#ifndef HOPPER_MULTIPLY_CUH
#define HOPPER_MULTIPLY_CUH

#include "../gpu/wgmma.cuh"
#include "expand.cuh"
#include "tile.cuh"

#define FRAGMENT_STEPS 4 /* k16 steps that one expansion feeds: a group of 16 elements a lane */

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
                                                int warpgroup) {
    int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    uint32_t fragments[2][FRAGMENT_STEPS][4];
    struct ring ring = {0, 0};
    int previous = -1;
    if (T::splits > 1 && place.stages < 2) {
        barrier_cluster_arrive_release();
    }
    for (int32_t k = 0; k < place.stages; k++) {
        wait(shared.full<T>(ring.stage), ring.parity);
        uint32_t stage = shared.base + ring.stage * T::stage_size;
        struct raw_slab raw[T::slabs];
#pragma unroll
        for (int slab = 0; slab < T::slabs; slab++) {
            int feature = (warpgroup * T::slabs + slab) * SLAB_FEATURES + warp * 8;
            read_slab<T>(raw[slab], stage, feature, place.feature - place.scale_row * SCALE_TILE_ROWS + feature,
                         lane);
        }
#pragma unroll
        for (int i = 0; i < 2 * T::slabs; i++) {
            int group = i / T::slabs, slab = i % T::slabs;
            uint32_t (&fragment)[FRAGMENT_STEPS][4] = fragments[i % 2];
            /* Only this stage's first group is still pending; each lane answers for its own reads. */
            if (i == 1 && previous >= 0) {
                mbarrier_arrive(shared.empty<T>(previous));
            }
            /* From here on only this stage and the next are in use: the other CTA may leave its sums. */
            if (T::splits > 1 && i == 1 && k == place.stages - 2) {
                barrier_cluster_arrive_release();
            }
            expand_group(fragment, raw[slab], group);
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
    if (T::splits > 1 && place.stages == 0) { /* K shorter than its number of shares */
#pragma unroll
        for (int i = 0; i < T::slabs * T::sums; i++) {
            sums[i / T::sums][i % T::sums] = 0;
        }
    }
#pragma unroll
    for (int slab = 0; slab < T::slabs; slab++) {
#pragma unroll
        for (int i = 0; i < T::sums; i++) {
            keep_after(sums[slab][i]);
        }
    }
}

#endif
