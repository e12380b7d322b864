/* The quantizer's parameters, for host and device, and its launch. */
#ifndef GPU_QUANTIZE_H
#define GPU_QUANTIZE_H

#include "../../core/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    QUANTIZE_UNIT = 8,      /* numbers of a thread at a time, of fp32 or with RMSNorm; else a group */
    QUANTIZE_TEAM = 8,      /* threads with such units that make a word of four scale factors */
    QUANTIZE_THREADS = 256, /* of a CTA, without RMSNorm */
    QUANTIZE_WORDS = 4,     /* words that such a thread takes part in, without RMSNorm: loads under way */
    QUANTIZE_TEAMS = QUANTIZE_THREADS / QUANTIZE_TEAM,
    QUANTIZE_CTA_WORDS = QUANTIZE_TEAMS * QUANTIZE_WORDS,
    QUANTIZE_NORM_THREADS = 1024, /* most threads with RMSNorm, of a CTA and of an SM: 64 registers each */
    QUANTIZE_NORM_PASS = 8192, /* most numbers of a row that such a CTA holds, twice as many as partial sums */
    QUANTIZE_FORMS = 4,        /* enum custom_kernel_quantize_form, and then: */
    QUANTIZE_TOKENS = 3,       /* each row with a scale of its own */
    QUANTIZE_TYPES = CUSTOM_KERNEL_FP32 + 1,
};

/* Passed by value. */
struct quantize_params {
    const void *x, *weight, *residual;
    void *sum;
    const float *scale;
    uint8_t *codes, *scales;
    unsigned long long *saturated;
    const int32_t *source; /* rows of x; NULL: row i is x's row i */
    float *token_scale;
    int64_t x_row;
    int32_t x_rows;
    int32_t m, k;
    int32_t rows;          /* m, and the rows that a blocked layout adds */
    int32_t words_k;       /* words of four scale factors in a row, the last perhaps padded */
    uint32_t word_divider; /* division by words_k: multiply by this, shift by 31 + word_shift */
    int32_t word_shift;
    int32_t scale_layout;
    int32_t thread_numbers; /* of a thread in a pass, where a CTA takes whole rows */
    int32_t passes;         /* of such a CTA over a row */
    int32_t aligned;        /* all rows begin at multiples of 16 bytes */
    float epsilon;
    struct activation activation;
};

/* The kernel that a quantization needs: enum custom_kernel_quantize_form, or QUANTIZE_TOKENS. */
static inline int32_t quantize_kernel_form(const struct quantization *quantization) {
    return quantization->token_scale != NULL ? QUANTIZE_TOKENS : quantization->form;
}

/* Launches a backend's kernel for the quantization's form and type. */
int32_t gpu_run_quantize(const struct quantization *quantization, const char *backend, const void *kernel,
                         const char *pdl_variable);

#ifdef __cplusplus
}
#endif

#endif
