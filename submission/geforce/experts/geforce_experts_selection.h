/* The choice of a tile for experts.  Host only, pure, tested without a GPU. */
#ifndef GEFORCE_EXPERTS_SELECTION_H
#define GEFORCE_EXPERTS_SELECTION_H

#include "../../gpu/gpu_tiles.h"
#include "geforce_experts_config.h"

enum { GEFORCE_EXPERTS_TILES_COUNT = GPU_COUNT_TILES(GEFORCE_EXPERTS_TILES) };
extern const struct geforce_experts_tile geforce_experts_tiles[GEFORCE_EXPERTS_TILES_COUNT];

/* The tile of least predicted work for `rows` rows that fall on `experts` experts at random: the host does not
 * know the counts.  Any tile is right for any counts, and gives the same bits. */
int geforce_select_experts_tile(int64_t rows, int64_t experts);

/* The name of tile number `index`, or NULL where there is none. */
const char *geforce_experts_tile_name(int index);

#endif
