/* Tensor maps: the 128 bytes that sim_encode_tensor_map makes, and the boxes they describe. */
#ifndef SIM_ASYNC_TENSOR_MAP_H
#define SIM_ASYNC_TENSOR_MAP_H

#include "async.h"

#define MAX_RANK      5
#define MAX_ROW_BYTES 2048 /* a box's: 256 elements of 8 bytes */

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

struct tensor_box {
    struct sim_tensor_map map;
    int64_t at[MAX_RANK];      /* element coordinates of the box's corner */
    uint32_t row_elements;     /* of the innermost dimension */
    uint32_t row_bytes;        /* in global memory */
    uint32_t shared_row_bytes; /* in shared memory, without padding to the swizzle's width */
    uint32_t pitch;            /* from row to row in shared memory */
    uint32_t rows;
    uint32_t bytes; /* counted by the barrier; of padded types fewer than there are in shared memory */
};

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
bool tensor_box_make(const struct sim_tensor_map *map, const int64_t *at, struct tensor_box *box);
/* Row number `row` of the box: which part of it lies inside the tensor, in bytes from the row's start.
 * *address is that part's; returns false where all of it is outside. */
bool tensor_box_row(const struct tensor_box *box, uint32_t row, uint32_t *first, uint32_t *bytes,
                    uint64_t *address);
/* Between a packed row of global memory and shared memory's form of it (fp4 and fp6 with padding). */
void tensor_row_to_shared(const struct tensor_box *box, const uint8_t *packed, uint8_t *row);
void tensor_row_from_shared(const struct tensor_box *box, const uint8_t *row, uint8_t *packed);
/* Where byte `offset` of the box goes in shared memory that starts at `base`. */
uint32_t tensor_swizzle(const struct tensor_box *box, uint32_t address);

#endif
