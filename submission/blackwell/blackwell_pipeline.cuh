/* The pipeline that the tcgen05 GEMMs share: the load warp, the MMA warp.
 *
 * Read the first comment of blackwell_dual_gemm.cuh before.  T is a GEMM's tile (blackwell_tile.cuh), P its
 * kernel's parameters. */
#ifndef BLACKWELL_PIPELINE_CUH
#define BLACKWELL_PIPELINE_CUH

#include "../gpu/instructions/tcgen05.cuh"
#include "../gpu/instructions/tcgen05_descriptors.h"
#include "blackwell_tile.cuh"

namespace blackwell {

/* ---- load ---- */

/* The first coordinates of a CTA's TMA boxes: rows of A and of B, rows of scale tiles, and the first stage
 * along K. */
struct box_coord {
    int32_t m, n, batch;
    int32_t first_stage, tiles_k;
    int32_t sfa_tile, sfb_tile;
};

template <class T>
static __device__ __forceinline__ struct box_coord find_boxes(const struct tile_coord &coord, int32_t tiles_k) {
    return {coord.m,
            coord.n + coord.rank * T::cta_n,
            coord.batch,
            coord.first_stage,
            tiles_k,
            coord.m / SCALE_TILE_ROWS * tiles_k,
            coord.n / SCALE_TILE_ROWS * tiles_k};
}

/* The distance in rows from the first operand to the second, and whether both have their scale factors in the
 * same scale tile. */
template <class T> struct second_operand {
    static constexpr int rows = T::products == 2 ? 0 : T::tile_n;
    static constexpr bool same_scales = rows % SCALE_TILE_ROWS != 0;
    static constexpr int scale_tiles = rows / SCALE_TILE_ROWS;
    static_assert(!same_scales || 2 * rows == SCALE_TILE_ROWS, "a tile's rows of B fill a scale tile or two");
};

/* Bytes that a CTA's copies bring to a stage, and that full[s] counts. */
template <class T> static __device__ __forceinline__ int stage_tx_bytes(const struct tile_coord &coord) {
    constexpr int most = (int)sizeof(shared_stage<T>) - (T::stored ? STAGE_SCALE_BYTES : 0) -
                         (rearranges<T>()                  ? (int)sizeof(shared_stage<T>::sfb)
                          : second_operand<T>::same_scales ? STAGE_SCALE_BYTES
                                                           : 0);
    return T::transposed ? most - (2 * T::tile_n - coord.columns) / T::ctas * STAGE_FP4_BYTES : most;
}

/* Prefetches B of the first stages to L2 while this call's kernel that permutes scale factors runs.  A kernel
 * that still writes B writes through the same L2, so the data cannot become stale. */
template <class T, class P>
static __device__ __forceinline__ void prefetch_b(const struct box_coord &boxes, const P &p, int32_t stages) {
    for (int32_t i = boxes.first_stage; i < boxes.first_stage + min(T::stages, stages); i++) {
        cp_async_bulk_prefetch_tensor_3d_l2(&p.b1, i * STAGE_FP4_BYTES, boxes.n, boxes.batch);
        cp_async_bulk_prefetch_tensor_3d_l2(T::second_b(p), i * STAGE_FP4_BYTES,
                                            boxes.n + second_operand<T>::rows, boxes.batch);
    }
}

/* Copies a box to this CTA, signalling `full`. */
template <class T>
static __device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap *map, int32_t x, int32_t y,
                                                int32_t z, struct mbarrier full) {
    if constexpr (T::ctas == 1) {
        cp_async_bulk_tensor_3d(to, map, x, y, z, full);
    } else {
        cp_async_bulk_tensor_3d_pair(to, map, x, y, z, full);
    }
}

/* Copies scale factors of B1 and B2, from rows y and y2 of scale tiles on.  Each CTA of a pair needs those of
 * all rows of both operands: each CTA copies one operand's to both CTAs; if they are in the same scale tile,
 * the first CTA does. */
