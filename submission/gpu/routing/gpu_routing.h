/* The parameters of the kernels around the products of experts, for host and device, and their launches. */
#ifndef GPU_ROUTING_H
#define GPU_ROUTING_H

#include "../../core/backend.h"
#include "../gpu_limits.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROUTE_LEAST_THREADS = 4 * WARP_THREADS, /* what comes after the choices is shared by all threads */
    ROUTE_CTA_TOKENS = 32,                  /* more tokens get another CTA, up to a whole cluster */
    ROUTE_COUNT_BYTES = 36 * 1024,          /* at most, for each warp's own counts */
    ROUTE_LANE_SIZES = 3,                   /* kernels, by the number of a lane's logits, and: */
    ROUTE_KINDS = 2,                        /* any logits; those of 16 bits */
    ROUTE_SORTED_LOGITS = 8,                /* of a lane, at most */

    COMBINE_TYPES = CUSTOM_KERNEL_BF16 + 1,
    COMBINE_THREADS = 128,
    COMBINE_COLUMNS = 8, /* of a thread: 16 bytes */
};

/* Logits that a lane holds in kernel number `size`. */
#define ROUTE_LANE_LOGITS(size) ((size) == 0 ? 4 : (size) == 1 ? 8 : 32)

/* The more registers a thread has, the more numbers it can hold. */
#define ROUTE_MOST_THREADS(numbers) ((numbers) > ROUTE_SORTED_LOGITS ? MAX_CTA_THREADS / 2 : MAX_CTA_THREADS)

/* Passed by value.  Warp w of CTA c of the cluster has warp_tokens tokens, from number (c * warps + w) *
 * warp_tokens on. */
struct route_params {
    const void *logits, *ids;
    const int32_t *map;
    int32_t *counts, *rows, *tokens;
    float *weights;
    int32_t m, routed, experts, choices;
    int32_t logits_type, id_bytes, normalize;
    int32_t ctas, warp_tokens;
};

struct combine_params {
    const void *y, *weights;
    const int32_t *rows;
    void *c;
    int32_t m, n, choices;
    int32_t weights_type;
};

/* Launch a backend's kernels: those of route by the number of a lane's logits and their kind, those of combine
 * by type (enum custom_kernel_output), for any n and for a multiple of COMBINE_COLUMNS. */
int32_t gpu_run_route(const struct routing *routing, const char *backend,
                      const void *const kernels[ROUTE_LANE_SIZES][ROUTE_KINDS], const char *pdl_variable);
int32_t gpu_run_combine(const struct combination *combination, const char *backend,
                        const void *const kernels[COMBINE_TYPES][2], const char *pdl_variable);

#ifdef __cplusplus
}
#endif

#endif
