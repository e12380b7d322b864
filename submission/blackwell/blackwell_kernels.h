/* The compiled kernels, for the host side: their parameters, and functions that return them. */
#ifndef BLACKWELL_KERNELS_H
#define BLACKWELL_KERNELS_H

#include <cuda.h>
#include <stdbool.h>

#include "../gpu/permute_scales.h"
#include "grouped/blackwell_grouped_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The dual GEMM's parameters, passed by value. */
struct blackwell_dual_gemm_params {
    CUtensorMap a, b1, b2;       /* boxes of a stage's fp4: [batch][row][K in bytes] */
    CUtensorMap sfa, sfb1, sfb2; /* boxes of a stage's scale tiles: [batch][tile][512 bytes] */
    uint16_t *c;                 /* [batch][m][n], fp16 bits */
    int32_t m, n;
    int32_t steps_k;                   /* K in steps; a scale tile is a step's */
    int32_t scales_by_previous_kernel; /* permuted: wait for that kernel before reading them */
};

/* Groups of one launch of the grouped GEMM, which are the kernel's parameters.  Few groups have a kernel of
 * their own, since every launch copies all of a kernel's parameters. */
#define BLACKWELL_FEW_GROUPS  8
#define BLACKWELL_MOST_GROUPS 48

/* A group: the dual GEMM's parameters for one product, with l = 1.  Tiles of the same rows of B have numbers
 * next to each other. */
struct blackwell_group {
    CUtensorMap a, b1, sfa, sfb1;
    uint16_t *c;
    int32_t m, n, steps_k, scales_by_previous_kernel;
    int32_t tiles_m;
    int32_t columns; /* of a transposed tile's MMA; there a and sfa are the group's B, b1 and sfb1 its A */
};

/* The numbers of the groups' first tiles are next to each other: a launch's parameters come to an SM in lines,
 * and the kernel reads these before any other.  Those of groups that do not exist are INT32_MAX. */
struct blackwell_few_groups {
    struct blackwell_group group[BLACKWELL_FEW_GROUPS];
    int32_t tiles; /* of all groups */
    int32_t first_tile[BLACKWELL_FEW_GROUPS];
};

struct blackwell_many_groups {
    struct blackwell_group group[BLACKWELL_MOST_GROUPS];
    int32_t tiles;
    int32_t first_tile[BLACKWELL_MOST_GROUPS];
};

/* The grouped GEMM's kernel of configuration number `index`, the transposed ones after the others.  Its
 * parameters: struct blackwell_few_groups or blackwell_many_groups. */
const void *blackwell_grouped_gemm_kernel(int index, bool few);

/* The kernel of configuration number `index`, as the CUDA runtime knows it. */
const void *blackwell_dual_gemm_kernel(int index);
const void *blackwell_gemv_kernel(void);           /* struct gemv_params */
const void *blackwell_permute_scales_kernel(void); /* struct permute_scales_params */

#ifdef __cplusplus
}
#endif

#endif
