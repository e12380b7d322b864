/* The compiled kernels, for the host side: their parameters, and functions that return them. */
#ifndef HOPPER_KERNELS_H
#define HOPPER_KERNELS_H

#include <cuda.h>
#include <stdbool.h>

#include "../gpu/permute_scales.h"
#include "hopper_config.h"
#include "narrow/hopper_narrow_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All parameters are passed by value. */

/* ---- the dual GEMM ---- */

/* Sizes of the operands, and addresses of the data without a tensor map. */
struct hopper_dual_gemm_params {
    const uint8_t *sfb1, *sfb2; /* blocked, K padded to a multiple of STAGE_K */
    uint16_t *c;                /* [batch][m][n], fp16 bits */
    int64_t scale_batch_bytes;
    int32_t m, n;
    int32_t first_n;                   /* column of C that this launch starts at: a multiple of 128 */
    int32_t a_box_rows;                /* rows of A that a tile copies: tile_m, or all of A if it has fewer */
    uint32_t stage_tx_bytes;           /* bytes that the copies bring to a stage */
    int32_t stages_k;                  /* K in stages */
    int32_t scale_tiles_k;             /* scale tiles along K in memory */
    int32_t scales_by_previous_kernel; /* permuted: wait for that kernel before reading them */
};

/* The dequantization of A.  The scale factors of a row and a chunk start at the sum of the steps of its batch,
 * tile, quarter of a tile, row and chunk, all in bytes. */
struct dequantize_params {
    const uint8_t *a, *sfa;
    uint16_t *a_fp16; /* [batch][m][k padded to STAGE_K], permuted (hopper_dequantize.cuh) */
    int64_t fp4_row_bytes, scale_batch_bytes, scale_tile_step;
    uint32_t scale_quarter_step, scale_row_step;
    uint32_t scale_chunk_step, scale_half_step; /* steps to the next 128 elements of K, and the next 64 */
    uint32_t row_units, full_chunks;            /* units of 16 bytes written a row; chunks that K fills */
};

/* Both in one launch: the dequantization of `rows` rows of each batch of A, a row by `parts` CTAs, and the
 * permutation of B's scale factors. */
struct hopper_prepare_params {
    struct dequantize_params a;
    struct permute_scales_params scales;
    uint32_t *counters; /* words to set to zero */
    uint32_t count;
    uint32_t rows, parts, a_ctas;
    uint32_t scale_ctas_k, scale_tile_rows; /* CTAs along K; rows of scale tiles of the largest tensor */
};

/* The persistent GEMM.  If there are items, another kernel has dequantized the first parts of the first band of
 * A, else all of A. */
struct hopper_persistent_params {
    struct hopper_dual_gemm_params gemm;
    int32_t tiles_n, tiles_m, tiles; /* along the launch's columns of C, along A's rows; of all batches */
    int32_t row_tiles;               /* rows of tiles of all batches, or 0 if no tile waits for an item */
    int32_t band_tiles;              /* rows of tiles in a band */
    int32_t parts, parts_before;     /* parts of K; parts that another kernel dequantizes */
    uint32_t items;                  /* counted in whole tiles and bands */
    uint32_t *claimed, *ready; /* items claimed; items ready of each [row tile][part]: zero before the launch */
    struct dequantize_params a;
};

/* CTAs with equal shares: the tiles before shared_tiles have their stages in a line of `units`. */
struct hopper_shares_params {
    int32_t tiles_m, tiles, shared_tiles, units;
    uint32_t *arrivals; /* [shared tile], zero before the launch: CTAs whose sums are there */
    void *sums;         /* [CTA]: accumulators of a tile whose end another CTA has */
};

/* A narrow tile's GEMM.  The scale factors of a row and a word start at the sum of the steps of its tile,
 * quarter of a tile, row and word, in bytes; a word is the four scale factors of 64 elements of K. */
