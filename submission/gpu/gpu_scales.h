/* The scale factors that a GEMM reads, which are always in the blocked layout: the caller's own, or copies that
 * a kernel before the GEMM permutes into scratch memory. */
#ifndef GPU_SCALES_H
#define GPU_SCALES_H

#include <stdbool.h>

#include "gpu_host.h"
#include "permute_scales.h"

/* The bytes in scratch memory of a tensor's scale factors, permuted: `rows` rows of each batch, with K padded
 * to `k`. */
int64_t gpu_permuted_bytes(const struct problem *problem, int64_t rows, int64_t k);

/* Sets what follows from the problem, where `params` says which tensors, how many, and tiles_k.  Returns the
 * rows of scale tiles of the largest tensor. */
int64_t gpu_complete_permute_scales(const struct problem *problem, struct permute_scales_params *params);

/* Launches a backend's kernel that permutes scale factors, with the parameters that that function completes. */
int32_t gpu_launch_permute_scales(const struct problem *problem, const void *kernel,
                                  struct permute_scales_params params, const char *pdl_variable);

/* ---- sfa, sfb1 and sfb2 of a call, K not padded ---- */

struct gpu_scales {
    bool permute;
    int64_t sfa_bytes, sfb_bytes; /* scratch memory for a copy of sfa; for one of sfb1 or of sfb2 */
    int64_t b_rows;
    int tensors; /* 3, or 2 if there is no sfb2 */
    /* Set by gpu_place_scales: where the copies start, and what the GEMM reads; without sfb2, sfb1 again. */
    uint8_t *copies;
    const uint8_t *sfa, *sfb1, *sfb2;
};

struct gpu_scales gpu_plan_scales(const struct problem *problem, int64_t b_rows, int tensors);

/* Bytes of scratch memory that the copies take. */
int64_t gpu_scales_bytes(const struct gpu_scales *scales);

/* Lets the copies, if there are any, start at `scratch`. */
void gpu_place_scales(const struct problem *problem, uint8_t *scratch, struct gpu_scales *scales);

/* Launches `kernel` to make the copies, if there are any. */
int32_t gpu_permute_scales(const struct problem *problem, const struct gpu_scales *scales, const void *kernel,
                           const char *pdl_variable);

#endif
