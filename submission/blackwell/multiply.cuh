/* The MMA warp: scale factors into tensor memory, and both products. */
#ifndef BLACKWELL_MULTIPLY_CUH
#define BLACKWELL_MULTIPLY_CUH

#include "tile.cuh"

/* Where one step's operands are. */
struct step {
    uint64_t a, b1, b2;                     /* descriptors */
    struct tensor_address sfa, sfb1, sfb2;  /* as tcgen05.cp fills them */
    struct tensor_address gate_sfb, up_sfb; /* as tcgen05.mma reads them */
};

/* Features that start half a scale tile in, two columns of 32 rows, read from there. */
template <class T>
static __device__ __forceinline__ struct step find_step(uint32_t stage, struct tensor_address scales, int step,
                                                        uint32_t sfb_column) {
    struct step s;
    s.a = swizzled_tile_descriptor(stage + step * STEP_CODE_BYTES);
    s.b1 = swizzled_tile_descriptor(stage + T::b1_at + step * STEP_CODE_BYTES);
    s.b2 = swizzled_tile_descriptor(stage + T::b2_at + step * STEP_CODE_BYTES);
    s.sfa = tensor_column(scales, step * STEP_COLUMNS);
    s.sfb1 = tensor_column(s.sfa, SCALE_TILE_COLUMNS);
    s.sfb2 = tensor_column(s.sfb1, SCALE_TILE_COLUMNS);
    s.gate_sfb = tensor_column(s.sfb1, sfb_column);
    s.up_sfb = tensor_column(s.sfb2, sfb_column);
    return s;
}

template <class T>
static __device__ __forceinline__ void copy_scales(const struct step &s, uint32_t stage, int step) {
    uint32_t at = stage + step * SCALE_TILE_BYTES;
    tcgen05_cp_32x128b_warpx4<T::ctas>(s.sfa, scale_tile_descriptor(at + T::sfa_at));
    tcgen05_cp_32x128b_warpx4<T::ctas>(s.sfb1, scale_tile_descriptor(at + T::sfb1_at));
    tcgen05_cp_32x128b_warpx4<T::ctas>(s.sfb2, scale_tile_descriptor(at + T::sfb2_at));
}

/* MMA warp, one thread (of the first CTA of a pair).  Waits for full[s]; copies the scale factors, multiplies;
 * signals empty[s] once stage s has been read.  In the last T::tail stages all of the first product comes
 * before the second one, so that gate_full completes early and its SiLU overlaps the rest, up_full. */
template <class T>
static __device__ __forceinline__ void multiply(const struct shared_map &shared, struct tensor_address sums,
                                                const struct place &place, int32_t steps_k) {
    const uint32_t instruction = nvfp4_instruction_descriptor(TILE_TOKENS * T::ctas, T::features);
    const struct tensor_address gate = sums, up = tensor_column(sums, T::up_at);
    const uint32_t sfb_column = place.feature % SCALE_TILE_ROWS / (SCALE_TILE_ROWS / SCALE_TILE_COLUMNS);
    int32_t stages_k = (steps_k + STAGE_STEPS - 1) / STAGE_STEPS, together = max(stages_k - T::tail, 0);
    struct ring ring = {0, 0}, tail;
#pragma unroll 1
    for (int32_t i = 0; i < stages_k; i++) {
        int steps = min(STAGE_STEPS, steps_k - i * STAGE_STEPS);
        uint32_t stage = shared.base + ring.stage * T::stage_size;
        struct tensor_address scales = tensor_column(sums, T::scales_at + ring.stage * STAGE_COLUMNS);
        tail = i <= together ? ring : tail;
        wait(shared.full<T>(ring.stage), ring.parity);
        tcgen05_fence_after_thread_sync();
#pragma unroll
        for (int step = 0; step < STAGE_STEPS; step++) {
            if (step < steps) {
                struct step s = find_step<T>(stage, scales, step, sfb_column);
                copy_scales<T>(s, stage, step);
                int accumulate = i > 0 || step > 0;
                if (i < together) {
                    tcgen05_mma_mxf4nvf4<T::ctas, COLLECTOR_FILL>(gate, s.a, s.b1, instruction, s.sfa,
                                                                  s.gate_sfb, accumulate);
                    tcgen05_mma_mxf4nvf4<T::ctas, COLLECTOR_LASTUSE>(up, s.a, s.b2, instruction, s.sfa,
                                                                     s.up_sfb, accumulate);
                } else {
                    tcgen05_mma_mxf4nvf4<T::ctas, COLLECTOR_DISCARD>(gate, s.a, s.b1, instruction, s.sfa,
                                                                     s.gate_sfb, accumulate);
                }
            }
        }
        if (i < together) {
            tcgen05_commit<T::ctas>(shared.empty<T>(ring.stage));
        }
        advance<T::stages>(ring);
    }
    tcgen05_commit<T::ctas>(shared.gate_full<T>());
#pragma unroll 1
    for (int32_t i = together; i < stages_k; i++) {
        int steps = min(STAGE_STEPS, steps_k - i * STAGE_STEPS);
        uint32_t stage = shared.base + tail.stage * T::stage_size;
        struct tensor_address scales = tensor_column(sums, T::scales_at + tail.stage * STAGE_COLUMNS);
#pragma unroll
        for (int step = 0; step < STAGE_STEPS; step++) {
            if (step < steps) {
                struct step s = find_step<T>(stage, scales, step, sfb_column);
                tcgen05_mma_mxf4nvf4<T::ctas, COLLECTOR_DISCARD>(up, s.a, s.b2, instruction, s.sfa, s.up_sfb,
                                                                 i > 0 || step > 0);
            }
        }
        advance<T::stages>(tail);
    }
    tcgen05_commit<T::ctas>(shared.up_full<T>());
}

#endif
