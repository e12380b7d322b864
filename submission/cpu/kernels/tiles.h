/* Operands in bf16 for instructions that multiply tiles (AMX).
 *
 * An e2m1 value times an e4m3 scale factor has at most six significant bits: exact in bf16.  Products are then
 * exact in fp32, and only sums round, in the order that the instruction takes (tile_instructions.h).
 *
 *   tile   rows             of a row, 64 bytes
 *   A      16 rows of A     a step: 32 elements of K
 *   B      16 pairs of K    16 columns of C, the pair of each: row i of B1 or B2 in column i
 *   sums   16 rows of A     16 columns of C, fp32
 */
#ifndef CPU_TILES_H
#define CPU_TILES_H

#include "../kernels.h"

enum {
    BF16_TILE_ROWS = 16,                         /* of A */
    BF16_ROW_TILES = 2,                          /* side by side: each tile of B is used twice */
    BF16_ROWS = BF16_ROW_TILES * BF16_TILE_ROWS, /* of a register tile */
    BF16_STEP_K = 32,                            /* of one instruction */
    BF16_STEP_GROUPS = BF16_STEP_K / NVFP4_GROUP_ELEMS,
    BF16_PAIRS = BF16_STEP_K / 2,
    BF16_CHUNK_STEPS = CHUNK_GROUPS / BF16_STEP_GROUPS,
    BF16_ROW_BYTES = BF16_STEP_K * 2, /* of every tile */
    BF16_LEAST_ROWS = 16, /* measured: 2 cores of a Xeon, 4096 x 7168 (shark_tank/recorded/cpu_amx.json) */
    BF16_PANELS = 8, /* at a time: a chunk of A comes once for all of them, which stay in a 2 MB L2 cache */
};

/* A's values are packed times the first, B's times the second, which products undo: B's are then fp16's bits
 * with the exponent's bias of bf16, and normal. */
#define BF16_OF_A 0x1p+112f
#define BF16_OF_B 0x1p-112f

/* A step of BF16_ROWS rows of A. */
struct bf16_a_step {
    uint16_t of[BF16_ROW_TILES][BF16_TILE_ROWS][BF16_STEP_K];
};

/* A chunk of the same rows of B1 and B2: [which][step][pair of K][row of B][of the pair]. */
struct bf16_panel {
    _Alignas(64) uint16_t of[2][BF16_CHUNK_STEPS][BF16_PAIRS][PANEL_COLS][2];
};

struct bf16_sums {
    _Alignas(64) float of[2][BF16_ROWS][PANEL_COLS]; /* [A B1^T, A B2^T] */
};

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
