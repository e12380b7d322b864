#include "gpu_quantize.h"

#include "../gpu_backend.h"

/* True if each of `rows` rows, `row_bytes` bytes apart, begins at a multiple of 16 bytes. */
static bool is_aligned(const void *pointer, int64_t rows, int64_t row_bytes) {
    const int64_t vector_bytes = 16;
    return (uintptr_t)pointer % (uintptr_t)vector_bytes == 0 && (rows == 1 || row_bytes % vector_bytes == 0);
}

static struct quantize_params params_of(const struct quantization *q) {
    const struct problem *problem = &q->problem;
    const int64_t bytes = q->type == CUSTOM_KERNEL_FP32 ? (int64_t)sizeof(float) : (int64_t)sizeof(uint16_t);
    const int64_t words_k = ceil_div(problem->k, SCALE_TILE_K), packed = problem->k * bytes;
    int shift = 0;
    while ((int64_t)1 << shift < words_k) {
        shift++;
    }
    /* HW: none; Granlund and Montgomery, "Division by Invariant Integers using Multiplication": exact below
     * 2^31 */
    const uint64_t divider = (((uint64_t)1 << (31 + shift)) + (uint64_t)words_k - 1) / (uint64_t)words_k;
    struct quantize_params params = {0};
    params.x = q->x;
    params.weight = q->weight;
    params.residual = q->residual;
    params.sum = q->sum;
    params.scale = q->scale;
    params.codes = q->codes;
    params.scales = q->scales;
    params.saturated = (unsigned long long *)q->saturated;
    params.source = q->rows;
    params.token_scale = q->token_scale;
    params.x_rows = (int32_t)q->x_rows;
    params.x_row = q->x_row;
    params.m = (int32_t)problem->m;
    params.k = (int32_t)problem->k;
    params.rows = (int32_t)round_up(problem->m, quantized_rows_unit(problem->scale_layout));
    params.words_k = (int32_t)words_k;
    params.word_divider = (uint32_t)divider;
    params.word_shift = shift;
    params.scale_layout = problem->scale_layout;
    params.aligned = is_aligned(q->x, q->rows != NULL ? q->x_rows : problem->m, q->x_row * bytes) &&
                     is_aligned(q->weight, 1, 0) && is_aligned(q->residual, problem->m, packed) &&
                     is_aligned(q->sum, problem->m, packed);
    params.epsilon = q->epsilon;
    params.activation = q->activation;
    return params;
}

/* The launch of CTAs with whole rows: the threads of a row, and no more CTAs than run at once, each of which
 * takes rows in turn.  With RMSNorm a few rows get more threads each; many unaligned ones, whose loads are
 * slow, at least two CTAs an SM. */
static int32_t launch_by_rows(const struct quantization *quantization, struct quantize_params *params,
                              struct launch *launch) {
    int sms = 0;
    RETURN_IF_FAILED(gpu_count_sms(quantization->problem.device, &sms));
    const bool few = params->m <= sms, norm = quantization->form == CUSTOM_KERNEL_QUANTIZE_NORM,
               thin = (norm && (few || !params->aligned)) || quantization->type == CUSTOM_KERNEL_FP32;
    const int64_t numbers = thin ? QUANTIZE_UNIT : NVFP4_GROUP_ELEMS, held = QUANTIZE_NORM_PASS / numbers,
                  most = few || params->aligned || !norm ? held : held / 2,
                  threads = round_up(params->words_k * (SCALE_TILE_K / numbers), WARP_THREADS);
    launch->threads = threads < most ? threads : most;
    params->thread_numbers = (int32_t)numbers;
    params->passes = (int32_t)ceil_div(threads, most);
    const int64_t at_once = sms * (QUANTIZE_NORM_THREADS / launch->threads);
    launch->grid[0] = params->rows < at_once ? params->rows : at_once;
    return CUSTOM_KERNEL_OK;
}

int32_t gpu_run_quantize(const struct quantization *quantization, const char *backend, const void *kernel,
                         const char *pdl_variable) {
    const struct problem *problem = &quantization->problem;
    const int64_t words_k = ceil_div(problem->k, SCALE_TILE_K);
    const struct limit sizes[] = {{"m", problem->m, MAX_DIMENSION},
                                  {"k", problem->k, MAX_DIMENSION},
                                  {"x_rows", quantization->x_rows, INT32_MAX}};
    RETURN_IF_FAILED(gpu_check_limits(backend, NULL, sizes, sizeof sizes / sizeof *sizes));
    struct quantize_params params = params_of(quantization);
    const int64_t words = params.rows * words_k;
    const struct limit limits[] = {
        {"the number of blocks of 64 numbers", words, INT32_MAX - QUANTIZE_CTA_WORDS}};
    RETURN_IF_FAILED(gpu_check_limits(backend, NULL, limits, sizeof limits / sizeof *limits));
    struct launch launch = {
        .kernel = kernel,
        .grid = {ceil_div(words, QUANTIZE_CTA_WORDS), 1, 1},
        .threads = QUANTIZE_THREADS,
        .cluster = 1,
        .pdl_variable = pdl_variable,
    };
    if (quantization->form == CUSTOM_KERNEL_QUANTIZE_NORM || quantization->token_scale != NULL) {
        RETURN_IF_FAILED(launch_by_rows(quantization, &params, &launch));
    }
    void *arguments[] = {(void *)(uintptr_t)&params};
    return gpu_launch(problem, &launch, arguments);
}
