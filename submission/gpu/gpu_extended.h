/* The parameters of the extended GEMMs' epilogue, for host and device. */
#ifndef GPU_EXTENDED_H
#define GPU_EXTENDED_H

#include "../core/backend.h"

/* Passed by value.  A scale that is NULL means 1, a bias none. */
struct extended_params {
    const float *scale_gate, *scale_up, *token_scale, *scale_c;
    const float *bias_gate, *bias_up; /* [n], for experts [expert][n] */
    void *c;                          /* [m][n], fp16 or bf16 bits; or [m][n / 2] */
    uint8_t *sfc;
    int32_t m, n;
    int32_t output;     /* enum custom_kernel_output */
    int32_t sfc_layout; /* enum custom_kernel_scale_layout */
    struct activation activation;
    int32_t plain;
};

static inline struct extended_params extended_params_of(const struct problem *problem) {
    const struct extension *extension = problem->extension;
    struct extended_params params = {0};
    params.scale_gate = extension->scale_gate;
    params.scale_up = extension->scale_up;
    params.token_scale = extension->token_scale;
    params.scale_c = extension->scale_c;
    params.bias_gate = extension->bias_gate;
    params.bias_up = extension->bias_up;
    params.c = problem->c;
    params.sfc = extension->sfc;
    params.m = (int32_t)problem->m;
    params.n = (int32_t)problem->n;
    params.output = extension->output;
    params.sfc_layout = problem->scale_layout;
    params.activation = extension->activation;
    params.plain = extension->plain;
    return params;
}

#endif
