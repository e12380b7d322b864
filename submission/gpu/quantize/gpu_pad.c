#include "gpu_pad.h"

#include "../gpu_host.h"

int32_t gpu_pad(const struct problem *problem, const struct padded_rows *rows, const void *kernel,
                const char *pdl_variable) {
    const int64_t words = rows->to_bytes / (int64_t)sizeof(uint32_t);
    const struct launch launch = {
        .kernel = kernel,
        .grid = {ceil_div(words, PAD_THREADS), rows->rows < MAX_GRID_YZ ? rows->rows : MAX_GRID_YZ, 1},
        .threads = PAD_THREADS,
        .cluster = 1,
        .pdl_variable = pdl_variable,
    };
    struct padded_rows params = *rows;
    void *arguments[] = {&params};
    return gpu_launch(problem, &launch, arguments);
}
