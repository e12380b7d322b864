/* How a problem of few rows of A is shared out over the chip.  Host only, pure, tested without a GPU. */
#ifndef HOPPER_NARROW_SELECTION_H
#define HOPPER_NARROW_SELECTION_H

#include "../../gpu/gpu_tiles.h"
#include "hopper_narrow_config.h"

enum { HOPPER_NARROW_TILES = GPU_COUNT_TILES(HOPPER_NARROW_CONFIGS) };
extern const struct hopper_narrow_config hopper_narrow_configs[HOPPER_NARROW_TILES];

/* The predicted times behind the choice, in picoseconds. */
extern const struct hopper_narrow_costs {
    int64_t step_ps;      /* of a warp's step of K, where its scheduler has no other warp to issue */
    int64_t a_block_ps;   /* of the dequantization of a block of A */
    int64_t phase_ps;     /* of another phase of A: a wait for its bytes, and for all warps */
    int64_t overlay_ps;   /* of a wait for both CTAs before the partial sums may lie over what they read */
    int64_t reduction_ps; /* of partial sums from another CTA, and of starting in a cluster */
    /* Of a whole call, to compare with other kernels: */
    int64_t call_step_ps; /* of a step, as step_ps, beside its products */
    int64_t call_row_ps;  /* of its products with a row of A */
    int64_t call_team_ps; /* of a step of a tile of warpgroups, its products included */
    int64_t call_ps;      /* of all but steps and reduction */
} hopper_narrow_costs;

/* The index of the narrow tile for a problem: the lowest that holds all rows of A; -1 where none does, and
 * wgmma's tiles are faster (measured:H200).  Two tiles hold 16 rows: that of warpgroups, and that of single
 * warps where the first leaves more SMs idle, or takes K's steps one warp after another (measured:H200, 15
 * sizes of weights: never more than 2 % behind the other). */
int hopper_select_narrow_tile(int64_t m, int64_t n, int64_t k, int64_t l, int sms);

/* The layout of least predicted time, and that time; among equals the one with more warps, then the first
 * found.
 *
 * A CTA takes the rows of warps_n warps of B1 and B2 and a share of K, whose steps its warps along K take in
 * turn.  One CTA fits an SM, so waves of `sms` CTAs count whole.  Tried are shares of all and half of K, with
 * the fewest whole teams along N with which all CTAs run at once, else NARROW_MAX_WARPS, and all numbers of
 * warps along K. A turn takes as long as the warps of a scheduler and two more would take to issue their steps:
 * the two stand for the latency that no other warp hides. */
int64_t hopper_narrow_layout(const struct hopper_narrow_config *config, int64_t m, int64_t n, int64_t k,
                             int64_t l, int sms, struct hopper_narrow_layout *layout);

/* The predicted time of a call with that layout, in picoseconds.  (Layouts are chosen by figures that fit the
 * loop of eight rows; these fit whole calls of 8 to 32.) */
int64_t hopper_narrow_call_ps(const struct hopper_narrow_config *config, int64_t m, int64_t n, int64_t k,
                              int64_t l, int sms);

/* CTAs that a layout launches for each tile of rows of A. */
int64_t hopper_narrow_ctas_along_n(const struct hopper_narrow_config *config,
                                   const struct hopper_narrow_layout *layout, int64_t n);

#endif
