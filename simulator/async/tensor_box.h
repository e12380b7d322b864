/* Boxes: the bytes of a tensor that one instruction copies, and their layout in shared memory. */
#ifndef SIM_ASYNC_TENSOR_BOX_H
#define SIM_ASYNC_TENSOR_BOX_H

#include "tensor_map.h"

#define MAX_ROW_BYTES 2048 /* longest row of a box: 256 elements of 8 bytes */
#define ROWS_AT_ONCE  4    /* rows of tile::gather4 and tile::scatter4 */

/* PTX ISA, Tensors: the tensor access modes. */
enum tensor_mode { TENSOR_TILE, TENSOR_ROWS, TENSOR_IM2COL, TENSOR_IM2COL_W };

/* The operands of an instruction, besides its tensor map, that select the box. */
struct tensor_place {
    enum tensor_mode mode;
    int64_t at[MAX_RANK];        /* coordinates in elements; TENSOR_ROWS: only dimension 0 */
    int64_t rows[ROWS_AT_ONCE];  /* TENSOR_ROWS */
    int64_t offset[MAX_SPATIAL]; /* TENSOR_IM2COL: of W, H, D; TENSOR_IM2COL_W: of W only */
    uint32_t halo;               /* TENSOR_IM2COL_W: pixels beyond the column */
};

struct tensor_box {
    struct sim_tensor_map map;
    struct tensor_place place;
    uint32_t row_elements;     /* box extent in dimension 0 */
    uint32_t row_bytes;        /* in global memory */
    uint32_t shared_row_bytes; /* in shared memory, before padding to the swizzle's width */
    uint32_t pitch;            /* bytes from row to row in shared memory */
    uint32_t rows;
    uint32_t bytes; /* bytes that the barrier counts; fewer than shared memory holds for padded types */
};

/* True if the coordinates are legal for the map; otherwise `message` says why not. */
bool tensor_place_check(const struct sim_tensor_map *map, const struct tensor_place *place, bool store,
                        char *message, size_t room);
void tensor_box_make(const struct sim_tensor_map *map, const struct tensor_place *place,
                     struct tensor_box *box);
/* The part of a box's row that lies inside the tensor. */
struct box_row {
    uint32_t first, bytes; /* within the row; bytes 0: all of it is outside */
    uint64_t address;      /* in global memory */
};
struct box_row tensor_box_row(const struct tensor_box *box, uint32_t row);
/* Convert a row between its packed form in global memory and its form in shared memory (fp4 and fp6 with
 * padding). */
void tensor_row_to_shared(const struct tensor_box *box, const uint8_t *packed, uint8_t *row);
void tensor_row_from_shared(const struct tensor_box *box, const uint8_t *row, uint8_t *packed);
/* The swizzled address of a byte of shared memory. */
uint32_t tensor_swizzle(const struct tensor_box *box, uint32_t address);
/* Bytes that the swizzle keeps together. */
uint32_t tensor_swizzle_atom(const struct tensor_box *box);

#endif
