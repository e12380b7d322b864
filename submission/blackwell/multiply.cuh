/* The MMA warp: scale factors into tensor memory, and both products. */
#ifndef BLACKWELL_MULTIPLY_CUH
#define BLACKWELL_MULTIPLY_CUH

#include "tile.cuh"

/* Where a stage's operands are: descriptors of its first step, and its columns of scale factors. */
struct operands {
    uint64_t a, b1, b2, sfa, sfb1, sfb2;
    struct tensor_address scales;
};

template <class T>
static __device__ __forceinline__ struct operands find_operands(const struct shared_map &shared,
                                                                struct tensor_address sums, int stage) {
    uint32_t at = shared.base + stage * T::stage_size;
    return {swizzled_tile_descriptor(at),
            swizzled_tile_descriptor(at + T::b1_at),
            swizzled_tile_descriptor(at + T::b2_at),
            scale_tile_descriptor(at + T::sfa_at),
            scale_tile_descriptor(at + T::sfb1_at),
            scale_tile_descriptor(at + T::sfb2_at),
            tensor_column(sums, T::scales_at + stage * STAGE_COLUMNS)};
}

/* What both products have in common. */
struct products {
    struct tensor_address gate, up;
    uint32_t instruction;
    uint32_t sfb_column; /* of a scale tile's four: where the tile's features start */
};

static __device__ __forceinline__ struct tensor_address sfa_of(const struct operands &o, int step) {
    return tensor_column(o.scales, step * STEP_COLUMNS);
}

template <int ctas> static __device__ __forceinline__ void copy_scales(const struct operands &o, int step) {
    struct tensor_address to = sfa_of(o, step);
    uint64_t tile = descriptor_advance(step * SCALE_TILE_BYTES);
    tcgen05_cp_32x128b_warpx4<ctas>(to, o.sfa + tile);
    tcgen05_cp_32x128b_warpx4<ctas>(tensor_column(to, SCALE_TILE_COLUMNS), o.sfb1 + tile);
    tcgen05_cp_32x128b_warpx4<ctas>(tensor_column(to, 2 * SCALE_TILE_COLUMNS), o.sfb2 + tile);
}

/* A stage's part of the work.  With both products, A stays in the collector for the second one. */
enum part { BOTH_PRODUCTS, COPIES_AND_GATE, UP };

template <int ctas, enum part part>
static __device__ __forceinline__ void multiply_step(const struct products &p, const struct operands &o,
                                                     int step, int accumulate) {
    const enum collector first = part == BOTH_PRODUCTS ? COLLECTOR_FILL : COLLECTOR_DISCARD;
    const enum collector second = part == BOTH_PRODUCTS ? COLLECTOR_LASTUSE : COLLECTOR_DISCARD;
    uint64_t codes = descriptor_advance(step * STEP_CODE_BYTES),
             tile = descriptor_advance(step * SCALE_TILE_BYTES);
    struct tensor_address sfa = tensor_column(o.scales, step * STEP_COLUMNS);
    struct tensor_address sfb1 = tensor_column(sfa, SCALE_TILE_COLUMNS);
    struct tensor_address sfb2 = tensor_column(sfb1, SCALE_TILE_COLUMNS);
    if (part != UP) {
        tcgen05_cp_32x128b_warpx4<ctas>(sfa, o.sfa + tile);
        tcgen05_cp_32x128b_warpx4<ctas>(sfb1, o.sfb1 + tile);
        tcgen05_cp_32x128b_warpx4<ctas>(sfb2, o.sfb2 + tile);
        tcgen05_mma_mxf4nvf4<ctas, first>(p.gate, o.a + codes, o.b1 + codes, p.instruction, sfa,
                                          tensor_column(sfb1, p.sfb_column), accumulate);
    }
    if (part != COPIES_AND_GATE) {
        tcgen05_mma_mxf4nvf4<ctas, second>(p.up, o.a + codes, o.b2 + codes, p.instruction, sfa,
                                           tensor_column(sfb2, p.sfb_column), accumulate);
    }
}

/* The steps of stage number `i` that K has. */
template <class T, enum part part>
static __device__ __forceinline__ void multiply_stage(const struct products &p, const struct shared_map &shared,
                                                      int stage, int32_t i, int32_t steps_k) {
    struct operands o = find_operands<T>(shared, p.gate, stage);
#pragma unroll
    for (int step = 0; step < STAGE_STEPS; step++) {
        if (i * STAGE_STEPS + step < steps_k) {
            multiply_step<T::ctas, part>(p, o, step, i > 0 || step > 0);
        }
    }
}

template <class T>
static __device__ __forceinline__ void wait_for_stage(const struct shared_map &shared,
                                                      const struct ring &ring) {
    wait(shared.full<T>(ring.stage), ring.parity);
    tcgen05_fence_after_thread_sync();
}

/* MMA warp, one thread (of the first CTA of a pair).  Waits for full[s]; copies the scale factors, multiplies;
 * signals empty[s] once stage s has been read.  In the last T::tail stages all of the first product comes
 * before the second one, so that gate_full completes early and its SiLU overlaps the rest, up_full. */
template <class T>
static __device__ __forceinline__ void multiply(const struct shared_map &shared, struct tensor_address sums,
                                                const struct place &place, int32_t steps_k) {
    const uint32_t half_tile = place.feature % SCALE_TILE_ROWS,
                   column_rows = SCALE_TILE_ROWS / SCALE_TILE_COLUMNS;
    const struct products p = {sums, tensor_column(sums, T::up_at),
                               nvfp4_instruction_descriptor(TILE_TOKENS * T::ctas, T::features),
                               half_tile / column_rows};
    const int32_t stages_k = (steps_k + STAGE_STEPS - 1) / STAGE_STEPS, together = max(stages_k - T::tail, 0);
    struct ring ring = {0, 0};
#pragma unroll 1
    for (int32_t i = 0; i < together; i++) {
        wait_for_stage<T>(shared, ring);
        multiply_stage<T, BOTH_PRODUCTS>(p, shared, ring.stage, i, steps_k);
        if (i + T::stages < stages_k) { /* an arrival that nobody waits for could come after the CTA's end */
            tcgen05_commit<T::ctas>(shared.empty<T>(ring.stage));
        }
        advance<T::stages>(ring);
    }
    struct ring tail = ring;
#pragma unroll 1
    for (int32_t i = together; i < stages_k; i++) {
        wait_for_stage<T>(shared, tail);
        multiply_stage<T, COPIES_AND_GATE>(p, shared, tail.stage, i, steps_k);
        advance<T::stages>(tail);
    }
    tcgen05_commit<T::ctas>(shared.gate_full<T>());
#pragma unroll 1
    for (int32_t i = together; i < stages_k; i++) {
        multiply_stage<T, UP>(p, shared, ring.stage, i, steps_k);
        advance<T::stages>(ring);
    }
    tcgen05_commit<T::ctas>(shared.up_full<T>());
}

#endif
