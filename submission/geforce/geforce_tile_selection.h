/* Tile selection: which configuration a problem runs with.  Host only, pure, tested without a GPU. */
#ifndef GEFORCE_TILE_SELECTION_H
#define GEFORCE_TILE_SELECTION_H

#include "../gpu/gpu_tiles.h"
#include "grouped/geforce_grouped_config.h"

enum { GEFORCE_TILES = GPU_COUNT_TILES(GEFORCE_CONFIGS) };
enum { GEFORCE_GROUPED_TILES = GPU_COUNT_TILES(GEFORCE_GROUPED_CONFIGS) };
extern const struct geforce_config geforce_configs[GEFORCE_TILES];
extern const struct geforce_config geforce_grouped_configs[GEFORCE_GROUPED_TILES];

/* The predicted cycles behind the choice.  They are an SM's, because these chips differ in clock and number of
 * SMs (48 to 188), but hardly in the SM. */
extern const struct geforce_costs {
    int64_t macs_per_cycle;       /* an SM's, dense fp4 */
    int64_t load_bytes_per_cycle; /* an SM's copies */
    int64_t tile_cycles;          /* a tile's start and end */
} geforce_costs;

/* Tiles of C that a configuration computes.  Each has a CTA for all of its K: shared K is faster for many rows
 * alone (simulated, shark_tank/data/README.md, shared K). */
int64_t geforce_tiles(const struct geforce_config *config, int64_t m, int64_t n, int64_t l);

/* The predicted cycles of the busiest SM: its tiles, each with a start, an end, and stages as long as their
 * copies or their products, whichever take longer. */
int64_t geforce_tile_cost(const struct geforce_config *config, int64_t m, int64_t n, int64_t k, int64_t l,
                          int sms);

/* The index of the cheapest configuration on a chip with `sms` SMs, the first listed among equals. */
int geforce_select_tile(int64_t m, int64_t n, int64_t k, int64_t l, int sms);

/* The name of configuration number `index`, or NULL past the last one. */
const char *geforce_tile_name(int index);

/* The predicted cycles of one tile of the grouped GEMM, from start to end. */
int64_t geforce_grouped_tile_cycles(const struct geforce_config *config, int64_t k);

/* The name of the grouped GEMM's configuration number `index`, or NULL past the last one. */
const char *geforce_grouped_tile_name(int index);

#endif
