/* The scale factors of the products of experts, copied by four warps to the places that an MMA wants.
 *
 * An expert's rows of A may start anywhere in a scale tile, and rows of B may be by rows or in pieces, so a
 * thread copies the words of one row of B and of one or two rows of A.  If B's scale factors are blocked, and
 * gate and up not interleaved by more than a group, it copies whole entries instead. */
#ifndef BLACKWELL_EXPERTS_SCALES_CUH
#define BLACKWELL_EXPERTS_SCALES_CUH

#include "blackwell_experts_tile.cuh"

namespace blackwell {

static __device__ __forceinline__ bool copies_entries(const struct blackwell_experts_params &p) {
    return p.sfb1.layout == CUSTOM_KERNEL_SCALES_BLOCKED && (has_adjacent_rows(p) || p.interleave == 0);
}

/* The words of the scale factors that a thread copies for a tile. */
template <class T> struct scale_sources {
    static constexpr int rows =
        (T::columns + EXPERTS_SCALE_WARPS * WARP_THREADS - 1) / (EXPERTS_SCALE_WARPS * WARP_THREADS); /* of A */
    const uint8_t *b, *a[rows];
    bool there[rows]; /* a row of the MMA's */
};

/* Rows past an end take the last row's, which affects no output. */
static __device__ __forceinline__ const uint8_t *first_b_word(const struct blackwell_experts_params &p,
                                                              const struct experts_coord &coord, int thread) {
    const int quarter = thread / EXPERTS_QUARTER, lane = thread % EXPERTS_QUARTER, up = lane / EXPERTS_PIECE,
              in_piece = lane % EXPERTS_PIECE;
    const int32_t expert = coord.rows.expert;
    if (copies_entries(p)) { /* the quarter's number is the step's */
        const int32_t row = has_adjacent_rows(p) ? first_adjacent_row(p, coord) : coord.column;
        const int entry = has_adjacent_rows(p) ? lane : pair_rank() * EXPERTS_PIECE + in_piece;
        return first_scale_word(!has_adjacent_rows(p) && up ? p.sfb2 : p.sfb1, p.steps_k, expert,
                                min(row, p.b_rows - 1) / SCALE_TILE_ROWS * SCALE_TILE_ROWS + entry) +
               quarter * SCALE_TILE_BYTES;
    }
    if (has_adjacent_rows(p)) {
        return first_scale_word(p.sfb1, p.steps_k, expert,
                                min(first_adjacent_row(p, coord) + thread, p.b_rows - 1));
    }
    const int32_t row = row_of_column(p, quarter_column(p, coord, quarter) + in_piece, up);
    return first_scale_word(up ? p.sfb2 : p.sfb1, p.steps_k, expert, min(row, p.b_rows - 1));
}

template <class T>
static __device__ __forceinline__ struct scale_sources<T>
find_scale_sources(const struct blackwell_experts_params &p, const struct experts_coord &coord, int thread) {
    struct scale_sources<T> sources;
    sources.b = first_b_word(p, coord, thread);
#pragma unroll
    for (int i = 0; i < scale_sources<T>::rows; i++) {
        const int32_t row = i * EXPERTS_SCALE_WARPS * WARP_THREADS + thread;
        sources.there[i] = row < coord.columns;
        sources.a[i] = first_token_word(p.sfa, p.steps_k, p.tokens, coord.rows, coord.rows.first_row + row);
    }
    return sources;
}

/* Copies a stage's scale factors, of the `steps` steps that K still has, and moves on. */
template <class T>
static __device__ __forceinline__ void
copy_scales_of_stage(stage_t<T> stage, const struct blackwell_experts_params &p,
                     struct scale_sources<T> &sources, int32_t steps, int thread) {
    const int32_t a_step = scale_step_bytes(p.sfa), b_step = scale_step_bytes(p.sfb1);
    const uint32_t sfa = SHARED_MEMBER(stage, sfa), sfb = SHARED_MEMBER(stage, sfb);
    const bool entries = copies_entries(p);
    const int warp = thread / WARP_THREADS, lane = thread % WARP_THREADS;
    if (entries && warp < steps) {
        cp_async_cg_16(sfa + warp * SCALE_TILE_BYTES + lane * SCALE_ENTRY_BYTES, sources.b);
    }
#pragma unroll
    for (int step = 0; step < STAGE_STEPS; step++) {
        if (step >= steps) {
            continue;
        }
        if (!entries) {
            cp_async_ca_4(scale_word_at(sfa, thread) + step * SCALE_TILE_BYTES, sources.b + step * b_step);
        }
#pragma unroll
        for (int i = 0; i < scale_sources<T>::rows; i++) {
            if (sources.there[i]) {
                cp_async_ca_4(scale_word_at(sfb + i * STAGE_SCALE_BYTES, thread) + step * SCALE_TILE_BYTES,
                              sources.a[i] + step * a_step);
            }
        }
    }
    sources.b += STAGE_STEPS * b_step;
#pragma unroll
    for (int i = 0; i < scale_sources<T>::rows; i++) {
        sources.a[i] += STAGE_STEPS * a_step;
    }
}

/* Signals scales_ready of a stage whose copies are complete, to the CTA that issues the MMAs. */
template <class T> static __device__ __forceinline__ void announce_scales(shared_t<T> shared, int stage) {
    fence_proxy_async_shared();
    __syncwarp();
    if (threadIdx.x % WARP_THREADS == 0) {
        mbarrier_arrive_cluster(mapa_shared_cluster(scales_ready_barrier<T>(shared, stage).address, 0));
    }
}

/* A warp that copies scale factors, for one tile after another.  Waits for empty[s]; copies to stage s; signals
 * scales_ready of the stage whose copies it waits for, so that almost a ring of copies is under way. */
template <class T>
static __device__ __forceinline__ void load_scales(shared_t<T> shared, const struct blackwell_experts_params &p,
                                                   const struct expert_table *table, int thread) {
    constexpr int under_way = T::stages - 1;
    struct ring filling = {0, 1}, ready = {0, 0};
    int32_t filled = 0;
    for_each_tile<T>(p, table, [&](const struct experts_coord &coord, int32_t, bool) {
        struct scale_sources<T> sources = find_scale_sources<T>(p, coord, thread);
#pragma unroll 1
        for (int32_t step = 0; step < p.steps_k; step += STAGE_STEPS) {
            wait(empty_barrier(shared, filling.stage), filling.parity);
            copy_scales_of_stage<T>(stage_of(shared, filling.stage), p, sources, p.steps_k - step, thread);
            cp_async_commit_group();
            advance<T::stages>(filling);
            if (++filled >= under_way) {
                cp_async_wait_group<under_way - 1>();
                announce_scales<T>(shared, ready.stage);
                advance<T::stages>(ready);
            }
        }
    });
    cp_async_wait_group<0>();
#pragma unroll 1
    for (int32_t left = min(filled, under_way - 1); left > 0; left--) {
        announce_scales<T>(shared, ready.stage);
        advance<T::stages>(ready);
    }
}

} // namespace blackwell

#endif
