/* The grouped GEMM's tile configurations, for host and device: those of the dual GEMM's kernel with one
 * product, whose two halves of columns have the places of both (blackwell_grouped_gemm.cuh), so that a tile has
 * twice as many columns as tile_n.  Of narrow tiles one MMA takes both halves, whose rows and scale factors lie
 * together. */
#ifndef BLACKWELL_GROUPED_CONFIG_H
#define BLACKWELL_GROUPED_CONFIG_H

#include "../blackwell_config.h"

/* As BLACKWELL_CONFIGS; the name has a tile's rows and columns of C. */
#define BLACKWELL_GROUPED_CONFIGS(X)                                                                           \
    X(m128n128, 64, 5, 1, 0, 1)                                                                                \
    X(m128n256, 128, 4, 1, 3, 1)                                                                               \
    X(m256n128, 64, 7, 2, 0, 1)                                                                                \
    X(m256n256, 128, 5, 2, 3, 1)

#endif
