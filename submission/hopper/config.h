/* The Hopper kernel's tile configurations and its parameters, for host and device.
 *
 * A CTA computes tile_features x tile_tokens of C.  "Features" are rows of B1 and B2 (columns of C), "tokens"
 * rows of A (rows of C).  The product is taken transposed: features are wgmma's M, tokens its N.  A slab is one
 * m64 of wgmma: 32 features, fragment row g of a warp from B1 and row g + 8 from B2, so that a thread holds
 * gate and up of the same output. */
#ifndef HOPPER_CONFIG_H
#define HOPPER_CONFIG_H

#include <stdint.h>

#include "../core/backend.h"

#define SLAB_FEATURES     32
#define WARPGROUP_THREADS 128
#define STAGE_K           128 /* elements of K in a stage: 64 bytes of codes a row, two scale tiles */
#define STAGE_CODE_BYTES  (STAGE_K / 2)
#define STAGE_SCALE_BYTES (STAGE_K / NVFP4_GROUP_ELEMS / SCALE_TILE_GROUPS * SCALE_TILE_BYTES)
#define ACTIVATION_BOX_K  64 /* HW: 128 bytes of fp16, the widest swizzle row (CUDA driver API, tensor maps) */
#define ACTIVATION_BOX_BYTES (ACTIVATION_BOX_K * 2)
#define ACTIVATION_BOXES     (STAGE_K / ACTIVATION_BOX_K)
#define SHARED_ALIGNMENT     1024   /* HW: of a 128-byte swizzle atom (PTX ISA, shared-memory descriptor) */
#define MAX_SHARED_BYTES     232448 /* HW: 227 KB a CTA on compute capability 9.0 (CUDA programming guide) */
#define OUTPUT_PAD_BYTES     16     /* between rows of the staged output: stmatrix without bank conflicts */

/* name, warpgroups, slabs a warpgroup, tokens, stages, CTAs that share a tile's K */
#define HOPPER_CONFIGS(X)                                                                                      \
    X(f64x128, 2, 1, 128, 5, 1)                                                                                \
    X(f64x256, 2, 1, 256, 3, 1)                                                                                \
    X(f96x128, 3, 1, 128, 4, 1)                                                                                \
    X(f96x64, 3, 1, 64, 6, 1)                                                                                  \
    X(f64x256k2, 2, 1, 256, 3, 2)                                                                              \
    X(f96x128k2, 3, 1, 128, 4, 2)

#define MAX_EXPAND_THREADS   1024 /* HW: of a CTA (CUDA programming guide) */
#define UNITS_OF_CHUNK       16   /* a thread of the expansion writes 16 of a chunk's 256 bytes */
#define BLOCK_SCALES_THREADS 256

struct hopper_config {
    const char *name;
    int warpgroups, slabs, tile_tokens, stages, splits;
};

static inline int tile_features(const struct hopper_config *config) {
    return config->warpgroups * config->slabs * SLAB_FEATURES;
}

/* Rows of scale tiles that a CTA's features may touch: more than one where they can straddle a border. */
#define SCALE_TILE_ROWS_OF(features) (SCALE_TILE_ROWS % (features) == 0 ? 1 : 2)

static inline int block_threads(const struct hopper_config *config) {
    return (config->warpgroups + 1) * WARPGROUP_THREADS;
}

static inline int stage_bytes(const struct hopper_config *config) {
    int features = tile_features(config);
    return config->tile_tokens * STAGE_K * 2 + 2 * features * STAGE_CODE_BYTES +
           2 * SCALE_TILE_ROWS_OF(features) * STAGE_SCALE_BYTES;
}

/* Two barriers a stage behind the stages, and room to align their start. */
static inline int shared_bytes(const struct hopper_config *config) {
    return config->stages * (stage_bytes(config) + 2 * 8) + SHARED_ALIGNMENT;
}

/* How many rows of each operand exist, and where the rest is.  Passed by value. */
struct dual_gemm_params {
    const uint8_t *sfb1, *sfb2; /* blocked, K padded to a multiple of STAGE_K */
    uint16_t *c;
    int64_t scale_batch_bytes;
    int32_t m, n;
    int32_t stages_k;         /* K in stages */
    int32_t scale_tiles_k;    /* scale tiles along K in memory */
    int32_t scales_made_here; /* by the kernel before this one: wait for it before reading them */
    int32_t tiles_x, token_tiles; /* of the grid: tiles along N, and along M */
    int32_t expanders;            /* CTAs in front of the tiles'; 0: activations come from the kernel before */
    int32_t own;
    const uint8_t *a, *sfa;       /* for expanders */
    uint8_t *images;
    uint64_t *ready, stamp;
};

/* The expansion of A.  Scale factors of a row start at the sum of its batch's, tile's, quarter's and row's
 * steps. */
struct expand_params {
    const uint8_t *a, *sfa;
    uint8_t *images; /* [l][token tile][stage][box][token][64 elements of K, 16 bytes permuted as by the swizzle] */
    int64_t code_row_bytes, scale_batch_bytes, scale_tile_step;
    uint32_t scale_quarter_step, scale_row_step;
    uint32_t scale_chunk_step, scale_half_step; /* to the next 128 elements of K, and the next 64 */
    uint32_t tile_tokens, token_tiles; /* of a batch */
    uint32_t units, whole_chunks; /* of a row: 16 bytes written; 128 elements of K, rounded down */
};

/* Scale factors of B1 and B2 to padded blocks. */
struct block_scales_params {
    const uint8_t *sfb1, *sfb2;
    uint8_t *blocked_sfb1, *blocked_sfb2;
    int64_t n, k, l;
    int32_t scale_layout;
};

#endif
