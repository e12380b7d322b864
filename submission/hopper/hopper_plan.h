/* The host side that the dual and the extended GEMM share.  A call: select a tile or two, check the limits, get
 * scratch memory, encode the tensor maps, bring A and B's scale factors into the kernels' order, multiply in
 * one launch or two. */
#ifndef HOPPER_PLAN_H
#define HOPPER_PLAN_H

#include "hopper_ahead.h"
#include "hopper_tile_selection.h"

/* A call's plan, and its operands once they have a place. */
struct hopper_plan {
    const struct problem *problem;
    struct hopper_choice choice;
    int sms;
    int64_t columns; /* that the tiles count: n, or half of it for a plain product */
    int64_t b_rows;  /* rows of the tensor b1 */
    int64_t stages_k;
    bool joint;          /* both operands of a tile are rows of b1 */
    bool permute_scales; /* to the blocked layout, whose K is padded to whole stages */
    struct ahead ahead;  /* dequantization of A during the first GEMM */
    /* Scratch memory: A in 16 bits; sfb1 or sfb2, permuted; sums of equal shares; counters. */
    int64_t a_bytes, scale_bytes, sums_bytes, words;
    uint8_t *a, *sfb1, *sfb2, *sums;
    uint32_t *counters; /* `words` of them, zero when the GEMM starts */
};

/* One launch of the GEMM: some columns of C, with one tile. */
struct hopper_gemm {
    CUtensorMap a, b1, b2;
    struct hopper_persistent_params params; /* `gemm`, which comes first, are those of one tile a CTA */
    struct hopper_shares_params shares;     /* without sums unless CTAs have equal shares */
    struct launch launch;
};

/* What one of the GEMMs does in its own way. */
struct hopper_gemm_kind {
    bool (*suits)(int tile, const struct extension *extension);
    /* The kernel with CTAs that take one tile after another, or one each; NULL if there is none. */
    const void *(*kernel)(int tile, const struct problem *problem, bool persistent);
    int32_t (*launch_before)(const struct hopper_plan *plan);
    int32_t (*launch_gemm)(const struct problem *problem, struct hopper_gemm *gemm);
    int32_t (*run_narrow)(const struct problem *problem, int index, int sms);
};

/* The columns that tiles count: a plain product's tiles have two for each that the dual GEMM's have. */
int64_t hopper_columns(const struct problem *problem);

/* The tile that the environment names, else the tiles that suit with the least predicted time on `sms` SMs. */
int32_t hopper_choose_tiles(const struct problem *problem, const struct hopper_gemm_kind *kind, int sms,
                            struct hopper_choice *choice);

int32_t hopper_run_gemm(const struct problem *problem, const struct hopper_gemm_kind *kind);

/* The permutation of B's scale factors to scratch memory. */
struct permute_scales_params hopper_permuted_scales(const struct hopper_plan *plan);

/* Dequantizes A, and permutes B's scale factors if needed. */
int32_t hopper_dequantize_before(const struct hopper_plan *plan);

#endif
