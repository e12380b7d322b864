/* The parameters of the extended GEMMs' epilogue, for host and device. */
#ifndef GPU_EXTENDED_H
#define GPU_EXTENDED_H

#include "../core/backend.h"

/* Passed by value.  Pointers to numbers may be NULL, which means 1. */
struct extended_params {
    const float *scale_gate, *scale_up, *token_scale, *scale_c;
    void *c; /* [m][n], fp16 or bf16 bits; or [m][n / 2] */
    uint8_t *sfc;
    int32_t m, n;
    int32_t output;     /* enum custom_kernel_output */
    int32_t sfc_layout; /* enum custom_kernel_scale_layout */
    float limit, alpha, beta;
    int32_t plain;
};

static inline struct extended_params extended_params_of(const struct problem *problem) {
    const struct extension *extension = problem->extension;
    struct extended_params params = {0};
    params.scale_gate = extension->scale_gate;
    params.scale_up = extension->scale_up;
    params.token_scale = extension->token_scale;
    params.scale_c = extension->scale_c;
    params.c = problem->c;
    params.sfc = extension->sfc;
    params.m = (int32_t)problem->m;
    params.n = (int32_t)problem->n;
    params.output = extension->output;
    params.sfc_layout = problem->scale_layout;
    params.limit = extension->limit;
    params.alpha = extension->alpha;
    params.beta = extension->beta;
    params.plain = extension->plain;
    return params;
}

#endif
