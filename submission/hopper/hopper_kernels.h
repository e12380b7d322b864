/* What the host side needs of the compiled kernels. */
#ifndef HOPPER_KERNELS_H
#define HOPPER_KERNELS_H

#include <cuda.h>
#include <stdbool.h>

#include "../gpu/permute_scales.h"
#include "hopper_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a launch of the grouped GEMM takes at most: all of it are the kernel's parameters.  Few groups have a
 * kernel of their own, since all of a kernel's parameters are copied in each launch. */
#define HOPPER_FEW_GROUPS  8
#define HOPPER_MOST_GROUPS 64

/* A group: its tiles' numbers start at first_tile, those of the same rows of B next to each other.  Of gemm
 * what tells of the second product and of A's boxes is not used. */
struct hopper_group {
    CUtensorMap b; /* as that of the dual GEMM, l = 1, in boxes of all rows of a tile */
    struct hopper_dual_gemm_params gemm;
    const uint8_t *a; /* in fp16 (hopper_config.h) */
    int32_t a_rows;   /* in whole eights */
    int32_t first_tile, tiles_m;
    int32_t tile; /* number in HOPPER_GROUPED_TILES, with its rows of A and stages */
    int32_t tile_m, stages;
    int32_t parts; /* CTAs that share a tile's K, next to each other: 1 or 2 */
    /* Where they are two: of each tile a word, zero before the launch, and a part's accumulators. */
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
    uint32_t *arrivals; /* words that the GEMM wants to be zero */
    int32_t arrivals_count;
};

struct hopper_many_dequantize_params {
    struct dequantize_params group[HOPPER_MOST_GROUPS];
    int32_t rows[HOPPER_MOST_GROUPS];
    uint32_t *arrivals;
    int32_t arrivals_count;
};

/* The kernel of configuration number `index`, as the CUDA runtime knows it.  Its parameters: the tensor maps of
 * A in fp16, B1 and B2 (boxes of a stage: [batch][row][K]), and struct hopper_dual_gemm_params. */
const void *hopper_dual_gemm_kernel(int index);
/* The same with a CTA an SM and struct hopper_persistent_params; NULL unless the configuration is persistent.
 */
const void *hopper_persistent_dual_gemm_kernel(int index);
/* The same for narrow tile number `index` where `split_k` CTAs share a tile's K.  Its parameters: struct
 * hopper_narrow_params. */
const void *hopper_narrow_dual_gemm_kernel(int index, int split_k);
/* The grouped GEMM of so many groups, of which some share K or none does.  Its parameters: struct
 * hopper_few_groups or hopper_many_groups. */
const void *hopper_grouped_gemm_kernel(bool few, bool shares);
/* Its parameters: struct hopper_few_dequantize_params or hopper_many_dequantize_params. */
const void *hopper_grouped_dequantize_kernel(bool few, bool shares);
const void *hopper_dequantize_kernel(void); /* struct dequantize_params */
/* Its parameters: struct dequantize_params, words that become zero, and how many. */
const void *hopper_dequantize_first_kernel(void);
const void *hopper_permute_scales_kernel(void); /* struct permute_scales_params */

#ifdef __cplusplus
}
#endif

#endif
