/* What the kernels for experts know of the tokens, for host and device. */
#ifndef GPU_EXPERTS_H
#define GPU_EXPERTS_H

#include "../core/backend.h"

/* Passed by value. */
struct expert_tokens {
    const int32_t *counts; /* written by work queued before */
    int32_t experts;
    int32_t kind; /* enum custom_kernel_tokens */
    int32_t rows; /* of A, or of each expert's place */
    int32_t tile_m;
};

/* Most tiles of tile_m rows that any counts make: each expert's last one may be almost empty. */
static inline int64_t most_expert_tiles(const struct experts *experts, int64_t tile_m) {
    const int64_t rows = rows_of_experts(experts), count = experts->all.l;
    if (experts->tokens == CUSTOM_KERNEL_TOKENS_PADDED) {
        return count * ceil_div(experts->all.m, tile_m);
    }
    return rows / tile_m + (rows < count ? rows : count);
}

#endif
