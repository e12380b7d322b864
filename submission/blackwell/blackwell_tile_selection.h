/* Tile selection: which configuration a problem runs with.  Host only, pure, tested without a GPU. */
#ifndef BLACKWELL_TILE_SELECTION_H
#define BLACKWELL_TILE_SELECTION_H

#include <stdbool.h>

#include "../gpu/gpu_tiles.h"
#include "extended/blackwell_extended_config.h"

enum { BLACKWELL_TILES = GPU_COUNT_TILES(BLACKWELL_CONFIGS) };
enum { BLACKWELL_GROUPED_TILES = GPU_COUNT_TILES(BLACKWELL_GROUPED_CONFIGS) };
enum { BLACKWELL_TRANSPOSED_TILES = GPU_COUNT_TILES(BLACKWELL_TRANSPOSED_CONFIGS) };
extern const struct blackwell_config blackwell_grouped_configs[BLACKWELL_GROUPED_TILES];
extern const struct blackwell_config blackwell_transposed_configs[BLACKWELL_TRANSPOSED_TILES];
enum { BLACKWELL_FEW_ROWS_TILES = GPU_COUNT_TILES(BLACKWELL_FEW_ROWS_CONFIGS) };
extern const struct blackwell_config blackwell_few_rows_configs[BLACKWELL_FEW_ROWS_TILES];
extern const struct blackwell_config blackwell_configs[BLACKWELL_TILES];

/* The predicted times behind the choice, in picoseconds. */
extern const struct blackwell_costs {
    int64_t load_ps_per_kb;      /* a CTA's copies */
    int64_t mma_ps_per_column;   /* both products of a step of K, for each column of the tile */
    int64_t wave_ps;             /* start and end of a wave of CTAs */
    int64_t reduction_ps_per_kb; /* the DSMEM reduction of a split K, for each KB that leaves a CTA */
    int64_t memory_ps_per_kb;    /* the chip's memory */
    int64_t sharer_ps, part_ps;  /* of tiles for few rows */
} blackwell_costs;

/* CTAs that a configuration launches: whole clusters; CTAs of the last ones may be out of bounds. */
int64_t blackwell_ctas(const struct blackwell_config *config, int64_t m, int64_t n, int64_t l);

/* The predicted time in picoseconds: waves of CTAs, one an SM, times a CTA's stages, each as long as its copies
 * or its products, whichever takes longer; plus for each wave a start, an end and, with split K, the DSMEM
 * reduction.  INT64_MAX if a share of K would be empty, or no cluster can run. */
int64_t blackwell_tile_cost_ps(const struct blackwell_config *config, int64_t m, int64_t n, int64_t k,
                               int64_t l, int clusters_at_once);

/* The number of clusters that run at once, a CTA on each SM, if the SMs lie as is assumed for a B200. */
int blackwell_clusters_at_once(const struct blackwell_config *config, int sms);

/* The index of the cheapest configuration, the first listed among equals; clusters_at_once[i] clusters of
 * configuration i run at once. */
int blackwell_select_tile(int64_t m, int64_t n, int64_t k, int64_t l, const int *clusters_at_once);

/* The name of configuration number `index`, or NULL past the last one. */
const char *blackwell_tile_name(int index);

/* The predicted time in picoseconds of one tile of the grouped GEMM, from start to end. */
int64_t blackwell_grouped_tile_ps(const struct blackwell_config *config, int64_t k);

/* The same for a transposed tile and a group of m rows. */
int64_t blackwell_transposed_tile_ps(const struct blackwell_config *config, int64_t m, int64_t k);

/* The columns of a transposed tile's MMA for a group of m rows: whole granules, and the same in all of its
 * tiles. */
int64_t blackwell_transposed_columns(const struct blackwell_config *config, int64_t m);

/* True if an extended GEMM takes a tile for few rows, if there is one for its operands. */
bool blackwell_has_few_rows(int64_t m, int64_t k);

/* Columns of C in such a tile. */
int64_t blackwell_few_rows_columns(const struct blackwell_config *config, bool gated);

/* The predicted time in picoseconds of a call with such tiles; INT64_MAX if no cluster can run. */
int64_t blackwell_few_rows_cost_ps(const struct blackwell_config *config, bool gated, int64_t m, int64_t n,
                                   int64_t k, int clusters_at_once);

/* The name of the grouped GEMM's configuration number `index`, or NULL past the last one. */
const char *blackwell_grouped_tile_name(int index);

/* The same for the transposed tiles. */
const char *blackwell_transposed_tile_name(int index);

#endif
