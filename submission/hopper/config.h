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

/* name, warpgroups, slabs a warpgroup, tokens, CTAs a cluster (they share the tokens), stages */
#define HOPPER_CONFIGS(X) X(f64x128c1, 2, 1, 128, 1, 5)

struct hopper_config {
    const char *name;
    int warpgroups, slabs, tile_tokens, cluster, stages;
};

static inline int tile_features(const struct hopper_config *config) {
    return config->warpgroups * config->slabs * SLAB_FEATURES;
}

/* Rows of scale tiles that a CTA's features may touch: more than one where they can straddle a border. */
#define SCALE_TILE_ROWS_OF(features) (SCALE_TILE_ROWS % (features) == 0 ? 1 : 2)

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
};

/* The kernel that goes first: A to permuted fp16, and scale factors of B1 and B2 to padded blocks where needed.
 */
struct prepare_params {
    const uint8_t *a, *sfa, *sfb1, *sfb2;
    uint16_t *activations;                /* [l][m][k padded to STAGE_K] */
    uint8_t *blocked_sfb1, *blocked_sfb2; /* NULL: used as they are */
    int64_t m, n, k, l;
    int32_t scale_layout;
};

#endif
