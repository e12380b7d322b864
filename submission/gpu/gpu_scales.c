#include "gpu_scales.h"

int64_t gpu_permuted_bytes(const struct problem *problem, int64_t rows, int64_t k) {
    const int64_t batch_bytes = scale_batch_bytes(CUSTOM_KERNEL_SCALES_BLOCKED, rows, k / NVFP4_GROUP_ELEMS);
    return round_up(problem->l * batch_bytes, SCRATCH_ALIGNMENT);
}

static int64_t at_most(int64_t x, int64_t limit) {
    return x < limit ? x : limit;
}

int64_t gpu_complete_permute_scales(const struct problem *problem, struct permute_scales_params *params) {
    params->groups = problem->k / NVFP4_GROUP_ELEMS;
    params->batches = problem->l;
    params->scale_layout = problem->scale_layout;
    int64_t most_tile_rows = 0;
    for (int i = 0; i < params->count; i++) {
        int64_t tile_rows = scale_tile_rows(params->tensors[i].rows);
        most_tile_rows = tile_rows > most_tile_rows ? tile_rows : most_tile_rows;
    }
    return most_tile_rows;
}

int32_t gpu_launch_permute_scales(const struct problem *problem, const void *kernel,
                                  struct permute_scales_params params, const char *pdl_variable) {
    const int64_t most_tile_rows = gpu_complete_permute_scales(problem, &params);
    struct launch launch = {
        .kernel = kernel,
        .grid = {ceil_div(params.tiles_k, PERMUTE_SCALES_CTA_TILES), at_most(most_tile_rows, MAX_GRID_YZ),
                 at_most(problem->l * params.count, MAX_GRID_YZ)},
        .threads = PERMUTE_SCALES_THREADS,
        .cluster = 1,
        .pdl_variable = pdl_variable,
    };
    void *arguments[] = {&params};
    return gpu_launch(problem, &launch, arguments);
}

struct gpu_scales gpu_plan_scales(const struct problem *problem, int64_t b_rows, int tensors) {
    struct gpu_scales scales = {
        .permute = problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED,
        .b_rows = b_rows,
        .tensors = tensors,
    };
    if (scales.permute) {
        scales.sfa_bytes = gpu_permuted_bytes(problem, problem->m, problem->k);
        scales.sfb_bytes = gpu_permuted_bytes(problem, b_rows, problem->k);
    }
    return scales;
}

int64_t gpu_scales_bytes(const struct gpu_scales *scales) {
    return scales->sfa_bytes + (scales->tensors - 1) * scales->sfb_bytes;
}

void gpu_place_scales(const struct problem *problem, uint8_t *scratch, struct gpu_scales *scales) {
    scales->copies = scratch;
    scales->sfa = scales->permute ? scratch : problem->sfa;
    scales->sfb1 = scales->permute ? scratch + scales->sfa_bytes : problem->sfb1;
    scales->sfb2 = scales->tensors == 2 ? scales->sfb1
                   : scales->permute    ? scales->sfb1 + scales->sfb_bytes
                                        : problem->sfb2;
}

int32_t gpu_permute_scales(const struct problem *problem, const struct gpu_scales *scales, const void *kernel,
                           const char *pdl_variable) {
    if (!scales->permute) {
        return CUSTOM_KERNEL_OK;
    }
    uint8_t *sfa = scales->copies, *sfb1 = sfa + scales->sfa_bytes, *sfb2 = sfb1 + scales->sfb_bytes;
    struct permute_scales_params params = {
        .tensors = {{problem->sfa, sfa, problem->m},
                    {problem->sfb1, sfb1, scales->b_rows},
                    {problem->sfb2, sfb2, scales->b_rows}},
        .tiles_k = problem->k / SCALE_TILE_K,
        .count = scales->tensors,
    };
    return gpu_launch_permute_scales(problem, kernel, params, pdl_variable);
}