template <class T, class P>
static __device__ __forceinline__ void copy_b_scales(stage_t<T> to, int tile, const P &p,
                                                     const struct tile_coord &coord, int32_t y, int32_t y2,
                                                     struct mbarrier full) {
    uint32_t sfb1 = SHARED_MEMBER(to, sfb[0]) + tile * STAGE_SCALE_BYTES;
    uint32_t sfb2 = SHARED_MEMBER(to, sfb[1]) + tile * STAGE_SCALE_BYTES;
    if constexpr (T::ctas == 1) {
        cp_async_bulk_tensor_3d(sfb1, &p.sfb1, 0, y, coord.batch, full);
        if constexpr (!second_operand<T>::same_scales) {
            cp_async_bulk_tensor_3d(sfb2, T::second_sfb(p), 0, y2, coord.batch, full);
        }
    } else if (!second_operand<T>::same_scales || coord.rank == 0) {
        cp_async_bulk_tensor_3d_pair_multicast(
            coord.rank == 0 ? sfb1 : sfb2, coord.rank == 0 ? &p.sfb1 : T::second_sfb(p), 0,
            T::products == 2 || coord.rank == 0 ? y : y2, coord.batch, full, cta_mask<T>(coord));
    }
}

/* The same for factors that warps rearrange, from `step` of K on: all scale tiles that the tile's rows touch,
 * and A's if warps store them.  Signals scales_full[s] of each CTA that gets them. */
template <class T, class P>
static __device__ __forceinline__ void copy_joint_scales(shared_t<T> shared, int stage, const P &p,
                                                         const struct tile_coord &coord,
                                                         const struct box_coord &boxes, int32_t step) {
    struct mbarrier full = scales_full_barrier<T>(shared, stage);
    const stage_t<T> to = stage_of(shared, stage);
    const int32_t tiles = (coord.n % SCALE_TILE_ROWS + T::tile_n - 1) / SCALE_TILE_ROWS + 1;
    mbarrier_arrive_expect_tx(full, (2 * tiles + T::stored) * STAGE_SCALE_BYTES);
    if constexpr (T::stored) {
        cp_async_bulk_tensor_3d(SHARED_MEMBER(to, sfa), &p.sfa, 0, boxes.sfa_tile + step, coord.batch, full);
    }
    int32_t y = boxes.sfb_tile + step;
#pragma unroll
    for (int32_t tile = 0; tile < T::b_scale_tiles; tile++, y += boxes.tiles_k) {
        if (tile >= tiles) {
            break;
        }
        uint32_t sfb1 = SHARED_MEMBER(to, sfb[0]) + tile * STAGE_SCALE_BYTES;
        uint32_t sfb2 = SHARED_MEMBER(to, sfb[1]) + tile * STAGE_SCALE_BYTES;
        if constexpr (T::ctas == 1) {
            cp_async_bulk_tensor_3d(sfb1, &p.sfb1, 0, y, coord.batch, full);
            cp_async_bulk_tensor_3d(sfb2, &p.sfb2, 0, y, coord.batch, full);
        } else {
            cp_async_bulk_tensor_3d_multicast(coord.rank == 0 ? sfb1 : sfb2,
                                              coord.rank == 0 ? &p.sfb1 : &p.sfb2, 0, y, coord.batch, full,
                                              cta_mask<T>(coord));
        }
    }
}

/* Copies B of a stage: this CTA's rows of both operands; of a joint MMA in a pair, all rows of one operand; if
 * warps store scale factors, rows of both for the first MMA and then for the second one. */
template <class T, class P>
static __device__ __forceinline__ void copy_b(stage_t<T> to, const P &p, const struct tile_coord &coord,
                                              const struct box_coord &boxes, int32_t k, struct mbarrier full) {
    if constexpr (T::joint_mma && T::ctas == 2) {
        copy_box<T>(SHARED_MEMBER(to, b), coord.rank == 0 ? &p.b1 : T::second_b(p), k,
                    coord.n + coord.rank * (T::products == 2 ? 0 : mma_columns<T>(coord) / T::ctas),
                    boxes.batch, full);
    } else if constexpr (T::stored) {
        constexpr int rows = T::cta_n / 2;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t first = SHARED_MEMBER(to, b) + half * T::cta_n * STAGE_FP4_BYTES;
            copy_box<T>(first, &p.b1, k, boxes.n + half * rows, boxes.batch, full);
            copy_box<T>(first + rows * STAGE_FP4_BYTES, &p.b2, k, boxes.n + half * rows, boxes.batch, full);
        }
    } else {
        copy_box<T>(SHARED_MEMBER(to, b[0]), &p.b1, k, boxes.n, boxes.batch, full);
        copy_box<T>(SHARED_MEMBER(to, b[1]), T::second_b(p), k, boxes.n + second_operand<T>::rows, boxes.batch,
                    full);
    }
}

