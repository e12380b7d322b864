/* The Hopper kernels' tile configurations and parameters, for host and device.
 *
 * A CTA computes tile_m rows by tile_n columns of C: tile_m rows of A against tile_n rows of B1 and of B2.  The
 * products are taken transposed, C^T = B A^T: rows of B are wgmma's M, since its A operand alone may come from
 * registers, where B1 and B2 are dequantized; rows of A are its N.  A wgmma_m_block is one m64 of wgmma: 32
 * rows of B1 and the same of B2, fragment row g of a warp from B1 and row g + 8 from B2, so that a thread holds
 * gate and up of the same output. */
#ifndef HOPPER_CONFIG_H
#define HOPPER_CONFIG_H

#include <stdint.h>

#include "../core/scale_layout.h"
#include "../gpu/gpu_limits.h"

/* Variables of the environment: the name of the tile to use, and 0 for launches without PDL. */
#define HOPPER_CONFIG_VARIABLE "NVFP4_HOPPER_CONFIG"
#define HOPPER_PDL_VARIABLE    "NVFP4_HOPPER_DEPENDENT_LAUNCH"

#define WGMMA_M_BLOCK_B_ROWS 32  /* of B1, and of B2 */
#define STAGE_K              128 /* elements of K in a stage: 64 bytes of fp4 a row, two scale tiles */
#define STAGE_FP4_BYTES      (STAGE_K / 2)
#define STAGE_SCALE_TILES    (STAGE_K / SCALE_TILE_K)
#define STAGE_SCALE_BYTES    (STAGE_SCALE_TILES * SCALE_TILE_BYTES)
#define FP16_BYTES           2
#define A_BOX_BYTES          SWIZZLE_ROW_BYTES /* of a row of A in a box: the widest that a swizzle allows */
#define A_BOX_K              (A_BOX_BYTES / FP16_BYTES)
#define A_BOXES              (STAGE_K / A_BOX_K)
#define OUTPUT_PAD_BYTES     16 /* between rows of the staged output: stmatrix without bank conflicts */

/* name (rows of A, rows of B, shares of K), warpgroups along the rows of B, m blocks of each warpgroup, rows of
 * A, stages, CTAs that share a tile's K, warpgroups that share a CTA's K, and whether CTAs stay for tile after
 * tile (hopper_persistent_gemm.cuh) */
#define HOPPER_CONFIGS(X)                                                                                      \
    X(m128n64, 2, 1, 128, 5, 1, 1, 0)                                                                          \
    X(m256n64, 2, 1, 256, 3, 1, 1, 1)                                                                          \
    X(m128n96, 3, 1, 128, 4, 1, 1, 0)                                                                          \
    X(m128n96k2, 3, 1, 128, 4, 2, 1, 0)                                                                        \
    X(m64n64k2, 2, 1, 64, 6, 2, 1, 0)                                                                          \
    X(m128n64k2, 2, 1, 128, 5, 2, 1, 0)                                                                        \
    X(m64n128, 2, 2, 64, 6, 1, 1, 0)                                                                           \
    X(m96n64, 2, 1, 96, 6, 1, 1, 0)                                                                            \
    X(m96n64k2, 2, 1, 96, 6, 2, 1, 0)                                                                          \
    X(m96n96, 3, 1, 96, 5, 1, 1, 0)                                                                            \
    X(m192n96, 3, 1, 192, 3, 1, 1, 0)                                                                          \
    X(m192n128, 2, 2, 192, 3, 1, 1, 0)                                                                         \
    X(m32n128, 4, 1, 32, 8, 1, 1, 0)                                                                           \
    X(m64n32k8, 1, 1, 64, 8, 2, 4, 0)

struct hopper_config {
    const char *name;
    int warpgroups_n, m_blocks, tile_m, stages, split_k, warpgroups_k, persistent;
};

#define TILE_N(warpgroups_n, m_blocks) ((warpgroups_n) * (m_blocks) * WGMMA_M_BLOCK_B_ROWS)
#define CTA_THREADS(warpgroups)        (((warpgroups) + 1) * WARPGROUP_THREADS) /* a producer beside them */

/* CTAs that run at a time where so many make a cluster: a chip of fewer SMs than that runs one cluster. */
#define CTAS_AT_ONCE(sms, cluster) (((sms) < (cluster) ? 1 : (sms) / (cluster)) * (int64_t)(cluster))

/* A in fp16; B1, B2, and their scale factors. */
#define STAGE_BYTES(tile_n, tile_m)                                                                            \
    ((tile_m) * STAGE_K * FP16_BYTES + 2 * (tile_n) * STAGE_FP4_BYTES +                                        \
     2 * SCALE_TILES_TOUCHED(tile_n) * STAGE_SCALE_BYTES)

/* Two barriers a stage after the stages, and room to align their start. */
#define SHARED_BYTES(tile_n, tile_m, stages)                                                                   \
    ((stages) * (STAGE_BYTES(tile_n, tile_m) + 2 * MBARRIER_BYTES) + SWIZZLE_ATOM_BYTES)

