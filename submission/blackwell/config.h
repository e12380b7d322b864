/* The Blackwell kernel's tile configurations, for host and device.
 *
 * A CTA computes 128 tokens (rows of A and C: tcgen05.mma's M) by `features` (rows of B1 and B2, columns of C:
 * its N) of both products.  A pair of CTAs (`ctas` 2) computes 256 tokens with one instruction: each CTA holds
 * its own tokens and half of the features.
 *
 * B1 and B2 are two MMAs, not one over stacked rows: scale factors of B lie in tensor memory by rows of 128, in
 * tiles that tcgen05.cp moves whole, so that halves of two tiles cannot stand next to each other without one
 * copy overwriting another, whose order PTX leaves open.  A is kept in the tensor cores' collector for the
 * second, which so costs no second read of shared memory; and the first product can be complete earlier.
 *
 * CTAs or pairs (`splits`) may share a tile's K: then large tiles, which are few, keep as many SMs busy as
 * small ones, and an SM loads less, for an exchange of sums at the end. */
#ifndef BLACKWELL_CONFIG_H
#define BLACKWELL_CONFIG_H

#include <stdint.h>

#include "../core/backend.h"

#define TILE_TOKENS             128 /* HW: tcgen05.mma's M of a CTA with block scales (PTX ISA, Matrix Shape) */
#define STAGE_K                 256 /* elements of K in a stage: 128 bytes, the widest swizzle row */
#define STAGE_CODE_BYTES        (STAGE_K / 2)
#define STEP_K                  64 /* HW: K of one tcgen05.mma of 4-bit elements */
#define STEP_CODE_BYTES         (STEP_K / 2)
#define STAGE_STEPS             (STAGE_K / STEP_K)
#define STAGE_SCALE_BYTES       (STAGE_STEPS * SCALE_TILE_BYTES) /* of 128 rows: a scale tile is a step's */
#define B_SCALE_TILES(features) (SCALE_TILE_ROWS % (features) == 0 ? 1 : 2) /* that a CTA's tile may touch */
#define SHARED_ALIGNMENT        1024 /* HW: of a 128-byte swizzle atom (PTX ISA, Shared Memory Descriptor) */
#define MAX_SHARED_BYTES 232448      /* HW: 227 KB a CTA on compute capability 10.x (CUDA programming guide) */
#define BARRIER_BYTES    8
#define SLOT_BYTES       8 /* where tcgen05.alloc leaves its address */

/* name, features, stages, CTAs that share an MMA, stages at the end of K whose first products come first, CTAs
 * or pairs that share a tile's K */
#define BLACKWELL_CONFIGS(X)                                                                                   \
    X(m256n64, 64, 7, 2, 3, 1)                                                                                 \
    X(m256n128, 128, 5, 2, 3, 1)                                                                               \
    X(m256n128k2, 128, 5, 2, 0, 2)                                                                             \
    X(m256n192k2, 192, 4, 2, 0, 2)                                                                             \
    X(m256n192k4, 192, 4, 2, 0, 4)                                                                             \
    X(m128n64, 64, 5, 1, 3, 1)                                                                                 \
    X(m128n128, 128, 4, 1, 3, 1)

#define TENSOR_COLUMNS            512 /* HW: 128 lanes of 512 columns of 32 bits (PTX ISA, Tensor Memory) */
#define SCALE_TILE_COLUMNS        4   /* HW: 128 rows of scale factors, of one step: four columns of 32 rows */
#define STEP_COLUMNS_OF(features) ((1 + 2 * B_SCALE_TILES(features)) * SCALE_TILE_COLUMNS) /* of A, B1, B2 */
/* Stages whose scale factors fit beside the sums of both products. */
#define SCALE_STAGES_OF(features)                                                                              \
    ((TENSOR_COLUMNS - 2 * (features)) / (STAGE_STEPS * STEP_COLUMNS_OF(features)))

#define WARP_THREADS   32
#define EPILOGUE_WARPS 4 /* HW: a warp reaches the quarter of lanes that its number modulo 4 names */
#define BLOCK_THREADS  ((2 + EPILOGUE_WARPS) * WARP_THREADS)

struct blackwell_config {
    const char *name;
    int features, stages, ctas, tail, splits;
};

/* A, B1 and B2 codes, then their scale factors; `features` of the whole MMA, of which a CTA holds its part. */
#define STAGE_BYTES_OF(features, ctas)                                                                         \
    ((TILE_TOKENS + 2 * (features) / (ctas)) * STAGE_CODE_BYTES +                                              \
     (1 + 2 * B_SCALE_TILES(features)) * STAGE_SCALE_BYTES)

/* Behind the stages: two barriers each, one for each step, one for each product, a slot; and room to align
 * their start. */
#define BARRIERS_OF(stages) (2 * (stages) + STAGE_STEPS + 2)
#define SHARED_BYTES_OF(features, stages, ctas)                                                                \
    ((stages) * STAGE_BYTES_OF(features, ctas) + BARRIERS_OF(stages) * BARRIER_BYTES + SLOT_BYTES +            \
     SHARED_ALIGNMENT)

static inline int shared_bytes(const struct blackwell_config *config) {
    return SHARED_BYTES_OF(config->features, config->stages, config->ctas);
}

/* Of tensor memory: the sums of both products, then scale factors. */
static inline int tensor_columns(const struct blackwell_config *config) {
    int stages = SCALE_STAGES_OF(config->features) < config->stages ? 1 : config->stages;
    return 2 * config->features + stages * STAGE_STEPS * STEP_COLUMNS_OF(config->features);
}

#endif
