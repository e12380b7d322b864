/* What a tile of the products of experts costs, for counts that the host does not know.  Host only, pure. */
#ifndef GPU_EXPERTS_SELECTION_H
#define GPU_EXPERTS_SELECTION_H

#include <stdint.h>

/* `rows` rows that fall on `experts` experts at random give each so many: most likely `mean`, and rarely more
 * than two deviations away. */
struct expert_rows {
    int64_t mean, deviation;
};

struct expert_rows gpu_expert_rows(int64_t rows, int64_t experts);

/* The work of an expert cut into tiles of tile_m rows, in rows of A: a tile is no less work than one of
 * least_rows. */
int64_t gpu_expert_work(struct expert_rows rows, int64_t tile_m, int64_t least_rows);

#endif
