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
            tensor_column(sums, T::scales_at + (T::scales_shared ? 0 : stage) * T::stage_columns)};
}

/* What both products have in common. */
struct products {
    struct tensor_address gate, up;
    uint32_t instruction;
    uint32_t sfb_column; /* of a scale tile's four: where the tile's features start */
    uint16_t ctas, self; /* all that share the MMA, and this one, as masks of whose barriers are signalled */
};

/* Scale factors of one operand and step, tile after tile, to columns that follow each other. */
template <int ctas, int tiles>
static __device__ __forceinline__ void copy_scales(struct tensor_address to, uint64_t from) {
#pragma unroll
    for (int tile = 0; tile < tiles; tile++) {
        tcgen05_cp_32x128b_warpx4<ctas>(tensor_column(to, tile * SCALE_TILE_COLUMNS),
                                        from + descriptor_advance(tile * STAGE_SCALE_BYTES));
    }
}

/* A stage's part of the work.  With both products, A stays in the collector for the second one. */
enum part { BOTH_PRODUCTS, COPIES_AND_GATE, UP };

template <class T, enum part part>
static __device__ __forceinline__ void multiply_step(const struct products &p, const struct operands &o,
                                                     int step, int accumulate) {
    const enum collector first = part == BOTH_PRODUCTS ? COLLECTOR_FILL : COLLECTOR_DISCARD;
    const enum collector second = part == BOTH_PRODUCTS ? COLLECTOR_LASTUSE : COLLECTOR_DISCARD;
    uint64_t codes = descriptor_advance(step * STEP_CODE_BYTES),
             tile = descriptor_advance(step * SCALE_TILE_BYTES);
    struct tensor_address sfa = tensor_column(o.scales, step * T::step_columns);
    struct tensor_address sfb1 = tensor_column(sfa, SCALE_TILE_COLUMNS);
    struct tensor_address sfb2 = tensor_column(sfb1, T::b_scale_tiles * SCALE_TILE_COLUMNS);
    if (part != UP) {
        copy_scales<T::ctas, 1>(sfa, o.sfa + tile);
        copy_scales<T::ctas, T::b_scale_tiles>(sfb1, o.sfb1 + tile);
        copy_scales<T::ctas, T::b_scale_tiles>(sfb2, o.sfb2 + tile);
        tcgen05_mma_mxf4nvf4<T::ctas, first>(p.gate, o.a + codes, o.b1 + codes, p.instruction, sfa,
                                             tensor_column(sfb1, p.sfb_column), accumulate);
    }
    if (part != COPIES_AND_GATE) {
        tcgen05_mma_mxf4nvf4<T::ctas, second>(p.up, o.a + codes, o.b2 + codes, p.instruction, sfa,
                                              tensor_column(sfb2, p.sfb_column), accumulate);
    }
}

/* The steps of stage number `i` that K has.  Where stages share their scale factors' columns, waits for
 * scales_read[step] before it copies new ones, and signals it once both products have read them. */
template <class T, enum part part>
static __device__ __forceinline__ void multiply_stage(const struct products &p, const struct shared_map &shared,
                                                      int stage, int32_t i, int32_t steps) {
    struct operands o = find_operands<T>(shared, p.gate, stage);
#pragma unroll
    for (int step = 0; step < STAGE_STEPS; step++) {
        if (T::scales_shared && i > 0) {
            wait(shared.scales_read<T>(step), (i - 1) % 2);
            tcgen05_fence_after_thread_sync();
        }
        /* Only the last stage may be a part of one, which is in the tail if there is one. */
        if ((part == BOTH_PRODUCTS && T::tail > 0) || i * STAGE_STEPS + step < steps) {
            multiply_step<T, part>(p, o, step, i > 0 || step > 0);
        }
        if (T::scales_shared && (i + 1) * STAGE_STEPS < steps) {
            tcgen05_commit<T::ctas>(shared.scales_read<T>(step), p.self);
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
 * signals empty[s] once stage s has been read, up_full once all is complete.  In the last T::tail stages all of
 * the first product comes before the second one, so that gate_full completes early and its SiLU overlaps the
 * rest. */
template <class T>
static __device__ __forceinline__ void multiply(const struct shared_map &shared, struct tensor_address sums,
                                                const struct place &place) {
    const uint32_t first_row = place.feature % SCALE_TILE_ROWS,
                   column_rows = SCALE_TILE_ROWS / SCALE_TILE_COLUMNS;
    const struct products p = {
        sums,
        tensor_column(sums, T::up_at),
        nvfp4_instruction_descriptor(TILE_TOKENS * T::ctas, T::features),
        first_row / column_rows,
        ctas_of<T>(place),
        (uint16_t)(1u << leader_of<T>(place)),
    };
    const int32_t steps = place.steps, stages = (steps + STAGE_STEPS - 1) / STAGE_STEPS;
    const int32_t together = max(stages - T::tail, 0);
    struct ring ring = {0, 0};
#pragma unroll 1
    for (int32_t i = 0; i < together; i++) {
        wait_for_stage<T>(shared, ring);
        multiply_stage<T, BOTH_PRODUCTS>(p, shared, ring.stage, i, steps);
        if (i + T::stages < stages) { /* an arrival that nobody waits for could come after the CTA's end */
            tcgen05_commit<T::ctas>(shared.empty<T>(ring.stage), p.ctas);
        }
        advance<T::stages>(ring);
    }
    if constexpr (T::tail > 0) {
        struct ring tail = ring;
#pragma unroll 1
        for (int32_t i = together; i < stages; i++) {
            wait_for_stage<T>(shared, tail);
            multiply_stage<T, COPIES_AND_GATE>(p, shared, tail.stage, i, steps);
            advance<T::stages>(tail);
        }
        tcgen05_commit<T::ctas>(shared.gate_full<T>(), p.ctas);
#pragma unroll 1
        for (int32_t i = together; i < stages; i++) {
            multiply_stage<T, UP>(p, shared, ring.stage, i, steps);
            advance<T::stages>(ring);
        }
    }
    tcgen05_commit<T::ctas>(shared.up_full<T>(), p.ctas);
}

#endif
