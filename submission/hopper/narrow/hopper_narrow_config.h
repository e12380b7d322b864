/* The narrow tiles, for few rows of A (hopper_narrow_dual_gemm.cuh), for host and device.
 *
 * A warp multiplies `blocks` times NARROW_BLOCK_B_ROWS rows of B1 and as many of B2 by all of the tile's rows
 * of A: 8 rows of B1 and 8 of B2 make the 16 rows of a fragment.  The warps of a team take the same steps of K:
 * a single warp multiplies by mma.sync, a warpgroup by wgmma. */
#ifndef HOPPER_NARROW_CONFIG_H
#define HOPPER_NARROW_CONFIG_H

#include "../../custom_kernel.h"
#include "../hopper_config.h"

#define NARROW_BLOCK_B_ROWS 8
#define NARROW_STEP_K       128 /* elements of K that a warp takes at a time: 32 a lane, 16 bytes of fp4 */
#define NARROW_STEP_BYTES   (NARROW_STEP_K / 2)
#define NARROW_MAX_WARPS    16 /* warps of a CTA: four for each of an SM's schedulers */
#define NARROW_MAX_SPLIT_K  MAX_CLUSTER_CTAS
#define NARROW_MOST_ROWS    128 /* of A, up to which narrow tiles are tried */
#define NARROW_PAIR         2   /* CTAs of the smallest cluster: its pairs fill all SMs */
#define NARROW_A_ROWS       8   /* rows of a block of A: mma.sync's N, and a core matrix's rows */
#define NARROW_WARPGROUP    4   /* warps of a team that multiplies by wgmma */

/* name (a tile's rows of A), rows of A, stages of a warp's ring, units of A that a thread dequantizes, blocks
 * of a warp, warps of a team */
#define HOPPER_NARROW_CONFIGS(X)                                                                               \
    X(m8, 8, 3, 4, 2, 1)                                                                                       \
    X(m16, 16, 2, 4, 1, NARROW_WARPGROUP)                                                                      \
    X(m16warps, 16, 2, 4, 2, 1)                                                                                \
    X(m32, 32, 2, 2, 1, NARROW_WARPGROUP)

/* The SMs on which clusters of more than two CTAs, one an SM, run at once, where the driver does not say.
 * measured:H200: 96 of 132 take one wave with any cluster; more do with some, and not on every chip. */
#define SMS_OF_LARGE_CLUSTERS(sms) ((sms) * 3 / 4)

/* i / split_k is i * NARROW_INVERSE(split_k) >> NARROW_INVERSE_BITS for i below 2^13: a kernel's division by a
 * run-time number takes some 20 instructions. */
#define NARROW_INVERSE_BITS     16
#define NARROW_INVERSE(split_k) (((1 << NARROW_INVERSE_BITS) + (split_k) - 1) / (split_k))

/* Units of A that a thread holds: an element of 16 bits takes four times the registers. */
#define NARROW_A_UNITS(a_type, a_units) ((a_type) != CUSTOM_KERNEL_A_NVFP4 && (a_units) > 2 ? 2 : (a_units))

struct hopper_narrow_config {
    const char *name;
    int tile_m, stages, a_units, blocks, team;
};

/* Bytes of shared memory.  A block of A: 8 rows by NARROW_STEP_K in fp16, as fragments or as core matrices.  A
 * stage of a warp: for each of a lane's rows 16 bytes of fp4 and a word of scale factors.  A vector of partial
 * sums: a float4 of each lane.  The mbarrier comes first. */
#define NARROW_A_BLOCK_BYTES       (NARROW_A_ROWS * NARROW_STEP_K * FP16_BYTES)
#define NARROW_FP4_BYTES           (WARP_THREADS * 16)
#define NARROW_SCALE_BYTES         (WARP_THREADS * SCALE_WORD_BYTES)
#define NARROW_STAGE_BYTES(blocks) (2 * (blocks) * (NARROW_FP4_BYTES + NARROW_SCALE_BYTES))
#define NARROW_VECTOR_BYTES        (WARP_THREADS * 16)
#define NARROW_A_OFFSET            128
#define L2_LINE_BYTES              128

/* The division of a problem among CTAs and warps, and the map of shared memory: the host chooses it for each
 * problem (hopper_narrow_selection.h). */
struct hopper_narrow_layout {
    int32_t split_k;          /* CTAs of a cluster that share a tile's K */
    int32_t split_inverse;    /* NARROW_INVERSE(split_k) */
    int32_t warps_n, warps_k; /* warps of a CTA along the rows of B and along K */
    int32_t phase_steps;      /* steps of K whose A is in shared memory at a time: a multiple of warps_k */
    int32_t ring_offset, sums_offset;
    int32_t sums_overlay; /* the partial sums lie over A and the ring */
    int32_t shared_bytes;
};

#endif
