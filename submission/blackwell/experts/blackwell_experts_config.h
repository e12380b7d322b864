/* The tiles of the products of experts (blackwell_experts_gemm.cuh), for host and device.
 *
 * They are transposed (blackwell_grouped_config.h): an MMA of a pair of CTAs multiplies 256 rows of B, which
 * are 256 columns of a plain product, or gate and up of 128 columns, by an expert's rows of A, as many as there
 * are, at most as the name says.  All tiles sum K in the same order, so a row's bits do not depend on the tile.
 */
#ifndef BLACKWELL_EXPERTS_CONFIG_H
#define BLACKWELL_EXPERTS_CONFIG_H

#include "../blackwell_config.h"

/* Columns as in BLACKWELL_CONFIGS but for the last. */
#define BLACKWELL_EXPERTS_TILES(X)                                                                             \
    X(m64, 32, 8, 2, 0, 1)                                                                                     \
    X(m256, 128, 5, 2, 0, 1)

#define EXPERTS_ROW_GRANULE 16 /* HW: an MMA of a pair has columns in these (PTX ISA, tcgen05.mma shapes) */
#define EXPERTS_LEAST_BOX   8  /* rows of A: half a granule, and rows of a swizzle atom */
#define EXPERTS_BOXES       5  /* of 8, 16, ... 128 rows of A, so that copies bring as many rows as there are */
#define EXPERTS_PIECE       16 /* rows of gate, then of up, in turn: columns of a group of NVFP4 output */
#define EXPERTS_QUARTER     32 /* rows of B whose accumulators a warp reads */

#define EXPERTS_SCALE_WARPS 4 /* copy scale factors */
#define EXPERTS_THREADS     (CTA_THREADS + EXPERTS_SCALE_WARPS * WARP_THREADS)

static inline int32_t blackwell_experts_shared_bytes(const struct blackwell_config *tile) {
    return blackwell_shared_bytes(tile) + 2 * CUSTOM_KERNEL_MAX_EXPERTS * 4; /* the table of experts */
}

#endif
