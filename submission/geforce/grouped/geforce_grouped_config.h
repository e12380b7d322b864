/* The grouped GEMM's tile configurations, for host and device.  The two halves of a tile's columns take the
 * places of the dual GEMM's two products (geforce_grouped_gemm.cuh), so a tile has 2 * tile_n columns, all in
 * one scale tile. */
#ifndef GEFORCE_GROUPED_CONFIG_H
#define GEFORCE_GROUPED_CONFIG_H

#include "../geforce_config.h"

/* Columns as in GEFORCE_CONFIGS; the name has the tile's rows and columns of C. */
#define GEFORCE_GROUPED_CONFIGS(X)                                                                             \
    X(m128n128, 128, 64, 5, 4, 2)                                                                              \
    X(m64n128, 64, 64, 6, 4, 2)                                                                                \
    X(m64n64, 64, 32, 8, 4, 2)

#endif
