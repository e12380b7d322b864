/* Boxes: which bytes of a tensor an instruction copies, and where they lie in shared memory. */
#ifndef SIM_ASYNC_TENSOR_BOX_H
#define SIM_ASYNC_TENSOR_BOX_H

#include "tensor_map.h"

#define MAX_ROW_BYTES 2048 /* a box's: 256 elements of 8 bytes */
#define ROWS_AT_ONCE  4    /* of tile::gather4 and tile::scatter4 */

/* PTX ISA, Tensors: the tensor access modes. */
enum tensor_mode { TENSOR_TILE, TENSOR_ROWS, TENSOR_IM2COL, TENSOR_IM2COL_W };

/* What an instruction says beside its tensor map. */
struct tensor_place {
    enum tensor_mode mode;
    int64_t at[MAX_RANK];        /* element coordinates; TENSOR_ROWS: of dimension 0 alone */
    int64_t rows[ROWS_AT_ONCE];  /* TENSOR_ROWS */
    int64_t offset[MAX_SPATIAL]; /* TENSOR_IM2COL: from W on; TENSOR_IM2COL_W: of W */
    uint32_t halo;               /* TENSOR_IM2COL_W: pixels beyond the column */
};

struct tensor_box {
    struct sim_tensor_map map;
    struct tensor_place place;
    uint32_t row_elements;     /* of the innermost dimension */
    uint32_t row_bytes;        /* in global memory */
    uint32_t shared_row_bytes; /* in shared memory, without padding to the swizzle's width */
    uint32_t pitch;            /* from row to row in shared memory */
    uint32_t rows;
    uint32_t bytes; /* counted by the barrier; of padded types fewer than there are in shared memory */
};

/* Whether the place is one that the map has; else why not. */
bool tensor_place_check(const struct sim_tensor_map *map, const struct tensor_place *place, bool store,
                        char *message, size_t room);
void tensor_box_make(const struct sim_tensor_map *map, const struct tensor_place *place,
                     struct tensor_box *box);
/* Row number `row` of the box: which part of it lies inside the tensor, in bytes from the row's start.
 * *address is that part's; returns false where all of it is outside. */
bool tensor_box_row(const struct tensor_box *box, uint32_t row, uint32_t *first, uint32_t *bytes,
                    uint64_t *address);
/* Between a packed row of global memory and shared memory's form of it (fp4 and fp6 with padding). */
void tensor_row_to_shared(const struct tensor_box *box, const uint8_t *packed, uint8_t *row);
void tensor_row_from_shared(const struct tensor_box *box, const uint8_t *row, uint8_t *packed);
/* Where the byte at an address of shared memory goes. */
uint32_t tensor_swizzle(const struct tensor_box *box, uint32_t address);
/* Bytes that stay together. */
uint32_t tensor_swizzle_atom(const struct tensor_box *box);

#endif
