/* Tile selection: which configuration a problem runs with.  Host only, pure, tested without a GPU. */
#ifndef HOPPER_TILE_SELECTION_H
#define HOPPER_TILE_SELECTION_H

#include "../gpu/gpu_tiles.h"
#include "hopper_config.h"

enum { HOPPER_TILES = GPU_COUNT_TILES(HOPPER_CONFIGS) };
extern const struct hopper_config hopper_configs[HOPPER_TILES];

/* The predicted times behind the choice, in picoseconds. */
extern const struct hopper_costs {
    int64_t product_ps;        /* of one row of A by one row of B1 and B2, over a stage of K */
    int64_t b_row_ps;          /* of a row of B1 and B2 in a stage: its dequantization beside the products */
    int64_t a_row_ps;          /* of a row of A in a stage: its copy */
    int64_t b_row_at_least_ps; /* of a row of B1 and B2 in a stage, where its dequantization decides, */
    int64_t a_row_at_least_ps; /* and what each row of A adds to that */
    int64_t wave_ps;           /* of a wave's start and end: launch, first bytes, epilogue */
    int64_t reduction_ps;      /* of the DSMEM reduction between the two CTAs of a split K */
    int64_t turns_ps;          /* of the reduction between warpgroups that take stages in turn */
    int64_t call_ps;           /* of a call beside its waves */
    int64_t rest_ps;           /* of a second launch for the columns that the first one left */
} hopper_costs;

/* The predicted time in picoseconds of a stage of K of so many rows of B1 and B2 and rows of A. */
int64_t hopper_stage_ps(int64_t b_rows, int64_t a_rows);

/* CTAs that a configuration launches. */
int64_t hopper_ctas(const struct hopper_config *config, int64_t m, int64_t n, int64_t l);

/* The predicted time in picoseconds of a call: waves of CTAs times the time of one.
 *
 * One CTA fits an SM, so `sms` CTAs run at a time and the last wave counts whole.  A CTA's work is its share of
 * K of its tile's products, the dequantization of its rows of B1 and B2 and the copies of its rows of A, its
 * start and its epilogue, and the reductions where K is split. */
int64_t hopper_tile_cost_ps(const struct hopper_config *config, int64_t m, int64_t n, int64_t k, int64_t l,
                            int sms);

/* The index of the tile for a problem: the cheapest configuration, among equals the larger tile, which reads
 * less, then the first listed.  Few rows of A take a narrow tile (hopper_narrow_selection.h), whose number is
 * HOPPER_TILES plus its own; the largest of those only where no configuration is cheaper. */
int hopper_select_tile(int64_t m, int64_t n, int64_t k, int64_t l, int sms);

/* What a problem runs with: columns 0 to first_columns - 1 with one tile, the others, if any, with a second. */
struct hopper_choice {
    int tile;
    int64_t first_columns; /* n, or a multiple of both first tile and scale tile */
    int rest_tile;
};

/* One tile as hopper_select_tile chooses it, or two launches where the waves of one are far from full: whole
 * waves of a tile, and the columns that are left with the tile that is the cheapest for those. */
struct hopper_choice hopper_select_tiles(int64_t m, int64_t n, int64_t k, int64_t l, int sms);

/* The name of tile number `index`, narrow tiles after the others, or NULL where there is none. */
const char *hopper_tile_name(int index);

#endif