/* The persistent kernel's, which needs no room to align their start: a ring as above, of each warpgroup a chunk
 * of outputs, 32 rows of C by its 32 columns, and a word with its padding. */
#define OUTPUT_CHUNK_ROWS  32
#define OUTPUT_CHUNK_BYTES (WGMMA_M_BLOCK_B_ROWS * FP16_BYTES) /* of a row */
#define PADDED_WORD_BYTES  16
#define PERSISTENT_SHARED_BYTES(tile_n, tile_m, stages, warpgroups)                                            \
    ((stages) * (STAGE_BYTES(tile_n, tile_m) + 2 * MBARRIER_BYTES) +                                           \
     (warpgroups) * OUTPUT_CHUNK_ROWS * OUTPUT_CHUNK_BYTES + PADDED_WORD_BYTES)

static inline int hopper_tile_n(const struct hopper_config *config) {
    return TILE_N(config->warpgroups_n, config->m_blocks);
}

static inline int hopper_cta_threads(const struct hopper_config *config) {
    return CTA_THREADS(config->warpgroups_n * config->warpgroups_k);
}

static inline int hopper_shared_bytes(const struct hopper_config *config) {
    return SHARED_BYTES(hopper_tile_n(config), config->tile_m, config->stages);
}

/* ---- narrow tiles: few rows of A (hopper_narrow_dual_gemm.cuh) ---- */

/* A warp takes `blocks` times NARROW_BLOCK_B_ROWS rows of B1 and the same of B2 against all of the tile's rows
 * of A: of each block 8 rows of B1 and 8 of B2 are the 16 rows of a fragment.  The warps of a team take the
 * same steps of K: one warp multiplies alone (mma.sync), a warpgroup together (wgmma). */
#define NARROW_BLOCK_B_ROWS 8
#define NARROW_STEP_K       128 /* elements of K that a warp takes at a time: 32 a lane, 16 bytes of fp4 */
#define NARROW_STEP_BYTES   (NARROW_STEP_K / 2)
#define NARROW_MAX_WARPS    16 /* of a CTA: four for each of an SM's schedulers */
#define NARROW_MAX_SPLIT_K  2  /* pairs of CTAs are the largest clusters of which every SM holds a part */
#define NARROW_A_ROWS       8  /* of a block of A: mma.sync's N, and a core matrix's rows */
#define NARROW_WARPGROUP    4  /* warps of a team that multiplies by wgmma */

/* name (a tile's rows of A), rows of A, stages of a warp's ring, units of A's dequantization a thread, blocks
 * of a warp, warps of a team */
#define HOPPER_NARROW_CONFIGS(X)                                                                               \
    X(m8, 8, 3, 4, 2, 1)                                                                                       \
    X(m16, 16, 2, 4, 1, NARROW_WARPGROUP)                                                                      \
    X(m16warps, 16, 2, 4, 2, 1)                                                                                \
    X(m32, 32, 2, 2, 1, NARROW_WARPGROUP)

struct hopper_narrow_config {
    const char *name;
    int tile_m, stages, a_units, blocks, team;
};

/* Bytes of shared memory.  A block of A: 8 rows by NARROW_STEP_K in fp16, as fragments or as core matrices.  A
 * stage of a warp: of each of a lane's rows 16 bytes of fp4 and a word of scale factors.  A vector of partial
 * sums: a float4 of each lane.  The mbarrier comes first. */
#define NARROW_A_BLOCK_BYTES       (NARROW_A_ROWS * NARROW_STEP_K * FP16_BYTES)
#define NARROW_FP4_BYTES           (WARP_THREADS * 16)
#define NARROW_SCALE_BYTES         (WARP_THREADS * SCALE_WORD_BYTES)
#define NARROW_STAGE_BYTES(blocks) (2 * (blocks) * (NARROW_FP4_BYTES + NARROW_SCALE_BYTES))
#define NARROW_VECTOR_BYTES        (WARP_THREADS * 16)
#define NARROW_A_OFFSET            128
#define L2_LINE_BYTES              128

/* How a problem is shared out, and where a CTA's shared memory holds what: chosen by the host for each problem
 * (hopper_narrow_selection.h). */
struct hopper_narrow_layout {
    int32_t split_k;          /* CTAs of a cluster that share a tile's K */
    int32_t warps_n, warps_k; /* of a CTA, along the rows of B and along K */
    int32_t phase_steps;      /* of K, whose A is in shared memory at a time: a multiple of warps_k */
    int32_t ring_offset, sums_offset;
    int32_t sums_overlay; /* the partial sums lie over A and the ring */
    int32_t shared_bytes;
};

/* The operands and their scale factors, which start at the sum of a row's, tile's and word's steps, in bytes; a
 * word are the four scale factors of 64 elements of K.  Passed by value. */
