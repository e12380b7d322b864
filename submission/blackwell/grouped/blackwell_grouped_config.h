/* The grouped GEMM's tile configurations, for host and device.  The two halves of a tile's columns take the
 * places of the dual GEMM's two products (blackwell_grouped_gemm.cuh), so a tile has 2 * tile_n columns.  In
 * tiles of 128 columns one MMA computes both halves, whose rows and scale factors are contiguous. */
#ifndef BLACKWELL_GROUPED_CONFIG_H
#define BLACKWELL_GROUPED_CONFIG_H

#include "../blackwell_config.h"

/* Columns as in BLACKWELL_CONFIGS but for the last; the name has the tile's rows and columns of C. */
#define BLACKWELL_GROUPED_CONFIGS(X)                                                                           \
    X(m128n128, 64, 5, 1, 0, 1)                                                                                \
    X(m128n256, 128, 4, 1, 3, 1)                                                                               \
    X(m256n128, 64, 7, 2, 0, 1)                                                                                \
    X(m256n256, 128, 5, 2, 3, 1)

/* Transposed tiles compute c^T = b a^T: an MMA's rows are rows of B, of which there are many, and its columns
 * are the group's rows of A, as many as there are, at most as the name says after the m.  So few rows of A cost
 * few cycles, and B is read once for up to 256 of them.  With the last column above 1, that many pairs share a
 * tile's K. */
#define BLACKWELL_TRANSPOSED_CONFIGS(X) X(n256m256, 128, 5, 2, 0, 1) X(n256m128k2, 64, 6, 2, 0, 2)

#define TRANSPOSED_COLUMNS 16 /* accumulator columns that a lane loads at once: rows of C */

/* Shared memory behind the ring of a transposed tile whose K pairs share: a CTA's share of the sums, from each
 * other pair of the cluster; and room to align it. */
#define RECEIVED_BYTES(tile_n, split_k)                                                                        \
    (((split_k) - 1) * 2 * (tile_n) / (split_k) * TILE_M * (int)sizeof(float) + MBARRIER_BYTES)

static inline int blackwell_transposed_shared_bytes(const struct blackwell_config *config) {
    return blackwell_shared_bytes(config) +
           (config->split_k > 1 ? RECEIVED_BYTES(config->tile_n, config->split_k) : 0);
}

#endif