/* Load warp, one thread.  Waits for the previous kernel (PDL), then for each empty[s];
 * fills stage s: out-of-bounds elements read as zero, out-of-bounds scale factors as the next rows', which no
 * MMA uses; signals full[s]: one arrival and the stage's bytes, in a pair those of both CTAs at the first CTA's
 * barrier.  `filled` counts the stages that tiles before this one have filled. */
template <class T, class P>
static __device__ __forceinline__ void load(shared_t<T> shared, const struct tile_coord &coord, const P &p,
                                            struct ring &ring, int32_t filled) {
    int32_t stages = (coord.steps + STAGE_STEPS - 1) / STAGE_STEPS;
    struct box_coord boxes = find_boxes<T>(coord, p.steps_k);
    if (p.scales_by_previous_kernel) {
        prefetch_b<T>(boxes, p, stages);
    }
    griddepcontrol_wait();
#pragma unroll 1
    for (int32_t i = 0; i < stages; i++) {
        struct mbarrier full = full_barrier(shared, ring.stage);
        stage_t<T> to = stage_of(shared, ring.stage);
        int32_t k = (boxes.first_stage + i) * STAGE_FP4_BYTES, step = (boxes.first_stage + i) * STAGE_STEPS;
        if (filled + i >= T::stages) {
            wait(empty_barrier(shared, ring.stage), ring.parity ^ 1); /* previous lap */
            if constexpr (T::stored) {
                wait_cluster(scales_empty_barrier<T>(shared, ring.stage), ring.parity ^ 1);
            }
        }
        if (coord.rank == 0) {
            mbarrier_arrive_expect_tx(full, T::ctas * stage_tx_bytes<T>(coord));
        }
        if (T::ctas > 1) {
            full.address = mapa_shared_cluster(full.address, leader_rank<T>(coord));
        }
        if constexpr (rearranges<T>()) {
            copy_joint_scales<T>(shared, ring.stage, p, coord, boxes, step);
        }
        copy_b<T>(to, p, coord, boxes, k, full);
        copy_box<T>(SHARED_MEMBER(to, a), T::own_a(p, coord.rank), k, boxes.m, boxes.batch, full);
#pragma unroll
        for (int tile = 0; tile < T::b_scale_tiles && !rearranges<T>(); tile++) {
            int32_t y = boxes.sfb_tile + tile * boxes.tiles_k + step;
            copy_b_scales<T>(to, tile, p, coord, y, y + second_operand<T>::scale_tiles * boxes.tiles_k, full);
        }
        if constexpr (!T::stored) {
            copy_box<T>(SHARED_MEMBER(to, sfa), T::own_sfa(p, coord.rank), 0, boxes.sfa_tile + step,
                        boxes.batch, full);
        }
        advance<T::stages>(ring);
    }
}

/* ---- main loop ---- */

/* A stage's operands: descriptors of its first step, and its columns of scale factors. */
struct operands {
    uint64_t a, b1, b2, sfa, sfb1, sfb2;
    struct tmem_addr scales;
};

/* The first stage's. */
template <class T>
static __device__ __forceinline__ struct operands find_operands(shared_t<T> shared, struct tmem_addr tmem) {
    const stage_t<T> at = stage_of(shared, 0);
    return {swizzled_tile_descriptor(SHARED_MEMBER(at, a)),
            swizzled_tile_descriptor(SHARED_MEMBER(at, b[0])),
            swizzled_tile_descriptor(SHARED_MEMBER(at, b[1])),
            scale_tile_descriptor(SHARED_MEMBER(at, sfa)),
            scale_tile_descriptor(SHARED_MEMBER(at, sfb[0])),
            scale_tile_descriptor(SHARED_MEMBER(at, sfb[1])),
            tmem_column(tmem, T::scales_column)};
}

/* Those of another stage. */
template <class T>
static __device__ __forceinline__ struct operands operands_of(const struct operands &first, int stage) {
    const uint32_t advance = stage * descriptor_advance(sizeof(shared_stage<T>));
    return {advance_descriptor(first.a, advance),
            advance_descriptor(first.b1, advance),
            advance_descriptor(first.b2, advance),
            advance_descriptor(first.sfa, advance),
            advance_descriptor(first.sfb1, advance),
            advance_descriptor(first.sfb2, advance),
            tmem_column(first.scales, (T::scales_shared ? 0 : stage) * T::stage_columns)};
}

