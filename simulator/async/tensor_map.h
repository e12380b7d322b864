/* Tensor maps: the 128 bytes that sim_encode_tensor_map makes, and what they describe. */
#ifndef SIM_ASYNC_TENSOR_MAP_H
#define SIM_ASYNC_TENSOR_MAP_H

#include "async.h"

#define MAX_RANK    5
#define MAX_SPATIAL 3 /* dimensions between channels and images: W, H and D */

/* Of the CUDA driver API (cuda.h, CUtensorMapSwizzle). */
enum {
    SWIZZLE_NONE,
    SWIZZLE_32B,
    SWIZZLE_64B,
    SWIZZLE_128B,
    SWIZZLE_128B_ATOM_32B,
    SWIZZLE_128B_ATOM_32B_FLIP_8B,
    SWIZZLE_128B_ATOM_64B,
    SWIZZLES
};

/* Of the CUDA driver API (cuda.h, CUtensorMapDataType): the packed types, and those that copies round. */
enum { TYPE_TF32 = 11, TYPE_TF32_FTZ, TYPE_16U4_ALIGN8B, TYPE_16U4_ALIGN16B, TYPE_16U6_ALIGN16B, TENSOR_TYPES };

enum map_state {
    MAP_NONE,    /* no tensor map */
    MAP_BLANK,   /* 128 zeros, which tensormap.replace may begin with */
    MAP_CHANGED, /* its bytes are not those that the encoding or the last tensormap.replace left */
    MAP_READ
};
enum map_state tensor_map_read(const uint8_t *bytes, struct sim_tensor_map *map);
/* After tensormap.replace: a map that need not be legal yet; false where a field does not fit at all. */
bool tensor_map_write(uint8_t *bytes, const struct sim_tensor_map *map);
/* Whether a map is legal; else why not. */
bool tensor_map_check(const struct sim_tensor_map *map, char *message, size_t room);
/* Elements of a unit (16 for the packed types), and its bytes in global and shared memory. */
void tensor_unit(uint32_t type, uint32_t *elements, uint32_t *global, uint32_t *shared);
uint32_t tensor_swizzle_width(uint32_t swizzle); /* bytes, 0 without */

#endif
