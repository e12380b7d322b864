/* The two layouts of scale factors, for host and device code.
 *
 * A scale factor belongs to a row and a group of 16 elements along K.  CUSTOM_KERNEL_SCALES_ROWS is the array
 * [row][group].  CUSTOM_KERNEL_SCALES_BLOCKED, which the tensor cores of sm_100a read, is an array of tiles
 * [row / 128][group / 4], padded to whole tiles.  A tile covers 128 rows x 4 groups in 512 bytes: 32 entries of
 * 16 bytes; entry e holds the rows e, e + 32, e + 64 and e + 96, a word of four bytes for each row:
 *
 *   byte    0      4      8      12     16     20 ...         508
 *   row     0      32     64     96     1      33 ...         127
 *   group   0..3   0..3   0..3   0..3   0..3   0..3           0..3
 *
 * Source: cuBLAS documentation, "1D Block Scaling Factors Layout". */
#ifndef CORE_SCALE_LAYOUT_H
#define CORE_SCALE_LAYOUT_H

#include <stdint.h>

#include "../custom_kernel.h"

/* e2m1 values that share one scale factor (OCP MX / NVFP4: 16). */
#define NVFP4_GROUP_ELEMS 16

#define SCALE_TILE_ROWS   128
#define SCALE_TILE_GROUPS 4
#define SCALE_TILE_BYTES  512
#define SCALE_TILE_K      (SCALE_TILE_GROUPS * NVFP4_GROUP_ELEMS)
#define SCALE_ENTRIES     32 /* entries of a tile */
#define SCALE_ENTRY_BYTES (SCALE_TILE_BYTES / SCALE_ENTRIES)
#define SCALE_WORD_BYTES  SCALE_TILE_GROUPS /* one row of a tile */
#define SCALE_TILE_WORDS  SCALE_TILE_ROWS
#define SCALE_ENTRY_WORDS (SCALE_ENTRY_BYTES / SCALE_WORD_BYTES)

/* Most scale tiles that a run of `rows` rows, which starts at a multiple of `rows`, can touch: two if it can
 * cross a tile border.  For rows up to 192, in multiples of half a tile. */
#define SCALE_TILES_TOUCHED(rows) (SCALE_TILE_ROWS % (rows) == 0 ? 1 : 2)

#ifdef __CUDACC__
#define ON_HOST_AND_DEVICE __host__ __device__
#else
#define ON_HOST_AND_DEVICE
#endif

/* Address of a row's word, given the address of its tile (both in bytes). */
static inline ON_HOST_AND_DEVICE uint32_t scale_word_at(uint32_t tile, int row) {
    return tile + row % SCALE_ENTRIES * SCALE_ENTRY_BYTES +
           row % SCALE_TILE_ROWS / SCALE_ENTRIES * SCALE_WORD_BYTES;
}

/* Row of word number `word` of a tile: the inverse of scale_word_at(). */
static inline ON_HOST_AND_DEVICE int64_t scale_word_row(int64_t word) {
    return word % SCALE_ENTRY_WORDS * SCALE_ENTRIES + word / SCALE_ENTRY_WORDS;
}

/* Number of tiles along the rows. */
static inline ON_HOST_AND_DEVICE int64_t scale_tile_rows(int64_t rows) {
    return (rows + SCALE_TILE_ROWS - 1) / SCALE_TILE_ROWS;
}

/* Offset in bytes of the scale factor of (row, group) in batch 0; groups = K / 16. */
static inline ON_HOST_AND_DEVICE int64_t scale_offset(int32_t layout, int64_t row, int64_t group,
                                                      int64_t groups) {
    if (layout == CUSTOM_KERNEL_SCALES_ROWS) {
        return row * groups + group;
    }
    int64_t tile = row / SCALE_TILE_ROWS * (groups / SCALE_TILE_GROUPS) + group / SCALE_TILE_GROUPS;
    return tile * SCALE_TILE_BYTES + scale_word_at(0, (int)(row % SCALE_TILE_ROWS)) + group % SCALE_TILE_GROUPS;
}

/* Bytes of one batch of a scale tensor, padding included; groups is a multiple of 4 if the layout is blocked.
 */
static inline ON_HOST_AND_DEVICE int64_t scale_batch_bytes(int32_t layout, int64_t rows, int64_t groups) {
    return (layout == CUSTOM_KERNEL_SCALES_ROWS ? rows : scale_tile_rows(rows) * SCALE_TILE_ROWS) * groups;
}

/* ---- callers' tensors: K is padded to whole blocks, and the quantizer's may be blocks of 8 rows ---- */

#define SMALL_TILE_ROWS  8
#define SMALL_TILE_BYTES (SMALL_TILE_ROWS * SCALE_WORD_BYTES)

/* The number of rows is rounded up to a multiple of this. */
static inline ON_HOST_AND_DEVICE int64_t quantized_rows_unit(int32_t layout) {
    return layout == CUSTOM_KERNEL_SCALES_BLOCKED     ? SCALE_TILE_ROWS
           : layout == CUSTOM_KERNEL_SCALES_BLOCKED_8 ? SMALL_TILE_ROWS
                                                      : 1;
}

/* Scale factors of a row, padding included. */
static inline ON_HOST_AND_DEVICE int64_t scale_row_bytes(int32_t layout, int64_t groups) {
    const int64_t tiles = (groups + SCALE_TILE_GROUPS - 1) / SCALE_TILE_GROUPS;
    return layout == CUSTOM_KERNEL_SCALES_ROWS ? groups : tiles * SCALE_TILE_GROUPS;
}

/* Bytes of one batch of a caller's tensor, rows by rows or in blocks of 128 rows. */
static inline ON_HOST_AND_DEVICE int64_t scale_tensor_bytes(int32_t layout, int64_t rows, int64_t groups) {
    return scale_batch_bytes(layout, rows, scale_row_bytes(layout, groups));
}

/* Offset of the word of a row's groups 4 tile to 4 tile + 3, of `tiles` words in a row; not for rows. */
static inline ON_HOST_AND_DEVICE int64_t quantized_word_offset(int32_t layout, int64_t row, int64_t tile,
                                                               int64_t tiles) {
    if (layout == CUSTOM_KERNEL_SCALES_BLOCKED_8) {
        return (row / SMALL_TILE_ROWS * tiles + tile) * SMALL_TILE_BYTES +
               row % SMALL_TILE_ROWS * SCALE_WORD_BYTES;
    }
    return (row / SCALE_TILE_ROWS * tiles + tile) * SCALE_TILE_BYTES +
           scale_word_at(0, (int)(row % SCALE_TILE_ROWS));
}

#endif
