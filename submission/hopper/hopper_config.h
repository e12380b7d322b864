/* The sizes of Hopper's wgmma kernels and the dual GEMM's tile configurations, for host and device.
 *
 * A CTA computes tile_m rows by tile_n columns of C: tile_m rows of A against tile_n rows of B1 and of B2.  The
 * kernels compute the transpose, C^T = B A^T, because only wgmma's A operand may come from registers, and B1
 * and B2 are dequantized there: rows of B are wgmma's M, rows of A its N.  A wgmma_m_block is one m64 of wgmma:
 * 32 rows of B1 and 32 rows of B2.  In a warp's fragment row g is from B1 and row g + 8 from B2, so that a
 * thread holds gate and up of the same output. */
#ifndef HOPPER_CONFIG_H
#define HOPPER_CONFIG_H

#include <stdint.h>

#include "../core/scale_layout.h"
#include "../gpu/gpu_limits.h"
#include "../gpu/gpu_tiles.h"

/* Variables of the environment: the name of the tile to use, and 0 for launches without PDL. */
#define HOPPER_CONFIG_VARIABLE "NVFP4_HOPPER_CONFIG"
#define HOPPER_PDL_VARIABLE    "NVFP4_HOPPER_DEPENDENT_LAUNCH"

#define WGMMA_M_BLOCK_B_ROWS 32  /* rows of B1, and of B2 */
#define STAGE_K              128 /* elements of K in a stage: 64 bytes of fp4 a row, two scale tiles */
#define STAGE_FP4_BYTES      (STAGE_K / 2)
#define STAGE_SCALE_TILES    (STAGE_K / SCALE_TILE_K)
#define STAGE_SCALE_BYTES    (STAGE_SCALE_TILES * SCALE_TILE_BYTES)
#define STAGE_ROW_SCALES     (STAGE_SCALE_TILES * SCALE_WORD_BYTES) /* bytes of a row's */
#define FP16_BYTES           2
#define A_BOX_BYTES          SWIZZLE_ROW_BYTES /* row of A in a TMA box: the widest that a swizzle allows */
#define A_BOX_K              (A_BOX_BYTES / FP16_BYTES)
#define A_BOXES              (STAGE_K / A_BOX_K)
#define OUTPUT_PAD_BYTES     16 /* between rows of the staged output: stmatrix without bank conflicts */

/* name (rows of A, rows of B, shares of K), warpgroups along the rows of B, m blocks of each warpgroup, rows of
 * A, stages, CTAs that share a tile's K, warpgroups that share a CTA's K, and how CTAs share the tiles */
enum hopper_sharing {
    TILE_EACH,       /* a CTA for each tile, or a cluster */
    TILE_AFTER_TILE, /* CTAs stay for tile after tile (hopper_persistent_gemm.cuh) */
    EQUAL_SHARES, /* of all tiles' stages, in the extended GEMM alone (extended/hopper_extended_shares.cuh) */
};

/* Of both GEMMs, of the dual GEMM alone, and of the extended GEMM alone. */
#define HOPPER_COMMON_CONFIGS(X)                                                                               \
    X(m128n64, 2, 1, 128, 5, 1, 1, TILE_EACH)                                                                  \
    X(m256n64, 2, 1, 256, 3, 1, 1, TILE_AFTER_TILE)                                                            \
    X(m128n96, 3, 1, 128, 4, 1, 1, TILE_EACH)                                                                  \
    X(m64n64k2, 2, 1, 64, 6, 2, 1, TILE_EACH)                                                                  \
    X(m128n64k2, 2, 1, 128, 5, 2, 1, TILE_EACH)                                                                \
    X(m96n64, 2, 1, 96, 6, 1, 1, TILE_EACH)                                                                    \
    X(m96n64k2, 2, 1, 96, 6, 2, 1, TILE_EACH)                                                                  \
    X(m192n96, 3, 1, 192, 3, 1, 1, TILE_EACH)                                                                  \
    X(m64n32k8, 1, 1, 64, 8, 2, 4, TILE_EACH)
#define HOPPER_DUAL_CONFIGS(X)                                                                                 \
    X(m128n96k2, 3, 1, 128, 4, 2, 1, TILE_EACH)                                                                \
    X(m64n128, 2, 2, 64, 6, 1, 1, TILE_EACH)                                                                   \
    X(m96n96, 3, 1, 96, 5, 1, 1, TILE_EACH)                                                                    \
    X(m192n128, 2, 2, 192, 3, 1, 1, TILE_EACH)                                                                 \
    X(m32n128, 4, 1, 32, 8, 1, 1, TILE_EACH)
#define HOPPER_EXTENDED_CONFIGS(X)                                                                             \
    X(m32n128s, 4, 1, 32, 8, 1, 1, EQUAL_SHARES)                                                               \
    X(m64n64s, 2, 1, 64, 7, 1, 1, EQUAL_SHARES)                                                                \
    X(m96n64s, 2, 1, 96, 6, 1, 1, EQUAL_SHARES)                                                                \
    X(m128n64s, 2, 1, 128, 5, 1, 1, EQUAL_SHARES)                                                              \
    X(m160n64s, 2, 1, 160, 4, 1, 1, EQUAL_SHARES)                                                              \
    X(m192n64s, 2, 1, 192, 3, 1, 1, EQUAL_SHARES)
