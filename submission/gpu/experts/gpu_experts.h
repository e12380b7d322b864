/* What the kernels for experts know of the tokens, for host and device. */
#ifndef GPU_EXPERTS_H
#define GPU_EXPERTS_H

#include "../../core/backend.h"

/* The tokens.  Passed by value. */
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

static inline struct expert_tokens expert_tokens_of(const struct experts *experts, int tile_m) {
    return (struct expert_tokens){experts->counts, (int32_t)experts->all.l, experts->tokens,
                                  (int32_t)experts->all.m, tile_m};
}

/* Scale factors of one operand, for kernels that copy the word of each row and step of K by itself, so that a
 * tile may start at any row.  Passed by value. */
struct expert_scales {
    const uint8_t *from;
    int64_t batch_bytes; /* from one expert's to the next one's; of tokens that are not padded, 0 */
    int32_t layout;      /* enum custom_kernel_scale_layout */
};

static inline struct expert_scales expert_token_scales(const struct experts *experts) {
    const int64_t groups = experts->all.k / NVFP4_GROUP_ELEMS;
    const bool padded = experts->tokens == CUSTOM_KERNEL_TOKENS_PADDED;
    return (struct expert_scales){experts->all.sfa,
                                  padded ? scale_batch_bytes(experts->sfa_layout, experts->all.m, groups) : 0,
                                  experts->sfa_layout};
}

/* `from`: sfb1 or sfb2. */
static inline struct expert_scales expert_weight_scales(const struct experts *experts, const uint8_t *from) {
    const struct problem *all = &experts->all;
    return (struct expert_scales){
        from, scale_batch_bytes(all->scale_layout, experts->b_rows, all->k / NVFP4_GROUP_ELEMS),
        all->scale_layout};
}

#endif
