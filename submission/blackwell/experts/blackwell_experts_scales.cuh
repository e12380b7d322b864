/* The scale factors of the products of experts, copied by four warps to the places that an MMA wants.
 *
 * An expert's rows of A may start anywhere in a scale tile, and rows of B may be by rows or in pieces, so each
 * lane copies the words of some rows.  If B's scale factors are blocked, and gate and up not interleaved by
 * more than a group, it copies whole entries of B instead.  The warps take stages in turn, since the arrival
 * that the pair's other CTA sees takes as long as a stage's products. */
#ifndef BLACKWELL_EXPERTS_SCALES_CUH
#define BLACKWELL_EXPERTS_SCALES_CUH

#include "blackwell_experts_tile.cuh"

namespace blackwell {

static __device__ __forceinline__ bool copies_entries(const struct blackwell_experts_params &p) {
    return p.sfb1.layout == CUSTOM_KERNEL_SCALES_BLOCKED && (has_adjacent_rows(p) || p.interleave == 0);
}

/* The words of the scale factors that a lane copies for a tile: those of its first step. */
template <class T> struct scale_sources {
    static constexpr int a_rows = T::columns / WARP_THREADS, b_rows = TILE_M / WARP_THREADS;
    const uint8_t *a[a_rows], *b[b_rows];
    bool entries; /* b[0] is an entry, and there are no others */
};

/* The word of row number `row` of a CTA's rows of B, or of the last row if that comes before, which affects no
 * output; of entry number `row`, if entries are copied. */
static __device__ __forceinline__ const uint8_t *first_b_word(const struct blackwell_experts_params &p,
                                                              const struct experts_coord &coord, int row) {
    const int in_quarter = row % EXPERTS_QUARTER, up = in_quarter / EXPERTS_PIECE,
              in_piece = in_quarter % EXPERTS_PIECE;
    const int32_t expert = coord.rows.expert;
    const bool adjacent = has_adjacent_rows(p), entries = copies_entries(p);
    const struct expert_scales &scales = !adjacent && up ? p.sfb2 : p.sfb1;
    if (adjacent && !entries) {
        return first_scale_word(scales, p.steps_k, expert,
                                min(first_adjacent_row(p, coord) + row, p.b_rows - 1));
    }
    if (!entries) {
        const int32_t column = quarter_column(p, coord, row / EXPERTS_QUARTER) + in_piece;
        return first_scale_word(scales, p.steps_k, expert, min(row_of_column(p, column, up), p.b_rows - 1));
    }
    const int32_t first = min(adjacent ? first_adjacent_row(p, coord) : coord.column, p.b_rows - 1);
    return first_scale_word(scales, p.steps_k, expert,
                            first / SCALE_TILE_ROWS * SCALE_TILE_ROWS +
                                (adjacent ? in_quarter : pair_rank() * EXPERTS_PIECE + in_piece));
}

template <class T>
static __device__ __forceinline__ struct scale_sources<T>
find_scale_sources(const struct blackwell_experts_params &p, const struct experts_coord &coord) {
    const int lane = threadIdx.x % WARP_THREADS;
    struct scale_sources<T> sources;
    sources.entries = copies_entries(p);
#pragma unroll
    for (int i = 0; i < scale_sources<T>::b_rows; i++) {
        sources.b[i] = i == 0 || !sources.entries ? first_b_word(p, coord, i * WARP_THREADS + lane) : nullptr;
    }
#pragma unroll
    for (int i = 0; i < scale_sources<T>::a_rows; i++) {
        const int32_t row = i * WARP_THREADS + lane;
        sources.a[i] = row < coord.columns ? first_token_word(p.sfa, p.steps_k, p.tokens, coord.rows,
                                                              coord.rows.first_row + row)
                                           : nullptr;
    }
    return sources;
}

/* Copies the scale factors of step number `step` of a tile to place number `place` of a stage. */
template <class T>
static __device__ __forceinline__ void
copy_scales_of_step(stage_t<T> stage, const struct blackwell_experts_params &p,
                    const struct scale_sources<T> &sources, int32_t step, int place) {
    const int lane = threadIdx.x % WARP_THREADS;
    const int64_t in_a = step * (int64_t)scale_step_bytes(p.sfa),
                  in_b = step * (int64_t)scale_step_bytes(p.sfb1);
    const uint32_t sfa = SHARED_MEMBER(stage, sfa) + place * SCALE_TILE_BYTES,
                   sfb = SHARED_MEMBER(stage, sfb) + place * SCALE_TILE_BYTES;
    if (sources.entries) {
        cp_async_cg_16(sfa + lane * SCALE_ENTRY_BYTES, sources.b[0] + in_b);
    } else {
#pragma unroll
        for (int i = 0; i < scale_sources<T>::b_rows; i++) {
            cp_async_ca_4(scale_word_at(sfa, i * WARP_THREADS + lane), sources.b[i] + in_b);
        }
    }
#pragma unroll
    for (int i = 0; i < scale_sources<T>::a_rows; i++) {
        const int row = i * WARP_THREADS + lane;
        if (sources.a[i] != nullptr) {
            cp_async_ca_4(scale_word_at(sfb + row / SCALE_TILE_ROWS * STAGE_SCALE_BYTES, row),
                          sources.a[i] + in_a);
        }
    }
}

/* Signals full[s] of a stage whose copies are complete, to the CTA that issues the MMAs. */
template <class T> static __device__ __forceinline__ void announce_scales(shared_t<T> shared, int stage) {
    fence_proxy_async_shared();
    __syncwarp();
    if (threadIdx.x % WARP_THREADS == 0) {
        mbarrier_arrive_cluster(mapa_shared_cluster(full_barrier(shared, stage).address, 0));
    }
}

/* Warp number `warp` of those that copy scale factors, for one tile after another: has every fourth stage of
 * all tiles.  Waits for empty[s]; copies to stage s; signals full[s] of that stage, or, if the ring is
 * long enough, of the one before among its own, so that the copies of two are under way. */
template <class T>
static __device__ __forceinline__ void load_scales(shared_t<T> shared, const struct blackwell_experts_params &p,
                                                   const struct expert_table *table, int warp) {
    constexpr int under_way = T::stages >= 2 * EXPERTS_SCALE_WARPS ? 2 : 1;
    struct ring filling = ring_to_fill();
    int32_t turn = 0; /* the warp whose stage comes next */
    int before = -1;  /* this warp's stage before */
    for_each_tile<T>(p, table, [&](const struct experts_coord &coord, int32_t, bool) {
        const struct scale_sources<T> sources = find_scale_sources<T>(p, coord);
#pragma unroll 1
        for (int32_t step = 0; step < p.steps_k; step += STAGE_STEPS) {
            if (turn == warp) {
                wait(empty_barrier(shared, filling.stage), filling.parity);
#pragma unroll
                for (int i = 0; i < STAGE_STEPS; i++) {
                    if (step + i < p.steps_k) {
                        copy_scales_of_step<T>(stage_of(shared, filling.stage), p, sources, step + i, i);
                    }
                }
                cp_async_commit_group();
                cp_async_wait_group<under_way - 1>();
                const int ready = under_way == 1 ? filling.stage : before;
                if (ready >= 0) {
                    announce_scales<T>(shared, ready);
                }
                before = filling.stage;
            }
            turn = turn + 1 == EXPERTS_SCALE_WARPS ? 0 : turn + 1;
            advance<T::stages>(filling);
        }
    });
    if (under_way == 2 && before >= 0) {
        cp_async_wait_group<0>();
        announce_scales<T>(shared, before);
    }
}

} // namespace blackwell

#endif
