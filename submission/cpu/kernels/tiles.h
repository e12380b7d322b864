/* Packed operands in bf16 for instructions that multiply tiles (AMX).
 *
 * An e2m1 value times an e4m3 scale factor has at most six significant bits, so it is exact in bf16 and
 * products are exact in fp32.  Only the sums round, in the instruction's order of additions.
 *
 *   tile   16 rows           64 bytes of each row
 *   B      rows of B         a step: 32 elements of K
 *   A      pairs of K        16 rows of A, the pair of each
 *   sums   rows of B         16 rows of A, fp32
 *
 * B is the instruction's first operand and C comes out transposed: the many rows of B keep their order, and
 * only the few rows of A are transposed.  Of 64 elements of a row, the even ones (the bytes' low nibbles) form
 * one step and the odd ones the next. */
#ifndef CPU_TILES_H
#define CPU_TILES_H

#include "../kernel_set.h"

enum {
    BF16_TILE_ROWS = 16,                         /* rows of A in a tile */
    BF16_ROW_TILES = 2,                          /* tiles of A at a time: each tile of B is used twice */
    BF16_ROWS = BF16_ROW_TILES * BF16_TILE_ROWS, /* rows of A at a time */
    BF16_STEP_K = 32,                            /* K elements per instruction */
    BF16_STEP_GROUPS = BF16_STEP_K / NVFP4_GROUP_ELEMS,
    BF16_PAIRS = BF16_STEP_K / 2,
    BF16_CHUNK_STEPS = CHUNK_GROUPS / BF16_STEP_GROUPS,
    BF16_ROW_BYTES = BF16_STEP_K * 2, /* a row of any tile */
    BF16_LEAST_ROWS = 8, /* measured: 2 cores of a Xeon, 4096 x 7168 (shark_tank/data/cpu_amx.json) */
    BF16_PANELS = 8,     /* panels at a time: they stay in a 2 MB L2 cache and share each chunk of A */
};

/* A's values are packed times BF16_OF_A and B's times BF16_OF_B; their product is 1.  So scaled, B's bf16 has
 * fp16's exponent bits and is never subnormal. */
#define BF16_OF_A 0x1p+112f
#define BF16_OF_B 0x1p-112f

/* A step of BF16_ROWS rows of A: [tile][pair of K][row of A][element of the pair]. */
struct bf16_a_step {
    _Alignas(64) uint16_t of[BF16_ROW_TILES][BF16_PAIRS][BF16_TILE_ROWS][2];
};

/* A step of PANEL_COLS rows of B1 or B2. */
struct bf16_b_step {
    _Alignas(64) uint16_t of[PANEL_COLS][BF16_STEP_K];
};

/* A chunk of PANEL_COLS rows of B1 and of B2. */
struct bf16_panel {
    struct bf16_b_step of[2][BF16_CHUNK_STEPS];
};

/* [B1 A^T, B2 A^T][tile][row of B][row of A] */
struct bf16_sums {
    _Alignas(64) float of[2][BF16_ROW_TILES][PANEL_COLS][BF16_TILE_ROWS];
};

/* Step and place within it of element `element`, counted in a row from a multiple of 64. */
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

/* Portable C, with the same results as the AVX-512 versions in kernels_amx.c. */
void bf16_pack_a(void *packed, const struct operand *a, int64_t first_row, int rows);
void bf16_pack_b(void *panel, int which, const struct operand *b, int64_t first_row, int rows,
                 int64_t first_group, int groups);
void bf16_take_sums(struct accumulators *to, const void *sums, int first_row);

#endif
