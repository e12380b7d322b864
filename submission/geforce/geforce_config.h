/* The GeForce kernels' tile configurations (sm_120a, sm_121a), for host and device.
 *
 * A CTA computes tiles of tile_m rows by tile_n columns of C, one after another: tile_m rows of A against
 * tile_n rows of B1 and of B2.  Its MMA warps divide a tile: warps_m along the rows of A, warps_n along those
 * of B.
 *
 * A stage holds 128 of K: a row's 64 bytes of fp4 are one row of the 64-byte swizzle.  256 of K would halve the
 * number of copies, but then 99 KB hold only two stages, and a stage's copies have to hide behind one stage's
 * MMAs; with 128 of K three to eight stages are in flight. */
#ifndef GEFORCE_CONFIG_H
#define GEFORCE_CONFIG_H

#include <stdint.h>

#include "../core/scale_layout.h"
#include "../gpu/gpu_limits.h"

/* Variables of the environment: the name of the tile to use, and 0 for launches without PDL. */
#define GEFORCE_CONFIG_VARIABLE "NVFP4_GEFORCE_CONFIG"
#define GEFORCE_PDL_VARIABLE    "NVFP4_GEFORCE_DEPENDENT_LAUNCH"

#define STAGE_K           128 /* elements of K in a stage */
#define STAGE_FP4_BYTES   (STAGE_K / 2)
#define STEP_K            64 /* HW: K of one mma.sync of 4-bit elements (PTX ISA) */
#define STAGE_STEPS       (STAGE_K / STEP_K)
#define STAGE_SCALE_BYTES (STAGE_STEPS * SCALE_TILE_BYTES) /* scale factors of 128 rows: a tile a step */
#define MMA_M             16                               /* HW: rows of one mma.sync */
#define MMA_N             8

/* name, rows of A, rows of B, stages, MMA warps along the rows of A, and along those of B */
#define GEFORCE_CONFIGS(X)                                                                                     \
    X(m128n128, 128, 128, 3, 2, 4)                                                                             \
    X(m128n64, 128, 64, 5, 4, 2)                                                                               \
    X(m128n48, 128, 48, 5, 4, 2)                                                                               \
    X(m64n32, 64, 32, 8, 4, 2)

struct geforce_config {
    const char *name;
    int tile_m, tile_n, stages, warps_m, warps_n;
};

/* Registers a thread.  HW: warps take registers from their quarter of the SM, so eight MMA warps and one load
 * warp get no more than twelve warps would, 168: too few for 128 accumulators.  So the load warp has a
 * warpgroup of its own, which gives most of its registers to the MMA warps (setmaxnreg). */
#define LOAD_WARPS                    4 /* one of them copies */
#define LOAD_REGISTERS                24
#define MMA_REGISTERS                 240
#define CTA_THREADS(warps_m, warps_n) (((warps_m) * (warps_n) + LOAD_WARPS) * WARP_THREADS)
/* Registers that ptxas gives each thread of a kernel with `threads` threads. */
#define LAUNCH_REGISTERS(threads) (MAX_CTA_REGISTERS / (threads) / REGISTER_GRANULE * REGISTER_GRANULE)

/* A, B1 and B2 in fp4, then their scale factors. */
#define STAGE_BYTES(tile_m, tile_n)                                                                            \
    (((tile_m) + 2 * (tile_n)) * STAGE_FP4_BYTES + (1 + 2 * SCALE_TILES_TOUCHED(tile_n)) * STAGE_SCALE_BYTES)

/* Stages, two barriers for each, and room to align their start. */
#define SHARED_BYTES(tile_m, tile_n, stages)                                                                   \
    ((stages) * (STAGE_BYTES(tile_m, tile_n) + 2 * MBARRIER_BYTES) + SWIZZLE_ATOM_BYTES)

static inline int geforce_shared_bytes(const struct geforce_config *config) {
    return SHARED_BYTES(config->tile_m, config->tile_n, config->stages);
}

static inline int geforce_cta_threads(const struct geforce_config *config) {
    return CTA_THREADS(config->warps_m, config->warps_n);
}

#endif