struct hopper_narrow_params {
    const uint8_t *a, *b1, *b2, *sfa, *sfb1, *sfb2;
    uint16_t *c; /* [batch][m][n], fp16 bits */
    int64_t fp4_row_bytes, scale_tile_step, sfa_batch_bytes, sfb_batch_bytes;
    uint32_t scale_quarter_step, scale_row_step, scale_word_step;
    int32_t m, n, scale_words; /* of a row */
    struct hopper_narrow_layout layout;
};

/* How many rows of each operand exist, and where what no tensor map describes is.  Passed by value. */
struct hopper_dual_gemm_params {
    const uint8_t *sfb1, *sfb2; /* blocked, K padded to a multiple of STAGE_K */
    uint16_t *c;                /* [batch][m][n], fp16 bits */
    int64_t scale_batch_bytes;
    int32_t m, n;
    int32_t first_n;                   /* column of C that this launch starts at: a multiple of 128 */
    int32_t a_box_rows;                /* of A that a tile copies: all of its rows, or all that there are */
    uint32_t stage_tx_bytes;           /* that the copies into a stage bring */
    int32_t stages_k;                  /* K in stages */
    int32_t scale_tiles_k;             /* scale tiles along K in memory */
    int32_t scales_by_previous_kernel; /* permuted: wait for it before reading them */
};

/* ---- the grouped GEMM (hopper_grouped_gemm.cuh) ---- */

/* A CTA computes tile_m rows by GROUPED_COLUMNS columns of a group's C.  The dual GEMM's B1 and B2 are the
 * first and the second half of its rows of B, which so fill a scale tile.  name, rows of A, stages */
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

#define GROUPED_WARPGROUPS 2
#define GROUPED_COLUMNS    (2 * TILE_N(GROUPED_WARPGROUPS, 1))

/* A in fp16, as it lies in the stages: [stage of K][8 rows][A_BOX_K of K][row][128 bytes, swizzled], rows in
 * whole eights, so that all rows of a tile are one copy. */
#define GROUPED_A_ROW_BYTES (STAGE_K * FP16_BYTES)

struct hopper_grouped_tile {
    const char *name;
    int tile_m, stages;
};

/* The scale factors of B come once. */
#define GROUPED_STAGE_TX_BYTES(a_rows) (STAGE_BYTES(GROUPED_COLUMNS / 2, a_rows) - STAGE_SCALE_BYTES)

#define DEQUANTIZE_CHUNK_K     STAGE_K
#define DEQUANTIZE_UNITS       16 /* of a chunk: a thread writes 16 of its 256 bytes */
#define DEQUANTIZE_MAX_THREADS MAX_CTA_THREADS
#define CHUNK_PARTS            4 /* threads of a chunk that write four units each (dequantize_box_parity) */

#define GROUPED_DEQUANTIZE_MAX_THREADS 512

/* The dequantization of A.  The scale factors of a row and a chunk start at the sum of its batch's, tile's,
 * quarter of a tile's, row's and chunk's steps, all in bytes. */
struct dequantize_params {
    const uint8_t *a, *sfa;
    uint16_t *a_fp16; /* [batch][m][k padded to STAGE_K], permuted (hopper_dequantize.cuh) */
    int64_t fp4_row_bytes, scale_batch_bytes, scale_tile_step;
    uint32_t scale_quarter_step, scale_row_step;
    uint32_t scale_chunk_step, scale_half_step; /* to the next 128 elements of K, and the next 64 */
    uint32_t row_units, full_chunks;            /* of a row: 16 bytes written; chunks that K fills */
};

/* ---- the persistent GEMM (hopper_persistent_gemm.cuh) ---- */

/* Its CTAs dequantize A themselves, by items: a part of K of some rows.  The rows of tiles that run at a time
 * are a band; tiles need the parts of a band one after another, then the next band's.  The first parts of the
 * first band are made by the kernel before: its start is what that one costs, and a tile finds what it begins
 * with. */
#define A_PART_STAGES  (WARP_THREADS / CHUNK_PARTS) /* a warp takes a row's part at once */
#define A_ITEM_ROWS    4
#define A_PARTS_BEFORE 2
/* Rows of tiles that run at a time, at most, in one wave and in several: of more, A is due sooner than the
 * GEMM's warps make it (measured:H200, round 148). */
#define A_BAND_TILES_ALONE 12
#define A_BAND_TILES       17

/* Tiles of its columns of C, of all rows of A, and of all batches.  What of A another kernel dequantizes
 * before: of the first band the first parts, or where there are no items, all. */
struct hopper_persistent_params {
    struct hopper_dual_gemm_params gemm;
    int32_t tiles_n, tiles_m, tiles;
    int32_t row_tiles;           /* of all batches, or 0 where no tile waits for an item */
    int32_t band_tiles;          /* of them, in a band */
    int32_t parts, parts_before; /* of K; of them, dequantized before */
    uint32_t items;              /* rows are counted in whole tiles and bands */
    uint32_t *claimed, *ready;   /* items in all, and of each [row tile][part]: zero before the launch */
    struct dequantize_params a;
};

#endif