struct hopper_narrow_params {
    const uint8_t *a, *b1, *b2, *sfa, *sfb1, *sfb2;
    uint16_t *c; /* [batch][m][n], fp16 bits */
    int64_t fp4_row_bytes, scale_tile_step, sfa_batch_bytes, sfb_batch_bytes;
    uint32_t scale_quarter_step, scale_row_step, scale_word_step;
    int32_t m, n, scale_words; /* scale_words: of a row */
    struct hopper_narrow_layout layout;
};

/* The kernel of configuration number `index`, as the CUDA runtime knows it.  Its parameters: the tensor maps of
 * A in fp16, B1 and B2 (boxes of a stage: [batch][row][K]), and struct hopper_dual_gemm_params. */
const void *hopper_dual_gemm_kernel(int index);
/* The same with a CTA an SM and struct hopper_persistent_params; NULL unless the tile is persistent. */
const void *hopper_persistent_dual_gemm_kernel(int index);
/* The kernel of narrow tile number `index` whose K is shared by `split_k` CTAs, with struct
 * hopper_narrow_params. */
const void *hopper_narrow_dual_gemm_kernel(int index, int split_k);
const void *hopper_dequantize_kernel(void); /* struct dequantize_params */
/* Its parameters: struct dequantize_params, an array of words to set to zero, and their number. */
const void *hopper_dequantize_first_kernel(void);
const void *hopper_prepare_kernel(void);        /* struct hopper_prepare_params */
const void *hopper_gemv_kernel(void);           /* struct gemv_params */
const void *hopper_permute_scales_kernel(void); /* struct permute_scales_params */

/* ---- the grouped GEMM ---- */

/* Groups of one launch, which are the kernel's parameters.  Few groups have a kernel of their own, since every
 * launch copies all of a kernel's parameters. */
#define HOPPER_FEW_GROUPS  8
#define HOPPER_MOST_GROUPS 64

/* A group.  Its tiles have the numbers from first_tile on, those of the same rows of B next to each other.
 * `gemm`'s sfb2, first_n, a_box_rows and stage_tx_bytes are not used. */
struct hopper_group {
    CUtensorMap b; /* the dual GEMM's map of B1, with l = 1 and boxes of all rows of a tile */
    struct hopper_dual_gemm_params gemm;
    const uint8_t *a; /* fp16 (hopper_grouped_config.h) */
    int32_t a_rows;   /* padded to whole eights */
    int32_t first_tile, tiles_m;
    int32_t tile; /* number in HOPPER_GROUPED_TILES, and that tile's columns */
    int32_t tile_m, stages;
    int32_t parts; /* CTAs that share a tile's K, next to each other: 1 or 2 */
    /* With two parts: a word for each tile, zero before the launch, and the accumulators of one part. */
    uint32_t *arrivals;
    void *sums;
};

struct hopper_few_groups {
    struct hopper_group group[HOPPER_FEW_GROUPS];
    int32_t groups;
};

struct hopper_many_groups {
    struct hopper_group group[HOPPER_MOST_GROUPS];
    int32_t groups;
};

/* The dequantization of every group's A. */
struct hopper_few_dequantize_params {
    struct dequantize_params group[HOPPER_FEW_GROUPS];
    int32_t rows[HOPPER_FEW_GROUPS];
    uint32_t *arrivals; /* words to set to zero for the GEMM */
    int32_t arrivals_count;
};

struct hopper_many_dequantize_params {
    struct dequantize_params group[HOPPER_MOST_GROUPS];
    int32_t rows[HOPPER_MOST_GROUPS];
    uint32_t *arrivals;
    int32_t arrivals_count;
};

/* The grouped GEMM for few or many groups, with or without groups that share K.  Its parameters: struct
 * hopper_few_groups or hopper_many_groups. */
const void *hopper_grouped_gemm_kernel(bool few, bool shares);
/* Its parameters: struct hopper_few_dequantize_params or hopper_many_dequantize_params. */
const void *hopper_grouped_dequantize_kernel(bool few, bool shares);

#ifdef __cplusplus
}
#endif

#endif
