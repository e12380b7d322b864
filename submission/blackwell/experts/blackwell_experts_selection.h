/* The choice of a tile for experts.  Host only, pure, tested without a GPU. */
#ifndef BLACKWELL_EXPERTS_SELECTION_H
#define BLACKWELL_EXPERTS_SELECTION_H

#include "../../gpu/gpu_tiles.h"
#include "blackwell_experts_config.h"

enum { BLACKWELL_EXPERTS_TILES_COUNT = GPU_COUNT_TILES(BLACKWELL_EXPERTS_TILES) };
extern const struct blackwell_config blackwell_experts_tiles[BLACKWELL_EXPERTS_TILES_COUNT];

/* Most rows of A in a tile. */
int32_t blackwell_experts_tile_rows(const struct blackwell_config *tile);

/* The first tile that holds an expert's rows, if `rows` rows fall on `experts` experts at random, since a
 * shorter one reads B more than once; the host does not know the counts.  Any tile is right for any counts, and
 * gives the same bits. */
int blackwell_select_experts_tile(int64_t rows, int64_t experts);

/* The name of tile number `index`, or NULL where there is none. */
const char *blackwell_experts_tile_name(int index);

#endif
