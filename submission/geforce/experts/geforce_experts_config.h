/* The tiles of the products of experts (geforce_experts_gemm.cuh), for host and device.
 *
 * A tile is tile_m rows of A by 64 columns of a gated product, or 128 of a plain one.  All tiles sum K in the
 * same order, so a row's bits do not depend on the tile. */
#ifndef GEFORCE_EXPERTS_CONFIG_H
#define GEFORCE_EXPERTS_CONFIG_H

#include "../geforce_config.h"

#define EXPERTS_TILE_N 64 /* rows of B1, and of B2 */

/* name, rows of A, stages, MMA warps along the rows of A, and along those of B */
#define GEFORCE_EXPERTS_TILES(X)                                                                               \
    X(m16, 16, 7, 1, 4)                                                                                        \
    X(m64, 64, 5, 4, 2)                                                                                        \
    X(m128, 128, 4, 4, 2)

struct geforce_experts_tile {
    const char *name;
    int tile_m, stages, warps_m, warps_n;
};

/* Warps beside the one that copies codes, which copy scale factors word by word. */
#define EXPERTS_SCALE_WARPS (LOAD_WARPS - 1)

/* Registers a thread, if there are eight MMA warps: the others' words have addresses of their own. */
#define EXPERTS_LOAD_REGISTERS 40
#define EXPERTS_MMA_REGISTERS  232

/* The ring, room to align its start, and the table of experts. */
#define EXPERTS_SHARED_BYTES(tile_m, stages)                                                                   \
    (SHARED_BYTES(tile_m, EXPERTS_TILE_N, stages) + 2 * CUSTOM_KERNEL_MAX_EXPERTS * 4)

#endif
