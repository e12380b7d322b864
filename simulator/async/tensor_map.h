/* Tensor maps: encoding, decoding and checking the 128 bytes that sim_encode_tensor_map makes. */
#ifndef SIM_ASYNC_TENSOR_MAP_H
#define SIM_ASYNC_TENSOR_MAP_H

#include "async.h"

#define MAX_RANK    5
#define MAX_SPATIAL 3 /* dimensions between channels and images: W, H and D */

/* Values of CUtensorMapSwizzle (cuda.h). */
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

/* Values of CUtensorMapDataType (cuda.h): the types that copies round, and the packed types. */
enum {
    TYPE_F16 = 6,
    TYPE_TF32 = 11,
    TYPE_TF32_FTZ,
    TYPE_16U4_ALIGN8B,
    TYPE_16U4_ALIGN16B,
    TYPE_16U6_ALIGN16B,
    TENSOR_TYPES
};

enum map_state {
    MAP_NONE,    /* not a tensor map */
    MAP_BLANK,   /* 128 zeros, which tensormap.replace may begin with */
    MAP_CHANGED, /* bytes altered by something other than encoding or tensormap.replace */
    MAP_READ     /* a valid map, decoded */
};
enum map_state tensor_map_read(const uint8_t *bytes, struct sim_tensor_map *map);
/* Encodes a map after tensormap.replace, which need not be legal yet; false if a field cannot be encoded. */
bool tensor_map_write(uint8_t *bytes, const struct sim_tensor_map *map);
/* True if a map is legal; otherwise `message` says why not. */
bool tensor_map_check(const struct sim_tensor_map *map, char *message, size_t room);
/* Elements per unit (16 for packed types, else 1), and the unit's bytes in global and shared memory. */
void tensor_unit(uint32_t type, uint32_t *elements, uint32_t *global, uint32_t *shared);
uint32_t tensor_swizzle_width(uint32_t swizzle); /* in bytes; 0: no swizzle */

#endif
