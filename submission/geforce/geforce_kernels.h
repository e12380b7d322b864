/* The compiled kernels, for the host side: their parameters, and functions that return them. */
#ifndef GEFORCE_KERNELS_H
#define GEFORCE_KERNELS_H

#include <cuda.h>
#include <stdbool.h>

#include "../gpu/permute_scales.h"
#include "grouped/geforce_grouped_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The dual GEMM's parameters, passed by value. */
struct geforce_dual_gemm_params {
    CUtensorMap a, b1, b2;            /* boxes of a stage's fp4: [batch][row][K in bytes] */
    const uint8_t *sfa, *sfb1, *sfb2; /* blocked: [batch][row of scale tiles][step of K][512 bytes] */
    uint16_t *c;                      /* [batch][m][n], fp16 bits */
    int32_t m, n;
    int32_t steps_k;                 /* K in steps; each step has a scale tile */
    int32_t tiles_m, tiles_n, tiles; /* tiles of C: along rows, along columns, in all batches */
};

/* Groups of one launch of the grouped GEMM, which are the kernel's parameters.  Few groups have a kernel of
 * their own, since every launch copies all of a kernel's parameters. */
#define GEFORCE_FEW_GROUPS  8
#define GEFORCE_MOST_GROUPS 64

/* A group: the dual GEMM's parameters for one product, with l = 1.  Its tiles have the numbers from first_tile
 * on, those of the same rows of B next to each other. */
struct geforce_group {
    CUtensorMap a, b1;
    const uint8_t *sfa, *sfb1;
    uint16_t *c;
    int32_t m, n, steps_k;
    int32_t first_tile, tiles_m;
};

struct geforce_few_groups {
    struct geforce_group group[GEFORCE_FEW_GROUPS];
    int32_t groups, tiles; /* tiles: of all groups */
};

struct geforce_many_groups {
    struct geforce_group group[GEFORCE_MOST_GROUPS];
    int32_t groups, tiles;
};

/* The grouped GEMM's kernel of configuration number `index`.  Its parameters: struct geforce_few_groups or
 * geforce_many_groups. */
const void *geforce_grouped_gemm_kernel(int index, bool few);

/* The kernel of configuration number `index`, as the CUDA runtime knows it. */
const void *geforce_dual_gemm_kernel(int index);
const void *geforce_gemv_kernel(void);           /* struct gemv_params */
const void *geforce_permute_scales_kernel(void); /* struct permute_scales_params */

#ifdef __cplusplus
}
#endif

#endif
