/* The choice of a tile for experts.  Host only, pure, tested without a GPU. */
#ifndef HOPPER_EXPERTS_SELECTION_H
#define HOPPER_EXPERTS_SELECTION_H

#include <stdint.h>

#include "../../gpu/gpu_tiles.h"
#include "hopper_experts_config.h"

enum { HOPPER_EXPERTS_TILES_COUNT = GPU_COUNT_TILES(HOPPER_EXPERTS_TILES) };
extern const struct hopper_experts_tile hopper_experts_tiles[HOPPER_EXPERTS_TILES_COUNT];

/* The tile of least predicted work for `rows` rows that fall on `experts` experts at random: the host does not
 * know the counts.  Even tiles are for many rows an expert, if they are enough for all SMs; `pairs`: an
 * expert's rows of B1, or half of those of a plain product's B.  Any tile is right for any counts, and gives
 * the same bits. */
int hopper_select_experts_tile(int64_t rows, int64_t experts, int64_t pairs, int sms);

/* The name of tile number `index`, or NULL where there is none. */
const char *hopper_experts_tile_name(int index);

#endif