#define HOPPER_CONFIGS(X) HOPPER_COMMON_CONFIGS(X) HOPPER_DUAL_CONFIGS(X) HOPPER_EXTENDED_CONFIGS(X)

enum { HOPPER_TILE_COUNT = GPU_COUNT_TILES(HOPPER_CONFIGS) };

struct hopper_config {
    const char *name;
    int warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k, sharing;
};

#define TILE_N(warpgroups_n, m_blocks) ((warpgroups_n) * (m_blocks) * WGMMA_M_BLOCK_B_ROWS)
/* One warpgroup more than the consumers': the producer's. */
#define CTA_THREADS(warpgroups) (((warpgroups) + 1) * WARPGROUP_THREADS)

/* The number of a tile's CTAs that run at once on `sms` SMs, one an SM, in whole clusters; at least one
 * cluster. */
#define CTAS_AT_ONCE(sms, cluster) (((sms) < (cluster) ? 1 : (sms) / (cluster)) * (int64_t)(cluster))

/* A in fp16; B1 and B2 in fp4; their scale factors. */
#define STAGE_BYTES(tile_n, tile_m)                                                                            \
    ((tile_m) * STAGE_K * FP16_BYTES + 2 * (tile_n) * STAGE_FP4_BYTES +                                        \
     2 * SCALE_TILES_TOUCHED(tile_n) * STAGE_SCALE_BYTES)

/* Scale tiles of a stage if both operands are rows of one tensor. */
#define JOINT_SCALE_TILES(tile_n) SCALE_TILES_TOUCHED(2 * (tile_n))

/* Stages, two barriers for each, and room to align their start. */
#define SHARED_BYTES(tile_n, tile_m, stages)                                                                   \
    ((stages) * (STAGE_BYTES(tile_n, tile_m) + 2 * MBARRIER_BYTES) + SWIZZLE_ATOM_BYTES)

/* The same and a strip of outputs for each warpgroup: OUTPUT_STRIP_ROWS rows of C by its columns of a part. The
 * linker aligns the start. */
#define SHARES_SHARED_BYTES(tile_n, tile_m, stages, warpgroups)                                                \
    ((stages) * (STAGE_BYTES(tile_n, tile_m) + 2 * MBARRIER_BYTES) +                                           \
     (warpgroups) * OUTPUT_STRIP_ROWS * OUTPUT_STRIP_BYTES)

static inline int hopper_tile_n(const struct hopper_config *config) {
    return TILE_N(config->warpgroups_n, config->m_blocks);
}

static inline int hopper_cta_threads(const struct hopper_config *config) {
    return CTA_THREADS(config->warpgroups_n * config->warpgroups_k);
}

static inline int hopper_shared_bytes(const struct hopper_config *config) {
    return SHARED_BYTES(hopper_tile_n(config), config->tile_m, config->stages);
}

/* ---- the dequantization of A ---- */

#define DEQUANTIZE_CHUNK_K     STAGE_K
#define DEQUANTIZE_UNITS       16 /* units of a chunk: a thread writes 16 of its 256 bytes */
#define DEQUANTIZE_MAX_THREADS MAX_CTA_THREADS
#define CHUNK_PARTS            4 /* threads of a chunk that write four units each (dequantize_box_parity) */

/* ---- persistent tiles (hopper_persistent_gemm.cuh) ---- */

/* Shared memory: a ring as above, a strip of outputs for each warpgroup (32 rows of C by the warpgroup's 32
 * columns), and a word, padded.  The linker aligns the start. */
#define OUTPUT_STRIP_ROWS  32
#define OUTPUT_STRIP_BYTES (WGMMA_M_BLOCK_B_ROWS * FP16_BYTES) /* bytes of a row */
#define PADDED_WORD_BYTES  16
#define PERSISTENT_SHARED_BYTES(tile_n, tile_m, stages, warpgroups)                                            \
    ((stages) * (STAGE_BYTES(tile_n, tile_m) + 2 * MBARRIER_BYTES) +                                           \
     (warpgroups) * OUTPUT_STRIP_ROWS * OUTPUT_STRIP_BYTES + PADDED_WORD_BYTES)

/* The CTAs dequantize A themselves, item by item; an item is a part of K of a few rows.  The rows of tiles that
 * run at once are a band.  Tiles need the parts of a band in order, then the next band's.  The kernel before
 * the GEMM makes the first parts of the first band: they take no longer than that kernel's start, and the first
 * tiles need not wait. */
#define A_PART_STAGES  (WARP_THREADS / CHUNK_PARTS) /* a warp takes a row's part at once */
#define A_ITEM_ROWS    4
#define A_PARTS_BEFORE 2
/* Most rows of tiles in a band, if all tiles run in one wave and if not: with more rows, tiles need A sooner
 * than the GEMM's warps make it (measured:H200, round 148). */
#define A_BAND_TILES_ALONE 12
#define A_BAND_TILES       17

#endif