/* The constants of the main loop. */
struct products {
    struct tmem_addr tmem, acc_gate, acc_up;
    uint32_t instruction;
    uint32_t sfb_column; /* column of the scale tile's four where the tile's rows of B start */
    uint16_t ctas, self; /* masks of the CTAs whose barriers are signalled: all that share the MMA; this one */
};

/* Copies the scale factors of one operand and step, tile after tile, to consecutive columns. */
template <int ctas, int tiles>
static __device__ __forceinline__ void copy_scales(struct tmem_addr to, uint64_t from) {
#pragma unroll
    for (int tile = 0; tile < tiles; tile++) {
        tcgen05_cp_32x128b_warpx4<ctas>(tmem_column(to, tile * SCALE_TILE_COLUMNS),
                                        advance_descriptor(from, tile * descriptor_advance(STAGE_SCALE_BYTES)));
    }
}

/* The part of a stage's work that a pass does.  With both products, A stays in the collector for the second
 * one. */
enum part { BOTH_PRODUCTS, COPIES_AND_GATE, UP };

template <class T, enum part part>
static __device__ __forceinline__ void multiply_step(const struct products &p, const struct operands &o,
                                                     int step, int accumulate) {
    const enum collector first = part == BOTH_PRODUCTS ? COLLECTOR_FILL : COLLECTOR_DISCARD;
    const enum collector second = part == BOTH_PRODUCTS ? COLLECTOR_LASTUSE : COLLECTOR_DISCARD;
    const uint32_t fp4 = step * descriptor_advance(STEP_FP4_BYTES),
                   tile = step * descriptor_advance(SCALE_TILE_BYTES);
    const uint64_t a = advance_descriptor(o.a, fp4), b1 = advance_descriptor(o.b1, fp4);
    struct tmem_addr sfa = tmem_column(o.scales, step * T::step_columns);
    struct tmem_addr sfb1 = tmem_column(sfa, SCALE_TILE_COLUMNS);
    struct tmem_addr sfb2 = tmem_column(sfb1, T::b_scale_tiles * SCALE_TILE_COLUMNS);
    if (part != UP && !T::stored) {
        copy_scales<T::ctas, 1>(sfa, advance_descriptor(o.sfa, tile));
        copy_scales<T::ctas, T::joint_mma ? T::joint_scale_tiles : T::b_scale_tiles>(
            sfb1, advance_descriptor(o.sfb1, tile));
    }
    if constexpr (T::joint_mma) {
        tcgen05_mma_mxf4nvf4<T::ctas, COLLECTOR_DISCARD>(p.acc_gate, a, b1, p.instruction, sfa, sfb1,
                                                         accumulate);
    } else {
        if (part != UP) {
            if constexpr (!second_operand<T>::same_scales && !T::stored) {
                copy_scales<T::ctas, T::b_scale_tiles>(sfb2, advance_descriptor(o.sfb2, tile));
            }
            tcgen05_mma_mxf4nvf4<T::ctas, first>(p.acc_gate, a, b1, p.instruction, sfa,
                                                 tmem_column(sfb1, p.sfb_column), accumulate);
        }
        if (part != COPIES_AND_GATE) {
            tcgen05_mma_mxf4nvf4<T::ctas, second>(
                p.acc_up, a, advance_descriptor(o.b2, fp4), p.instruction, sfa,
                second_operand<T>::same_scales ? tmem_column(sfb1, SCALE_TILE_COLUMNS / 2)
                                               : tmem_column(sfb2, p.sfb_column),
                accumulate);
        }
    }
}

/* The steps of stage number `i` that exist in K.  If stages share columns of scale factors, waits for
 * scales_read[step] before it copies new ones, and signals it once both products have read them.  Whole stages
 * have no branches: a stage of a tile of few columns has to take less time to issue than its MMAs take. */
