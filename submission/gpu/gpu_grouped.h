/* Host code that the grouped GEMMs share: limits, and the call of backends that cut all groups by one tile. */
#ifndef GPU_GROUPED_H
#define GPU_GROUPED_H

#include <stdbool.h>

#include "../core/backend.h"
#include "gpu_scales.h"
#include "gpu_schedule.h"

/* The variable of the environment that names the grouped GEMM's tile. */
#define GROUPED_CONFIG_VARIABLE "NVFP4_GROUPED_CONFIG"

/* Refuses groups that are too large for a GPU backend, before anything is counted in tiles or picoseconds:
 * sizes, scale tiles of a tensor, or rows in all that 32-bit coordinates do not reach. */
int32_t gpu_check_groups(const char *backend, const struct problem *groups, int64_t count);

/* Refuses more CTAs than a grid has along x. */
int32_t gpu_check_ctas(const char *backend, int64_t ctas);

/* --- one tile for all groups --- */

struct tiled_group {
    const struct problem *problem;
    struct tile_class tiles;
    int64_t tiles_m; /* tiles along the group's rows */
    struct gpu_scales scales;
    int64_t scales_offset; /* start of their copies in scratch memory */
};

struct tiled_groups {
    int tile, sms;                            /* sms: SMs of the device */
    struct tiled_group group[GROUPS_AT_ONCE]; /* the longest tiles first */
    int64_t count, tiles, scratch_bytes;
};

/* A backend's tiles, by their numbers. */
struct grouped_tiling {
    const char *backend;
    const char *(*name)(int tile); /* NULL from the last one on */
    int64_t (*rows)(int tile);
    int64_t (*columns)(int tile);
    int64_t (*tile_ps)(int tile, const struct problem *group); /* any unit will do: times are only compared */
    int (*units)(int tile, int sms);                           /* CTAs or clusters that run at the same time */
    int (*ctas_of_unit)(int tile);
    int64_t most_groups; /* groups of a launch */
    /* Encodes, permutes and multiplies `count` groups from number `first` on, at most `most_groups`. */
    int32_t (*launch_groups)(const struct tiled_groups *tiled, int64_t first, int64_t count);
};

/* struct backend's `run_grouped`: checks the groups' limits; cuts them by the tile that the environment names,
 * else by the tile of least predicted time on the current device, the first listed among equals; gets scratch
 * memory for scale factors that have to be permuted; and launches all groups. */
int32_t gpu_run_grouped(const struct grouped_tiling *tiling, const struct problem *groups, int64_t count);

/* struct backend's `check_grouped`. */
int32_t gpu_check_grouped(const struct grouped_tiling *tiling, const struct problem *groups, int64_t count);

/* Permutes the scale factors of `count` groups from number `first` on with the backend's kernel, a launch for
 * each group that needs it. */
int32_t gpu_permute_groups_scales(const struct tiled_groups *tiled, int64_t first, int64_t count,
                                  const void *kernel, const char *pdl_variable);

#endif
