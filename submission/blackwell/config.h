/* The Blackwell kernel's tile configurations, for host and device.
 *
 * A CTA computes TILE_M rows by tile_n columns of C: 128 rows of A (tcgen05.mma's M) against tile_n rows of B1
 * and of B2 (its N).  A pair of CTAs (`ctas` 2) computes 256 rows of C with one instruction: each CTA holds its
 * own rows of A and half of the rows of B.
 *
 * B1 and B2 are two MMAs, not one over stacked rows: scale factors of B lie in TMEM by rows of 128, in tiles
 * that tcgen05.cp moves whole, so that halves of two tiles cannot stand next to each other without one copy
 * overwriting another, whose order PTX leaves open.  A is kept in the tensor cores' collector for the second,
 * which so costs no second read of shared memory; and the first product can be complete earlier.
 *
 * CTAs or pairs (`split_k`) may share a tile's K: then large tiles, which are few, keep as many SMs busy as
 * small ones, and an SM loads less, for a DSMEM reduction at the end. */
#ifndef BLACKWELL_CONFIG_H
#define BLACKWELL_CONFIG_H

#include <stdint.h>

#include "../core/scale_layout.h"
#include "../gpu/limits.h"

#define TILE_M            128 /* HW: tcgen05.mma's M of a CTA with block scales (PTX ISA, Matrix Shape) */
#define STAGE_K           256 /* elements of K in a stage: a row's fp4 are one row of the widest swizzle */
#define STAGE_FP4_BYTES   (STAGE_K / 2)
#define STEP_K            64 /* HW: K of one tcgen05.mma of 4-bit elements */
#define STEP_FP4_BYTES    (STEP_K / 2)
#define STAGE_STEPS       (STAGE_K / STEP_K)
#define STAGE_SCALE_BYTES (STAGE_STEPS * SCALE_TILE_BYTES) /* of 128 rows: a scale tile is a step's */
#define FP16_BYTES        2

/* name, rows of B, stages, CTAs that share an MMA, stages at the end of K whose first products come first, CTAs
 * or pairs that share a tile's K */
#define BLACKWELL_CONFIGS(X)                                                                                   \
    X(m256n64, 64, 7, 2, 3, 1)                                                                                 \
    X(m256n128, 128, 5, 2, 3, 1)                                                                               \
    X(m256n128k2, 128, 5, 2, 0, 2)                                                                             \
    X(m256n192k2, 192, 4, 2, 0, 2)                                                                             \
    X(m256n192k4, 192, 4, 2, 0, 4)                                                                             \
    X(m128n64, 64, 5, 1, 3, 1)                                                                                 \
    X(m128n128, 128, 4, 1, 3, 1)

struct blackwell_config {
    const char *name;
    int tile_n, stages, ctas, tail, split_k;
};

#define EPILOGUE_WARPS TMEM_QUARTERS
#define CTA_THREADS    ((2 + EPILOGUE_WARPS) * WARP_THREADS) /* and a load warp and an MMA warp */

/* A, B1 and B2 in fp4, then their scale factors; `tile_n` of the whole MMA, of which a CTA holds its part. */
#define STAGE_BYTES(tile_n, ctas)                                                                              \
    ((TILE_M + 2 * (tile_n) / (ctas)) * STAGE_FP4_BYTES +                                                      \
     (1 + 2 * SCALE_TILES_TOUCHED(tile_n)) * STAGE_SCALE_BYTES)

/* After the stages: two barriers each, one for each step, one for each product, a slot where tcgen05.alloc
 * leaves its address; and room to align their start. */
#define BARRIERS(stages) (2 * (stages) + STAGE_STEPS + 2)
#define TMEM_SLOT_BYTES  8
#define SHARED_BYTES(tile_n, stages, ctas)                                                                     \
    ((stages) * STAGE_BYTES(tile_n, ctas) + BARRIERS(stages) * MBARRIER_BYTES + TMEM_SLOT_BYTES +              \
     SWIZZLE_ATOM_BYTES)

static inline int blackwell_shared_bytes(const struct blackwell_config *config) {
    return SHARED_BYTES(config->tile_n, config->stages, config->ctas);
}

/* TMEM: the accumulators of both products, then scale factors.  Each stage's have columns of their own, or,
 * where these do not fit, all stages the same ones. */
#define SCALE_TILE_COLUMNS   4 /* HW: 128 rows of scale factors of a step: four columns of 32 rows */
#define STEP_COLUMNS(tile_n) ((1 + 2 * SCALE_TILES_TOUCHED(tile_n)) * SCALE_TILE_COLUMNS) /* of A, B1, B2 */
#define SCALE_STAGES(tile_n)                                                                                   \
    ((TMEM_COLUMNS - 2 * (tile_n)) / (STAGE_STEPS * STEP_COLUMNS(tile_n))) /* that fit */

static inline int blackwell_tmem_columns(const struct blackwell_config *config) {
    int stages = SCALE_STAGES(config->tile_n) < config->stages ? 1 : config->stages;
    return 2 * config->tile_n + stages * STAGE_STEPS * STEP_COLUMNS(config->tile_n);
}

#endif
