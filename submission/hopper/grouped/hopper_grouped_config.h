/* The grouped GEMM's tiles (hopper_grouped_gemm.cuh), for host and device.
 *
 * A CTA computes tile_m rows by GROUPED_COLUMNS columns of a group's C.  The two halves of the tile's rows of B
 * take the places of the dual GEMM's B1 and B2; together they fill a scale tile. */
#ifndef HOPPER_GROUPED_CONFIG_H
#define HOPPER_GROUPED_CONFIG_H

#include "../hopper_config.h"

/* name, rows of A, stages */
#define HOPPER_GROUPED_TILES(X)                                                                                \
    X(m48, 48, 8)                                                                                              \
    X(m64, 64, 8)                                                                                              \
    X(m80, 80, 7)                                                                                              \
    X(m96, 96, 6)                                                                                              \
    X(m112, 112, 5)                                                                                            \
    X(m128, 128, 5)                                                                                            \
    X(m160, 160, 4)                                                                                            \
    X(m176, 176, 4)                                                                                            \
    X(m192, 192, 3)                                                                                            \
    X(m208, 208, 3)                                                                                            \
    X(m256, 256, 3)

struct hopper_grouped_tile {
    const char *name;
    int tile_m, stages;
};

#define GROUPED_WARPGROUPS 2
#define GROUPED_COLUMNS    (2 * TILE_N(GROUPED_WARPGROUPS, 1))

/* A in fp16 lies in memory as in the stages: [stage of K][8 rows][A_BOX_K of K][row][128 bytes, swizzled].  Its
 * rows are padded to whole eights, so that one copy brings all rows of a tile. */
#define GROUPED_A_ROW_BYTES (STAGE_K * FP16_BYTES)

/* The scale factors of B come once. */
#define GROUPED_STAGE_TX_BYTES(a_rows) (STAGE_BYTES(GROUPED_COLUMNS / 2, a_rows) - STAGE_SCALE_BYTES)

#define GROUPED_DEQUANTIZE_MAX_THREADS 512

#endif
