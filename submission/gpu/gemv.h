/* The product of a matrix by one row, for host and device: groups of a grouped GEMM with m = 1 (gemv.cuh).
 *
 * A lane takes GEMV_LANE_K elements of GEMV_ROWS rows of B at a time.  The rows are those of an entry of a
 * scale tile, 32 apart, so that their blocked scale factors are one vector.  A CTA has consecutive entries of a
 * group, which its warps take in turns; `warps_k` warps share a row's K. */
#ifndef GPU_GEMV_H
#define GPU_GEMV_H

#include "../core/scale_layout.h"
#include "gpu_limits.h"

#define GEMV_WARPS        8
#define GEMV_THREADS      (GEMV_WARPS * WARP_THREADS)
#define GEMV_CTAS_AT_ONCE 2 /* of an SM, by their registers */
#define GEMV_ROWS         SCALE_ENTRY_WORDS
#define GEMV_LANE_K       32
#define GEMV_LANE_BYTES   (GEMV_LANE_K / 2)
#define GEMV_LANE_GROUPS  (GEMV_LANE_K / NVFP4_GROUP_ELEMS)
#define GEMV_STEP_LANES   WARP_THREADS
#define GEMV_GROUPS       16 /* of a launch */

#define GEMV_MOST_ENTRIES 64 /* of a CTA */
#define GEMV_AHEAD        2  /* parts that a lane loads before it needs them */

/* Shared memory: the row of A as halves, or as 8-bit integers, twice its codes' values, in planes of 16 bytes a
 * lane's part, so that a quarter of a warp reads consecutive vectors; its scale factors as fp32 numbers; then
 * the sums of each entry of the CTA. */
#define GEMV_ROW_BYTES(parts) ((int64_t)(parts) * (2 * GEMV_LANE_K + GEMV_LANE_GROUPS * (int)sizeof(float)))
#define GEMV_SUMS_BYTES(entries, warps_k) ((int64_t)(entries) * (warps_k) * GEMV_ROWS * (int)sizeof(float))

struct gemv_group {
    const uint8_t *a, *b;     /* codes: [k / 2], [n][k / 2] */
    const uint8_t *sfa, *sfb; /* in the call's layout */
    uint16_t *c;              /* [n], fp16 bits */
    int32_t n, parts;         /* parts: lanes' parts of K, k / GEMV_LANE_K */
    int64_t entries;          /* of scale tiles, with at least one row */
    int32_t first_cta, ctas;
};

/* Passed by value. */
struct gemv_params {
    struct gemv_group group[GEMV_GROUPS];
    int32_t groups, warps_k, scale_layout;
};

#endif
