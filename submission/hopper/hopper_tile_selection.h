/* Tile selection: which configuration a problem runs with.  Host only, pure, tested without a GPU. */
#ifndef HOPPER_TILE_SELECTION_H
#define HOPPER_TILE_SELECTION_H

#include <stdbool.h>

#include "../gpu/gpu_tiles.h"
#include "hopper_config.h"
#include "narrow/hopper_narrow_selection.h"

enum {
    HOPPER_TILES = HOPPER_TILE_COUNT,
    HOPPER_COMMON_TILES = GPU_COUNT_TILES(HOPPER_COMMON_CONFIGS),                   /* the first ones */
    HOPPER_DUAL_TILES = HOPPER_COMMON_TILES + GPU_COUNT_TILES(HOPPER_DUAL_CONFIGS), /* then the dual GEMM's */
};
extern const struct hopper_config hopper_configs[HOPPER_TILES];

/* The predicted times behind the choice, in picoseconds. */
extern const struct hopper_costs {
    int64_t product_ps;        /* a row of A times a row of B1 and of B2, over a stage of K */
    int64_t b_row_ps;          /* dequantizing a row of B1 and B2 of a stage while products run */
    int64_t a_row_ps;          /* copying a row of A of a stage */
    int64_t b_row_at_least_ps; /* a row of B1 and B2 of a stage if dequantization is the bottleneck */
    int64_t a_row_at_least_ps; /* addition to it for each row of A */
    int64_t wave_ps;           /* a wave's start and end: launch, first bytes, epilogue */
    int64_t reduction_ps;      /* the DSMEM reduction between the two CTAs of a split K */
    int64_t turns_ps;          /* the reduction between warpgroups that take stages in turn */
    int64_t call_ps;           /* a call without its waves */
    int64_t rest_ps;           /* a second launch, for the columns that the first one leaves */
    /* With equal shares: a call; a row of B1 and B2 of a stage, and its product with a row of A; sums of a
     * CTA, for each output of a tile's two products' pairs, given or added; a whole round's outputs. */
    int64_t shares_call_ps, shares_b_row_ps, shares_product_ps, sums_ps, part_ps, round_ps;
} hopper_costs;

/* The predicted time in picoseconds of a stage of K with b_rows rows of B1 and of B2 and a_rows rows of A. */
int64_t hopper_stage_ps(int64_t b_rows, int64_t a_rows);

/* CTAs that a configuration launches. */
int64_t hopper_ctas(const struct hopper_config *config, int64_t m, int64_t n, int64_t l);

/* The predicted time in picoseconds of a call: waves of CTAs times the time of one.
 *
 * One CTA fits an SM, so `sms` CTAs run at a time, and the last wave counts whole.  A CTA's work: the products
 * of its share of K, the dequantization of its rows of B1 and B2, the copies of its rows of A, its start and
 * its epilogue, and the reductions if K is shared. */
int64_t hopper_tile_cost_ps(const struct hopper_config *config, int64_t m, int64_t n, int64_t k, int64_t l,
                            int sms);

/* The tiles of CTAs with equal shares of K: whole rounds of the SMs have a tile each, but for the last one or
 * two, whose tiles are shared.  A CTA an SM, unless there are fewer stages. */
struct hopper_shares {
    int64_t ctas, shared_tiles;
    int64_t stages; /* of a CTA, at most */
};

struct hopper_shares hopper_share_tiles(int64_t tiles, int64_t stages_k, int sms);

/* The tiles that a problem runs with: one for columns 0 to first_columns - 1, another for the rest, if any. */
struct hopper_choice {
    int tile;
    int64_t first_columns; /* n, or a multiple of both first tile and scale tile */
    int rest_tile;
    bool tuned; /* timed on the device (gpu_tuner.h) */
};

/* The cheapest configuration; among equals the larger tile, which reads less, then the first listed.  If its
 * last wave would be far from full, two launches: whole waves of one tile, and the columns that are left with
 * the tile that is cheapest for them.  Few rows of A take a narrow tile if that is cheaper than the cheapest
 * configuration (hopper_select_narrow_tile); its index is HOPPER_TILES plus its own. */
struct hopper_choice hopper_select_tiles(int64_t m, int64_t n, int64_t k, int64_t l, int sms);

/* The same among the configurations in `allowed`, bit i for tile i, for an A of 16 bits if a16, with the room
 * that narrow tiles have. */
struct hopper_choice hopper_select_among(uint32_t allowed, bool a16, int64_t m, int64_t n, int64_t k, int64_t l,
                                         int sms, const struct hopper_narrow_room *room);

/* The name of tile number `index`, narrow tiles after the others, or NULL past the last one. */
const char *hopper_tile_name(int index);

#endif
