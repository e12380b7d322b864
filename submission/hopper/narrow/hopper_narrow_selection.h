/* The division of a problem with few rows of A among the chip's SMs.  Host only, pure, tested without a GPU. */
#ifndef HOPPER_NARROW_SELECTION_H
#define HOPPER_NARROW_SELECTION_H

#include <stdbool.h>

#include "../../gpu/gpu_tiles.h"
#include "hopper_narrow_config.h"

enum { HOPPER_NARROW_TILES = GPU_COUNT_TILES(HOPPER_NARROW_CONFIGS) };
extern const struct hopper_narrow_config hopper_narrow_configs[HOPPER_NARROW_TILES];

/* The CTAs, one an SM, that run at once, by how many share K; 0 if no such cluster fits. */
struct hopper_narrow_room {
    int ctas[NARROW_MAX_SPLIT_K + 1];
};

/* The room of a chip with `sms` SMs whose driver does not say how many clusters run at once. */
struct hopper_narrow_room hopper_narrow_room_of(int sms);

/* What a layout is for: n columns of gate and up, or half as many as a plain product has. */
struct hopper_narrow_question {
    int64_t m, n, k, l;
    int a_type;
    int together; /* vectors of sums that one CTA adds up; the tile's number of vectors is a multiple */
};

/* The index of the narrow tile for a problem, whose A has 16 bits if a16: the one with the fewest rows that
 * holds all rows of A; the largest only, and for up to 128 rows, if its predicted time is at most `wide_ps`,
 * that of the other kernels; else -1. Two tiles hold 16 rows: the one of less predicted time is taken. */
int hopper_select_narrow_tile(bool a16, int64_t m, int64_t n, int64_t k, int64_t l,
                              const struct hopper_narrow_room *room, int64_t wide_ps);

/* Finds the layout of least predicted time of a call with tile number `tile`, among equals the one with more
 * warps, then the first, and returns that time.
 *
 * A CTA takes the rows of warps_n warps of B1 and B2 and a share of K, whose steps its warps_k warps along K
 * take in turn; warps belong to an SM's schedulers in turn.  One CTA fits an SM, so waves of as many CTAs as
 * there is room for count whole.  The search tries all numbers of CTAs that share K, more than two only where
 * all run in one wave; each with the fewest whole teams along N that let all CTAs run at once, else
 * NARROW_MAX_WARPS, and with any number of warps along K. */
int64_t hopper_narrow_layout(int tile, const struct hopper_narrow_question *question,
                             const struct hopper_narrow_room *room, struct hopper_narrow_layout *layout);

/* The predicted time of a call, in picoseconds. */
int64_t hopper_narrow_call_ps(int tile, bool a16, int64_t m, int64_t n, int64_t k, int64_t l,
                              const struct hopper_narrow_room *room);

/* CTAs that a layout launches for each tile of rows of A. */
int64_t hopper_narrow_ctas_along_n(const struct hopper_narrow_config *config,
                                   const struct hopper_narrow_layout *layout, int64_t n);

#endif