template <class T, enum part part>
static __device__ __forceinline__ void multiply_stage(const struct products &p, shared_t<T> shared,
                                                      const struct operands &o, int32_t i, int32_t steps) {
    const auto one_step = [&](int step) {
        if (T::scales_shared && i > 0) {
            wait(scales_read_barrier<T>(shared, step), (i - 1) % 2);
            tcgen05_fence_after_thread_sync();
        }
        multiply_step<T, part>(p, o, step, i > 0 || step > 0);
    };
    const int32_t left = steps - i * STAGE_STEPS;
    /* Only the last stage may have fewer steps; it is in the tail if there is one. */
    if ((part == BOTH_PRODUCTS && T::tail > 0) || left >= STAGE_STEPS) {
#pragma unroll
        for (int step = 0; step < STAGE_STEPS; step++) {
            one_step(step);
            if (T::scales_shared && left > STAGE_STEPS) {
                tcgen05_commit<T::ctas>(scales_read_barrier<T>(shared, step), p.self);
            }
        }
    } else {
#pragma unroll 1
        for (int step = 0; step < left; step++) {
            one_step(step);
        }
    }
}

/* `by_warps`: warps of the cluster have put scale factors into the stage. */
template <bool by_warps, class T>
static __device__ __forceinline__ void wait_for_stage(shared_t<T> shared, const struct ring &ring) {
    const struct mbarrier full = full_barrier(shared, ring.stage);
    if constexpr (by_warps) {
        wait_cluster(full, ring.parity);
    } else {
        wait(full, ring.parity);
    }
    tcgen05_fence_after_thread_sync();
}

/* MMA warp, one thread (in a pair, of the first CTA).  Waits for full[s]; copies the scale factors, multiplies;
 * in the last T::tail stages completes the first product before the second one; signals empty[s] once stage s
 * has been read, gate_full after the first product, so that its SiLU overlaps the rest of the second, and
 * up_full at the end.  `more`: another tile follows, whose stages wait for this one's.
 * `acc_column`: the accumulators' first column of TMEM; `complete`: up_full. */
template <class T>
static __device__ __forceinline__ void multiply(shared_t<T> shared, struct tmem_addr tmem, int32_t acc_column,
                                                const struct tile_coord &coord, struct ring &ring, bool more,
                                                struct mbarrier complete) {
    const struct tmem_addr acc = tmem_column(tmem, acc_column);
    const uint32_t first_row = coord.n % SCALE_TILE_ROWS, column_rows = SCALE_TILE_ROWS / SCALE_TILE_COLUMNS;
    const struct products p = {
        tmem,
        acc,
        tmem_column(acc, T::up_column),
        nvfp4_instruction_descriptor(TILE_M * T::ctas, mma_columns<T>(coord)),
        first_row / column_rows,
        cta_mask<T>(coord),
        (uint16_t)(1u << leader_rank<T>(coord)),
    };
    const int32_t steps = coord.steps, stages = (steps + STAGE_STEPS - 1) / STAGE_STEPS;
    const int32_t together = max(stages - T::tail, 0);
    const struct operands first = find_operands<T>(shared, tmem);
#pragma unroll 1
    for (int32_t i = 0; i < together; i++) {
        const struct operands o = operands_of<T>(first, ring.stage);
        wait_for_stage<rearranges<T>()>(shared, ring);
        multiply_stage<T, BOTH_PRODUCTS>(p, shared, o, i, steps);
        if (more ||
            i + T::stages <
                stages) { /* no arrival that could come after the CTA's end, because no thread waits for it */
            tcgen05_commit<T::ctas>(empty_barrier(shared, ring.stage), p.ctas);
        }
        advance<T::stages>(ring);
    }
    if constexpr (T::tail > 0) {
        struct ring tail = ring;
#pragma unroll 1
        for (int32_t i = together; i < stages; i++) {
            wait_for_stage<rearranges<T>()>(shared, tail);
            multiply_stage<T, COPIES_AND_GATE>(p, shared, operands_of<T>(first, tail.stage), i, steps);
            advance<T::stages>(tail);
        }
        tcgen05_commit<T::ctas>(gate_full_barrier<T>(shared), p.ctas);
#pragma unroll 1
        for (int32_t i = together; i < stages; i++) {
            multiply_stage<T, UP>(p, shared, operands_of<T>(first, ring.stage), i, steps);
            advance<T::stages>(ring);
        }
    }
    tcgen05_commit<T::ctas>(complete, p.ctas);
}

} // namespace blackwell

#endif
