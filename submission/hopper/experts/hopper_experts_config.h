/* The tiles of the products of experts (hopper_experts_gemm.cuh), for host and device.
 *
 * A tile is tile_m rows of A by 64 columns of a gated product, or 128 of a plain one: two warpgroups with 64
 * rows of B each.  All tiles sum K in the same order, so a row's bits do not depend on the tile. */
#ifndef HOPPER_EXPERTS_CONFIG_H
#define HOPPER_EXPERTS_CONFIG_H

#include "../hopper_config.h"

/* name, rows of A, stages, CTAs an SM */
#define HOPPER_EXPERTS_TILES(X)                                                                                \
    X(m16, 16, 6, 2)                                                                                           \
    X(m32, 32, 4, 2)                                                                                           \
    X(m64, 64, 7, 1)                                                                                           \
    X(m96, 96, 5, 1)                                                                                           \
    X(m128, 128, 4, 1)                                                                                         \
    X(m160, 160, 4, 1)

struct hopper_experts_tile {
    const char *name;
    int tile_m, stages, ctas_per_sm;
};

#define EXPERTS_WARPGROUPS 2
#define EXPERTS_TILE_N     TILE_N(EXPERTS_WARPGROUPS, 1) /* rows of B1, and of B2 */

/* Outputs are staged 32 rows at a time, of both halves of a plain product's columns, in fp32 or in 16 bits;
 * rows are padded against bank conflicts. */
#define EXPERTS_CHUNK_ROWS      WARP_THREADS
#define EXPERTS_WIDE_ROW_BYTES  (2 * EXPERTS_TILE_N * 4 + 16)
#define EXPERTS_SHORT_ROW_BYTES (2 * EXPERTS_TILE_N * FP16_BYTES + OUTPUT_PAD_BYTES)
#define EXPERTS_WIDE_BYTES(tile_m)                                                                             \
    (((tile_m) < EXPERTS_CHUNK_ROWS ? (tile_m) : EXPERTS_CHUNK_ROWS) * EXPERTS_WIDE_ROW_BYTES)
#define EXPERTS_OUTPUT_BYTES(tile_m)                                                                           \
    (EXPERTS_WIDE_BYTES(tile_m) > EXPERTS_CHUNK_ROWS * EXPERTS_SHORT_ROW_BYTES                                 \
         ? EXPERTS_WIDE_BYTES(tile_m)                                                                          \
         : EXPERTS_CHUNK_ROWS * EXPERTS_SHORT_ROW_BYTES)

/* The ring, room to align its start, staged outputs, and the table of experts. */
#define EXPERTS_SHARED_BYTES(tile_m, stages)                                                                   \
    (SHARED_BYTES(EXPERTS_TILE_N, tile_m, stages) + EXPERTS_OUTPUT_BYTES(tile_m) +                             \
     2 * CUSTOM_KERNEL_MAX_EXPERTS * 4)

/* ---- the dequantization of A ---- */

#define EXPERTS_DEQUANTIZE_THREADS 256

#endif
