/* The division of groups into tiles.  Host only, pure, tested without a GPU. */
#ifndef HOPPER_GROUPED_SELECTION_H
#define HOPPER_GROUPED_SELECTION_H

#include <stdbool.h>

#include "../../gpu/gpu_schedule.h"
#include "../../gpu/gpu_tiles.h"
#include "hopper_grouped_config.h"

enum { HOPPER_GROUPED_TILES_COUNT = GPU_COUNT_TILES(HOPPER_GROUPED_TILES) };
extern const struct hopper_grouped_tile hopper_grouped_tiles[HOPPER_GROUPED_TILES_COUNT];

/* A group cut into tiles of one kind, tiles_m of them along its rows. */
struct hopper_grouped_cut {
    int tile;
    int64_t tiles_m, stages_k;
    int parts; /* CTAs that share a tile's K: all.tiles counts each of them */
    struct tile_class all;
};

/* Cuts a group into as few tiles along its rows as tile number `largest` would need, and takes the smallest
 * tile that holds an equal share of the rows. */
struct hopper_grouped_cut hopper_cut_group(int64_t m, int64_t n, int64_t k, int largest);

/* Lets two CTAs share each tile's K, if it has enough stages; else returns false. */
bool hopper_share_k(struct hopper_grouped_cut *cut);

/* Bytes of shared memory of the largest tile: every CTA gets as many. */
int hopper_grouped_shared_bytes(void);

/* Bytes of the accumulators, in fp32, of one part of tile number `index`. */
int64_t hopper_grouped_sum_bytes(int index);

/* The name of tile number `index`, or NULL where there is none. */
const char *hopper_grouped_tile_name(int index);

#endif
