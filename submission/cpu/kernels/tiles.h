/* Operands in bf16 for instructions that multiply tiles (AMX).
 *
 * An e2m1 value times an e4m3 scale factor has at most six significant bits: exact in bf16.  Products are then
 * exact in fp32, and only sums round, in the order that the instruction takes (tile_instructions.h).
 *
 *   tile   rows             of a row, 64 bytes
 *   B      16 rows of B     a step: 32 elements of K
 *   A      16 pairs of K    16 rows of A, the pair of each
 *   sums   16 rows of B     16 rows of A, fp32
 *
 * So the instruction's first operand is B, and C comes transposed: the many rows of B are dequantized as they
 * lie, and the few of A change places with K.  Of 64 elements of a row the even ones are a step, and the odd
 * ones the next: the low and the high halves of bytes.
 */
#ifndef CPU_TILES_H
#define CPU_TILES_H

#include "../kernel_set.h"

enum {
    BF16_TILE_ROWS = 16,                         /* of A */
    BF16_ROW_TILES = 2,                          /* side by side: each tile of B is used twice */
    BF16_ROWS = BF16_ROW_TILES * BF16_TILE_ROWS, /* of A in a register tile */
    BF16_STEP_K = 32,                            /* of one instruction */
    BF16_STEP_GROUPS = BF16_STEP_K / NVFP4_GROUP_ELEMS,
    BF16_PAIRS = BF16_STEP_K / 2,
    BF16_CHUNK_STEPS = CHUNK_GROUPS / BF16_STEP_GROUPS,
    BF16_ROW_BYTES = BF16_STEP_K * 2, /* of every tile */
    BF16_LEAST_ROWS = 8, /* measured: 2 cores of a Xeon, 4096 x 7168 (shark_tank/data/cpu_amx.json) */
    BF16_PANELS = 8,     /* at a time: a chunk of A comes once for all of them, which stay in a 2 MB L2 cache */
};

/* A's values are packed times the first, B's times the second, which products undo: B's are then fp16's bits
 * with the exponent's bias of bf16, and normal. */
#define BF16_OF_A 0x1p+112f
#define BF16_OF_B 0x1p-112f

/* A step of BF16_ROWS rows of A: [tile][pair of K][row of A][of the pair]. */
struct bf16_a_step {
    _Alignas(64) uint16_t of[BF16_ROW_TILES][BF16_PAIRS][BF16_TILE_ROWS][2];
};

/* A step of sixteen rows of B1 or B2. */
struct bf16_b_step {
    _Alignas(64) uint16_t of[PANEL_COLS][BF16_STEP_K];
};

/* A chunk of the same rows of B1 and B2. */
struct bf16_panel {
    struct bf16_b_step of[2][BF16_CHUNK_STEPS];
};

/* [B1 A^T, B2 A^T][tile][row of B][row of A] */
struct bf16_sums {
    _Alignas(64) float of[2][BF16_ROW_TILES][PANEL_COLS][BF16_TILE_ROWS];
};

/* Of a row's elements from a multiple of 64 on: which of two steps has element `element`, and where. */
static inline int bf16_step_of(int element) {
    return element % 2;
}
static inline int bf16_place_in_step(int element) {
    return element / 2;
}

#define BF16_SIZES                                                                                             \
    .tile_rows = BF16_ROWS, .panels = BF16_PANELS, .least_rows = BF16_LEAST_ROWS,                              \
    .a_group_bytes = sizeof(struct bf16_a_step) / BF16_STEP_GROUPS, .panel_bytes = sizeof(struct bf16_panel),  \
    .sums_bytes = sizeof(struct bf16_sums)

/* In portable C, as the AVX-512 ones do: the same bits. */
void bf16_pack_a(void *packed, const struct operand *a, int64_t first_row, int rows);
void bf16_pack_b(void *panel, int which, const struct operand *b, int64_t first_row, int rows,
                 int64_t first_group, int groups);
void bf16_take_sums(struct accumulators *to, const void *sums, int first_row);

#endif
