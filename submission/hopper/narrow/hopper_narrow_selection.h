/* The division of a problem with few rows of A among the chip's SMs.  Host only, pure, tested without a GPU. */
#ifndef HOPPER_NARROW_SELECTION_H
#define HOPPER_NARROW_SELECTION_H

#include <stdbool.h>

#include "../../gpu/gpu_tiles.h"
#include "hopper_narrow_config.h"

enum { HOPPER_NARROW_TILES = GPU_COUNT_TILES(HOPPER_NARROW_CONFIGS) };
extern const struct hopper_narrow_config hopper_narrow_configs[HOPPER_NARROW_TILES];

/* The predicted times behind the choice, in picoseconds. */
extern const struct hopper_narrow_costs {
    int64_t step_ps;          /* a warp's step of K, if its scheduler has no other warp */
    int64_t a_block_ps;       /* dequantizing a block of A */
    int64_t phase_ps;         /* another phase of A: a wait for its bytes, and for all warps */
    int64_t overlay_ps;       /* a wait for the cluster, before partial sums overwrite what they read */
    int64_t reduction_ps;     /* partial sums from another CTA, and the start of a cluster */
    int64_t reduction_cta_ps; /* each further CTA that shares K; whole calls do not show it */
    /* Times of a whole call, to compare it with other kernels: */
    int64_t call_step_ps; /* a step, as step_ps, without its products */
    int64_t call_row_ps;  /* products of a step with a row of A */
    int64_t call_team_ps; /* a step of a tile of warpgroups, products included */
    int64_t call_a16_ps;  /* what a block of A of 16 bits adds to a CTA's step */
    int64_t call_ps;      /* everything but steps and reduction */
} hopper_narrow_costs;

/* The index of the narrow tile for a problem, whose A has 16 bits if a16: the one with the fewest rows that
 * holds all rows of A; the largest only, and for up to 128 rows, if its predicted time is at most `wide_ps`,
 * that of the other kernels; else -1. Two tiles hold 16 rows: the one of single warps is taken if the one of
 * warpgroups would leave more SMs idle, or would take K's steps with one warp after another (measured:H200, 15
 * sizes of weights: never more than 2 % slower than the other). */
int hopper_select_narrow_tile(bool a16, int64_t m, int64_t n, int64_t k, int64_t l, int sms, int64_t wide_ps);

/* Finds the layout of least predicted time and returns that time; among equals the one with more warps, then
 * the first found.
 *
 * A CTA takes the rows of warps_n warps of B1 and B2 and a share of K, whose steps its warps_k warps along K
 * take in turn. One CTA fits an SM, so waves of `sms` CTAs count whole.  The search tries all numbers
 * of CTAs that share K, more than two only where all run in one wave; each with the fewest whole teams along N
 * that let all CTAs run at once, else NARROW_MAX_WARPS, and with any number of warps along K. A turn takes as
 * long as the warps of a scheduler and two more take to issue their steps: the two stand for latency that no
 * other warp hides. */
int64_t hopper_narrow_layout(const struct hopper_narrow_config *config, int64_t m, int64_t n, int64_t k,
                             int64_t l, int sms, struct hopper_narrow_layout *layout);

/* The same for a kernel that adds up the tile's vectors `together` at a time in a CTA; their number is a
 * multiple. */
int64_t hopper_narrow_layout_together(const struct hopper_narrow_config *config, int together, int64_t m,
                                      int64_t n, int64_t k, int64_t l, int sms,
                                      struct hopper_narrow_layout *layout);

/* The predicted time of a call with that layout, in picoseconds.  It uses figures fitted to whole calls of 8 to
 * 32 rows; layouts are chosen by figures fitted to the main loop with 8 rows. */
int64_t hopper_narrow_call_ps(const struct hopper_narrow_config *config, bool a16, int64_t m, int64_t n,
                              int64_t k, int64_t l, int sms);

/* CTAs that a layout launches for each tile of rows of A. */
int64_t hopper_narrow_ctas_along_n(const struct hopper_narrow_config *config,
                                   const struct hopper_narrow_layout *layout, int64_t n);

#endif
