#include "gpu_experts_selection.h"

#include "../../core/backend.h"

enum { DEVIATIONS = 2, STEPS = 4 };

static int64_t square_root(int64_t x) {
    int64_t root = 0;
    while ((root + 1) * (root + 1) <= x) {
        root++;
    }
    return root;
}

struct expert_rows gpu_expert_rows(int64_t rows, int64_t experts) {
    const int64_t mean = ceil_div(rows, experts);
    return (struct expert_rows){mean, square_root(mean)};
}

int64_t gpu_expert_work(struct expert_rows rows, int64_t tile_m, int64_t least_rows) {
    const int64_t tile_work = tile_m < least_rows ? least_rows : tile_m;
    int64_t tiles = 0;
    for (int i = -DEVIATIONS * STEPS; i <= DEVIATIONS * STEPS; i++) {
        const int64_t some = rows.mean + rows.deviation * i / STEPS;
        tiles += some > 0 ? ceil_div(some, tile_m) : 0;
    }
    return tiles * tile_work;
}
