/* The grouped GEMM's tile configurations, for host and device.  The two halves of a tile's columns take the
 * places of the dual GEMM's two products (blackwell_grouped_gemm.cuh), so a tile has 2 * tile_n columns.  In
 * narrow tiles one MMA computes both halves, whose rows and scale factors are contiguous. */
#ifndef BLACKWELL_GROUPED_CONFIG_H
#define BLACKWELL_GROUPED_CONFIG_H

#include "../blackwell_config.h"

/* Columns as in BLACKWELL_CONFIGS; the name has the tile's rows and columns of C. */
#define BLACKWELL_GROUPED_CONFIGS(X)                                                                           \
    X(m128n128, 64, 5, 1, 0, 1)                                                                                \
    X(m128n256, 128, 4, 1, 3, 1)                                                                               \
    X(m256n128, 64, 7, 2, 0, 1)                                                                                \
    X(m256n256, 128, 5, 2, 3, 1)

/* Turned tiles compute c^T = b a^T: an MMA's rows are rows of B, of which there are many, and its columns are
 * the group's rows of A, as many as there are, at most as the name says after the m.  So few rows of A cost few
 * cycles, and B is read once for up to 256 of them. */
#define BLACKWELL_TURNED_CONFIGS(X) X(n256m256, 128, 5, 2, 0, 1)

#endif
