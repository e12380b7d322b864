/* The grouped GEMM's tiles of rows.  Host only, pure, tested without a GPU. */
#ifndef HOPPER_GROUPED_SELECTION_H
#define HOPPER_GROUPED_SELECTION_H

#include <stdbool.h>

#include "../../gpu/gpu_schedule.h"
#include "../../gpu/gpu_tiles.h"
#include "hopper_grouped_config.h"

enum { HOPPER_GROUPED_TILES_COUNT = GPU_COUNT_TILES(HOPPER_GROUPED_TILES) };
extern const struct hopper_grouped_tile hopper_grouped_tiles[HOPPER_GROUPED_TILES_COUNT];

/* How a group is cut: into tiles of one kind, tiles_m along its rows. */
struct hopper_grouped_cut {
    int tile;
    int64_t tiles_m, stages_k;
    int parts; /* CTAs that share a tile's K: all.tiles counts each of them */
    struct tile_class all;
};

/* With tiles of at most as many rows as tile number `largest` has: as few as hold the group's rows, of the
 * least tile that holds an equal share of them. */
struct hopper_grouped_cut hopper_cut_group(int64_t m, int64_t n, int64_t k, int largest);

/* Has each tile's K shared by two CTAs, where it has stages enough; else false. */
bool hopper_share_k(struct hopper_grouped_cut *cut);

/* The bytes of shared memory of the largest tile, which every CTA gets. */
int hopper_grouped_shared_bytes(void);

/* Of the accumulators of a part of a tile of number `index`, in fp32. */
int64_t hopper_grouped_sum_bytes(int index);

/* The name of tile number `index`, or NULL where there is none. */
const char *hopper_grouped_tile_name(int index);

#endif
