/* The Blackwell kernels' tile configurations, for host and device.
 *
 * A CTA computes TILE_M rows by tile_n columns of C: 128 rows of A (tcgen05.mma's M) against tile_n rows of B1
 * and of B2 (its N).  A pair of CTAs (`ctas` 2) computes 256 rows of C with one instruction: each CTA holds its
 * own rows of A and half of the rows of B.
 *
 * In tiles of few columns one joint MMA multiplies B1 and B2, because a step of two small MMAs takes longer
 * than its arithmetic: reading the operands from shared memory limits it (published: 2 x 43.5 cycles in a pair
 * against 64).  TMEM holds B's scale factors in tiles of 128 rows, which tcgen05.cp copies whole, so warps
 * first gather those of the joint MMA's rows in shared memory. Wide tiles issue two MMAs, which take no longer
 * than one: the tensor cores' collector keeps A for the second MMA, and the first product can be complete
 * earlier (`tail`).
 *
 * tcgen05.cp takes the tensor cores' turn to copy scale factors.  In tiles with `stored` 1 it is not used: the
 * epilogue warps, which are idle until the end, store the factors to TMEM, and so can put those of joint rows
 * in any order.  Two MMAs then each take half of the columns of both products, so that half of C is stored
 * while the other half is multiplied.
 *
 * CTAs or pairs (`split_k`) may share a tile's K: then a few large tiles keep as many SMs busy as many small
 * ones, and an SM loads less; the price is a DSMEM reduction at the end. */
#ifndef BLACKWELL_CONFIG_H
#define BLACKWELL_CONFIG_H

#include <stdint.h>

#include "../core/scale_layout.h"
#include "../gpu/gpu_limits.h"

/* Variables of the environment: the name of the tile to use, and 0 for launches without PDL. */
#define BLACKWELL_CONFIG_VARIABLE "NVFP4_BLACKWELL_CONFIG"
#define BLACKWELL_PDL_VARIABLE    "NVFP4_BLACKWELL_DEPENDENT_LAUNCH"

#define TILE_M            128 /* HW: tcgen05.mma's M of a CTA with block scales (PTX ISA, Matrix Shape) */
#define STAGE_K           256 /* elements of K in a stage: a row's fp4 are one row of the widest swizzle */
#define STAGE_FP4_BYTES   (STAGE_K / 2)
#define STEP_K            64 /* HW: K of one tcgen05.mma of 4-bit elements */
#define STEP_FP4_BYTES    (STEP_K / 2)
#define STAGE_STEPS       (STAGE_K / STEP_K)
#define STAGE_SCALE_BYTES (STAGE_STEPS * SCALE_TILE_BYTES) /* scale factors of 128 rows: a tile a step */
#define FP16_BYTES        2

/* name, rows of B, stages, CTAs that share an MMA, stages at the end of K whose first products all come before
 * the second ones (0 if one MMA computes both products, or K is split), CTAs or pairs that share a tile's K,
 * whether warps store scale factors.  Among tiles of equal predicted time the first one is chosen. */
#define BLACKWELL_CONFIGS(X)                                                                                   \
    X(m256n64, 64, 7, 2, 0, 1, 0)                                                                              \
    X(m256n96, 96, 5, 2, 0, 1, 0)                                                                              \
    X(m256n128s, 128, 5, 2, 3, 1, 1)                                                                           \
    X(m256n128, 128, 5, 2, 3, 1, 0)                                                                            \
    X(m256n128k2, 128, 5, 2, 0, 2, 0)                                                                          \
    X(m256n192k2, 192, 4, 2, 0, 2, 0)                                                                          \
    X(m256n192k4, 192, 4, 2, 0, 4, 0)                                                                          \
    X(m128n64, 64, 5, 1, 3, 1, 0)                                                                              \
    X(m128n128, 128, 4, 1, 3, 1, 0)

struct blackwell_config {
    const char *name;
    int tile_n, stages, ctas, tail, split_k, stored;
};

/* A row of the lists without the last column. */
#define BLACKWELL_COPYING_TILE(name, ...) {#name, __VA_ARGS__, 0},

#define OTHER_WARPS    2 /* load, MMA */
#define COLUMN_GROUPS  2 /* epilogue warps that share a quarter of TMEM's lanes, and take columns in turn */
#define EPILOGUE_WARPS (COLUMN_GROUPS * TMEM_QUARTERS)
#define CTA_THREADS    ((OTHER_WARPS + EPILOGUE_WARPS) * WARP_THREADS)

#define JOINT_MMA(tail, split_k) ((tail) == 0 && (split_k) == 1)

/* A, B1 and B2 in fp4, then their scale factors; `tile_n` is the whole MMA's, of which a CTA holds its part. */
#define STAGE_BYTES(tile_n, ctas)                                                                              \
    ((TILE_M + 2 * (tile_n) / (ctas)) * STAGE_FP4_BYTES +                                                      \
     (1 + 2 * SCALE_TILES_TOUCHED(tile_n)) * STAGE_SCALE_BYTES)

/* Stages, four barriers for each, a barrier for each step of a stage and each product, a slot where
 * tcgen05.alloc writes its address; and room to align their start. */
#define BARRIERS(stages) (4 * (stages) + STAGE_STEPS + 2)
#define TMEM_SLOT_BYTES  8
#define SHARED_BYTES(tile_n, stages, ctas)                                                                     \
    ((stages) * STAGE_BYTES(tile_n, ctas) + BARRIERS(stages) * MBARRIER_BYTES + TMEM_SLOT_BYTES +              \
     SWIZZLE_ATOM_BYTES)

static inline int blackwell_shared_bytes(const struct blackwell_config *config) {
    return SHARED_BYTES(config->tile_n, config->stages, config->ctas);
}

/* TMEM: the accumulators of both products, then scale factors.  Each stage's scale factors have columns of
 * their own, or, if those do not fit, all stages share columns. */
#define SCALE_TILE_COLUMNS 4 /* HW: 128 rows of scale factors of a step: four columns of 32 rows */
#define B_SCALE_TILES(tile_n, joint_mma)                                                                       \
    ((joint_mma) ? (2 * (tile_n) + SCALE_TILE_ROWS - 1) / SCALE_TILE_ROWS : 2 * SCALE_TILES_TOUCHED(tile_n))
#define STEP_COLUMNS(tile_n, joint_mma)                                                                        \
    ((1 + B_SCALE_TILES(tile_n, joint_mma)) * SCALE_TILE_COLUMNS) /* columns of A's and B's factors */
#define SCALE_STAGES(tile_n, joint_mma)                                                                        \
    ((TMEM_COLUMNS - 2 * (tile_n)) / (STAGE_STEPS * STEP_COLUMNS(tile_n, joint_mma))) /* stages that fit */

static inline int blackwell_tmem_columns(const struct blackwell_config *config) {
    int joint_mma = JOINT_MMA(config->tail, config->split_k);
    int stages = SCALE_STAGES(config->tile_n, joint_mma) < config->stages ? 1 : config->stages;
    return 2 * config->tile_n + stages * STAGE_STEPS * STEP_COLUMNS(config->tile_n, joint_mma);
}

/* Rows of B in a copy's box.  In a pair whose products are one MMA, the first CTA copies B1's rows and the
 * second B2's; if each MMA takes half of the columns, a CTA copies rows of B1 and of B2 for each MMA. */
static inline int blackwell_b_box_rows(const struct blackwell_config *config) {
    return JOINT_MMA(config->tail, config->split_k) ? config->tile_n
                                                    : config->tile_n / config->ctas / (config->stored ? 2 : 1);
}

#endif
