#include "gpu_routing.h"

#include "../gpu_backend.h"

int32_t gpu_run_route(const struct routing *routing, const char *backend,
                      const void *const kernels[ROUTE_LANE_SIZES][ROUTE_KINDS], const char *pdl_variable) {
    const int64_t m = routing->problem.m, count_bytes = routing->experts * (int64_t)sizeof(int32_t);
    const struct limit limits[] = {{"m", m, MAX_DIMENSION}};
    RETURN_IF_FAILED(gpu_check_limits(backend, NULL, limits, sizeof limits / sizeof *limits));
    int64_t ctas = 1;
    while (ctas < MAX_CLUSTER_CTAS && ctas * ROUTE_CTA_TOKENS < m) {
        ctas *= 2;
    }
    int size = 0;
    while (routing->logits != NULL && ROUTE_LANE_LOGITS(size) * WARP_THREADS < routing->routed) {
        size++;
    }
    const int64_t of_memory = ROUTE_COUNT_BYTES / count_bytes * WARP_THREADS,
                  of_registers = ROUTE_MOST_THREADS(ROUTE_LANE_LOGITS(size)),
                  most = of_memory < of_registers ? of_memory : of_registers,
                  wanted = ceil_div(m, ctas) * WARP_THREADS,
                  some = wanted < ROUTE_LEAST_THREADS ? ROUTE_LEAST_THREADS : wanted,
                  threads = some < most ? some : most, warps = threads / WARP_THREADS;
    struct route_params params = {0};
    params.logits = routing->logits;
    params.ids = routing->ids;
    params.map = routing->map;
    params.counts = routing->counts;
    params.rows = routing->rows;
    params.tokens = routing->tokens;
    params.weights = routing->weights;
    params.m = (int32_t)m;
    params.routed = (int32_t)routing->routed;
    params.experts = routing->experts;
    params.choices = routing->choices;
    params.logits_type = routing->logits_type;
    params.id_bytes = routing->id_bytes;
    params.normalize = routing->normalize;
    params.ctas = (int32_t)ctas;
    params.warp_tokens = (int32_t)ceil_div(m, ctas * warps);
    const struct launch launch = {
        .kernel = kernels[size][routing->logits_type != CUSTOM_KERNEL_FP32],
        .grid = {ctas, 1, 1},
        .threads = threads,
        .cluster = ctas,
        .shared_bytes = (int)(warps * count_bytes),
        .pdl_variable = pdl_variable,
    };
    void *arguments[] = {&params};
    return gpu_launch(&routing->problem, &launch, arguments);
}

int32_t gpu_run_combine(const struct combination *combination, const char *backend,
                        const void *const kernels[COMBINE_TYPES][2], const char *pdl_variable) {
    const struct problem *problem = &combination->problem;
    const int64_t cta_columns = COMBINE_THREADS * COMBINE_COLUMNS;
    const struct limit limits[] = {{"m", problem->m, MAX_DIMENSION},
                                   {"n", problem->n, cta_columns * MAX_GRID_YZ}};
    RETURN_IF_FAILED(gpu_check_limits(backend, NULL, limits, sizeof limits / sizeof *limits));
    struct combine_params params = {0};
    params.y = combination->y;
    params.weights = combination->weights;
    params.rows = combination->rows;
    params.c = problem->c;
    params.m = (int32_t)problem->m;
    params.n = (int32_t)problem->n;
    params.choices = combination->choices;
    params.weights_type = combination->weights_type;
    const struct launch launch = {
        .kernel = kernels[combination->type][problem->n % COMBINE_COLUMNS == 0],
        .grid = {problem->m, ceil_div(problem->n, cta_columns), 1},
        .threads = COMBINE_THREADS,
        .cluster = 1,
        .pdl_variable = pdl_variable,
    };
    void *arguments[] = {&params};
    return gpu_launch(problem, &launch, arguments);
}
