/* What the host sides of the grouped GEMMs share: limits, the time of a list of tiles, and the call. */
#ifndef GPU_GROUPED_H
#define GPU_GROUPED_H

#include <stdbool.h>

#include "../core/backend.h"
#include "permute_scales.h"

/* Refuses groups that are too large for a GPU backend, before anything is counted in tiles or picoseconds:
 * sizes, or scale tiles of a tensor, that coordinates of 32 bits do not reach, or so many rows in all. */
int32_t gpu_check_groups(const char *backend, const struct problem *groups, int64_t count);

/* Refuses a list of more tiles than a grid has CTAs along x. */
int32_t gpu_check_ctas(const char *backend, int64_t ctas);

/* Tiles of one group: how many, and the predicted time of each. */
struct tile_class {
    int64_t tiles, tile_ps;
};

/* The predicted time in picoseconds of `count` classes of tiles on so many units (SMs, or clusters), in that
 * order: each tile goes to the unit that is free first.  Where there are many times more tiles than units:
 * their sum shared equally, and half of the first. */
int64_t gpu_schedule_ps(const struct tile_class *classes, int64_t count, int units);

/* --- where one tile cuts all groups --- */

/* A group and its tiles, so many along its rows; where its scale factors are, permuted, in scratch memory. */
struct tiled_group {
    const struct problem *problem;
    struct tile_class tiles;
    int64_t tiles_m;
    int64_t sfa_offset, sfb_offset;
};

struct tiled_groups {
    int tile, sms;                                      /* sms: of the device */
    struct tiled_group group[CUSTOM_KERNEL_MAX_GROUPS]; /* the longest tiles first */
    int64_t count, tiles, scratch_bytes;
    bool permute_scales;
};

/* What a backend's tiles are, by their numbers. */
struct grouped_tiling {
    const char *backend, *variable; /* variable: of the environment, names a tile */
    const char *(*name)(int tile);  /* NULL from the last one on */
    int64_t (*rows)(int tile);
    int64_t (*columns)(int tile);
    int64_t (*tile_ps)(int tile, int64_t k); /* or in another unit: only compared */
    int (*units)(int tile, int sms);         /* CTAs or clusters, that run at the same time */
    int (*ctas_of_unit)(int tile);
    int64_t most_groups; /* of a launch */
    /* Encodes, permutes and multiplies `count` groups from number `first` on, at most `most_groups`. */
    int32_t (*launch_groups)(const struct tiled_groups *tiled, int64_t first, int64_t count, uint8_t *scratch);
};

/* struct backend's `run_grouped`: checks the groups' limits, cuts them by the tile that the environment names,
 * else by that of the least predicted time on the current device (of equals the first one listed), gets scratch
 * memory for scale factors that are not blocked yet, and launches all groups. */
int32_t gpu_run_grouped(const struct grouped_tiling *tiling, const struct problem *groups, int64_t count);

/* The group's scale factors as a kernel takes them: the caller's, or permuted ones. */
const uint8_t *gpu_group_sfa(const struct tiled_groups *tiled, const struct tiled_group *group,
                             const uint8_t *scratch);
const uint8_t *gpu_group_sfb(const struct tiled_groups *tiled, const struct tiled_group *group,
                             const uint8_t *scratch);

/* Launches the backend's kernel that permutes them, once for each of `count` groups from number `first` on that
 * need it. */
int32_t gpu_launch_groups_permute_scales(const struct tiled_groups *tiled, int64_t first, int64_t count,
                                         const void *kernel, uint8_t *scratch, const char *pdl_variable);

#endif
