/* The tiles of the products of experts (hopper_experts_gemm.cuh), for host and device.
 *
 * A tile is tile_m rows of A by 64 columns of a gated product, or 128 of a plain one: two warpgroups with 64
 * rows of B each.  Two m blocks double the columns, and make the tile large (hopper_experts_large.cuh): an
 * expert's rows are shared out evenly among as many tiles of at most tile_m rows as it needs.  All tiles sum K
 * in the same order, so a row's bits do not depend on the tile. */
#ifndef HOPPER_EXPERTS_CONFIG_H
#define HOPPER_EXPERTS_CONFIG_H

#include "../hopper_config.h"

/* name, rows of A, the least that are multiplied, m blocks, stages, CTAs an SM */
#define HOPPER_EXPERTS_TILES(X)                                                                                \
    X(m16, 16, 16, 1, 6, 2)                                                                                    \
    X(m32, 32, 32, 1, 4, 2)                                                                                    \
    X(m64, 64, 64, 1, 7, 1)                                                                                    \
    X(m96, 96, 48, 2, 4, 1)                                                                                    \
    X(m144, 144, 112, 2, 3, 1)

struct hopper_experts_tile {
    const char *name;
    int tile_m, least_rows, m_blocks, stages, ctas_per_sm;
};

#define EXPERTS_WARPGROUPS       2
#define EXPERTS_TILE_N(m_blocks) TILE_N(EXPERTS_WARPGROUPS, m_blocks) /* rows of B1, and of B2 */

#define LARGE_UNIT_ROWS 16 /* a large tile multiplies a multiple of these */

/* Outputs are staged 32 rows at a time, of both halves of a plain product's columns, in fp32 or in 16 bits;
 * rows are padded against bank conflicts. */
#define EXPERTS_STRIP_ROWS      WARP_THREADS
#define EXPERTS_WIDE_ROW_BYTES  (2 * EXPERTS_TILE_N(1) * 4 + 16)
#define EXPERTS_SHORT_ROW_BYTES (2 * EXPERTS_TILE_N(1) * FP16_BYTES + OUTPUT_PAD_BYTES)
#define EXPERTS_WIDE_BYTES(tile_m)                                                                             \
    (((tile_m) < EXPERTS_STRIP_ROWS ? (tile_m) : EXPERTS_STRIP_ROWS) * EXPERTS_WIDE_ROW_BYTES)
#define SMALL_OUTPUT_BYTES(tile_m)                                                                             \
    (EXPERTS_WIDE_BYTES(tile_m) > EXPERTS_STRIP_ROWS * EXPERTS_SHORT_ROW_BYTES                                 \
         ? EXPERTS_WIDE_BYTES(tile_m)                                                                          \
         : EXPERTS_STRIP_ROWS * EXPERTS_SHORT_ROW_BYTES)

/* In a large tile each warpgroup stages 32 rows of its own 64 columns. */
#define LARGE_COLUMNS         (2 * WGMMA_M_BLOCK_B_ROWS)
#define LARGE_WIDE_ROW_BYTES  (LARGE_COLUMNS * 4 + 16)
#define LARGE_SHORT_ROW_BYTES (LARGE_COLUMNS * FP16_BYTES + OUTPUT_PAD_BYTES)
#define LARGE_OUTPUT_BYTES    (EXPERTS_STRIP_ROWS * LARGE_WIDE_ROW_BYTES)

#define EXPERTS_OUTPUT_BYTES(tile_m, m_blocks)                                                                 \
    ((m_blocks) == 1 ? SMALL_OUTPUT_BYTES(tile_m) : EXPERTS_WARPGROUPS * LARGE_OUTPUT_BYTES)

/* The ring, room to align its start, staged outputs, and the table of experts. */
#define EXPERTS_SHARED_BYTES(tile_m, m_blocks, stages)                                                         \
    (SHARED_BYTES(EXPERTS_TILE_N(m_blocks), tile_m, stages) + EXPERTS_OUTPUT_BYTES(tile_m, m_blocks) +         \
     2 * CUSTOM_KERNEL_MAX_EXPERTS * 4)

/* ---- the dequantization of A ---- */

#define EXPERTS_DEQUANTIZE_THREADS 256

#endif
