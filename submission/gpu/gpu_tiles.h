/* Makes a table of a backend's list of tiles, an X macro in its config, for host code that needs no CUDA.
 *
 *     enum { HOPPER_TILES = GPU_COUNT_TILES(HOPPER_CONFIGS) };
 *     const struct hopper_config hopper_configs[HOPPER_TILES] = {HOPPER_CONFIGS(GPU_TILE_ROW)};
 *
 * A row's struct begins with the tile's name, and has the list's columns in order after it. */
#ifndef GPU_TILES_H
#define GPU_TILES_H

#define GPU_TILE_ROW(name, ...) {#name, __VA_ARGS__},
#define GPU_ONE_TILE(...)       +1
#define GPU_COUNT_TILES(list)   (0 list(GPU_ONE_TILE))

/* The name in row `index` of a table, or NULL past its end. */
#define GPU_TILE_NAME(table, index)                                                                            \
    ((index) >= 0 && (index) < (int)(sizeof(table) / sizeof *(table)) ? (table)[index].name : NULL)

#endif
