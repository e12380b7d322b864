/* The grouped GEMM's tile configurations, for host and device: those of the dual GEMM's kernel with one
 * product, whose two halves of columns have the places of both (geforce_grouped_gemm.cuh), so that a tile has
 * twice as many columns as tile_n, all in one scale tile. */
#ifndef GEFORCE_GROUPED_CONFIG_H
#define GEFORCE_GROUPED_CONFIG_H

#include "../geforce_config.h"

/* As GEFORCE_CONFIGS; the name has a tile's rows and columns of C. */
#define GEFORCE_GROUPED_CONFIGS(X)                                                                             \
    X(m128n128, 128, 64, 5, 4, 2)                                                                              \
    X(m64n128, 64, 64, 6, 4, 2)                                                                                \
    X(m64n64, 64, 32, 8, 4, 2)

#endif
