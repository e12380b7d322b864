/* The CPU backend's packed operands and the kernels on them, one set for each instruction set.
 *
 * An e2m1 value times two is an integer in -12..12, so a group of 16 products is an exact integer dot product.
 * It is taken of A's signed bytes with B's bytes biased by 12, as the u8 x s8 instructions of x86 want; the
 * group's bias, 12 times the sum of its A bytes, is where the integer sum starts.  The group's sum times the
 * product of the two scale factors is exact in fp32 too (12 + 8 significant bits), so the only rounding of a
 * group is the one fp32 addition, fused or not: every instruction set but AMX (tiles.h) gives the same bits.
 */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "../core/backend.h"

enum {
    TILE_ROWS = 4,     /* rows of A in a register tile */
    PANEL_COLS = 16,   /* columns of C, that is rows of B1 and of B2, in a register tile: 16 fp32 lanes */
    QUADS = 4,         /* a group is four quads: the four bytes of a 32-bit lane of a u8 x s8 dot product */
    QUAD_ELEMS = 4,    /* 4 * 4 = NVFP4_GROUP_ELEMS */
    CHUNK_GROUPS = 32, /* groups packed at a time: a panel of both Bs (20 KB) stays in a 32 KB L1 cache */
    VALUE_BIAS = 12,   /* twice the largest e2m1 magnitude */
};

/* One group of TILE_ROWS rows of A. */
struct a_group {
    int8_t twice_value[TILE_ROWS][NVFP4_GROUP_ELEMS];
    int32_t unbias[TILE_ROWS]; /* -VALUE_BIAS times the sum of the row's bytes */
    float scale[TILE_ROWS];    /* scale factor / 4: undoes the factor two of both operands */
};

/* One group of PANEL_COLS rows of one B: byte [quad][col][i] is twice the value of k = 4 * quad + i, biased. */
struct b_group {
    uint8_t biased[QUADS][PANEL_COLS][QUAD_ELEMS];
};

/* CHUNK_GROUPS groups of the same rows of B1 and B2; of the grouped GEMM's one B, of PANEL_COLS rows and of the
 * PANEL_COLS after them. */
struct b_panel {
    _Alignas(64) struct b_group values[2][CHUNK_GROUPS];
    float scale[2][CHUNK_GROUPS][PANEL_COLS];
};

/* fp32 accumulators of a register tile: [0] of A B1^T (the gate), [1] of A B2^T (up); of the grouped GEMM, the
 * first and the second PANEL_COLS columns. */
struct accumulators {
    _Alignas(64) float of[2][TILE_ROWS][PANEL_COLS];
};

/* A, B1 or B2 of one batch, or a group's A or B, as the caller gave it. */
struct operand {
    const uint8_t *fp4; /* first byte of row 0 */
    const uint8_t *scales;
    int64_t k;
    int32_t scale_layout;
};

/* Packed A, a panel, and sums are of the set's own types, whose sizes it tells. */
struct kernels {
    const char *name;   /* what NVFP4_CPU_ISA takes */
    const char *detail; /* what people read */
    int (*supported)(void);
    int tile_rows;        /* of A in a register tile: a multiple of TILE_ROWS */
    int panels;           /* taken at a time */
    int64_t least_rows;   /* of A, from which on the set is the fastest */
    int64_t few_rows;     /* of A, up to which multiply_few takes them: of one tile */
    size_t a_group_bytes; /* of a tile's rows and a group */
    size_t panel_bytes, sums_bytes;
    void (*begin)(void), (*end)(void); /* of a thread's work; or NULL */
    /* Packs all groups of a tile's rows of A (`rows` present, the others zeros) from first_row on. */
    void (*pack_a)(void *packed, const struct operand *a, int64_t first_row, int rows);
    /* Packs `groups` groups from `first_group` on of rows first_row .. first_row + rows - 1 (at most
     * PANEL_COLS, maybe none; missing ones become zeros) of B1 or B2, which is half `which` of the panel. */
    void (*pack_b)(void *panel, int which, const struct operand *b, int64_t first_row, int rows,
                   int64_t first_group, int groups);
    /* Adds the dot products of `groups` groups to a tile's sums, of which `rows` rows matter. */
    void (*multiply)(void *sums, const void *a, const void *panel, int rows, int groups);
    /* Of a block of at most few_rows rows of A the same, without a packed panel: rows first_row .. first_row +
     * PANEL_COLS - 1 of B, to half `which` of the sums; or NULL. */
    void (*multiply_few)(void *sums, int which, const void *a, const struct operand *b, int64_t first_row,
                         int64_t first_group, int groups);
    /* The sums of TILE_ROWS rows from first_row on; NULL where sums are such accumulators. */
    void (*take_sums)(struct accumulators *to, const void *sums, int first_row);
    /* fp16(silu(gate) * up) of `rows` x `cols` of accumulators to c, whose rows are c_stride elements apart. */
    void (*epilogue)(const struct accumulators *accumulators, uint16_t *c, int64_t c_stride, int rows,
                     int cols);
    /* The grouped GEMM's: fp16 of the accumulators, of up to 2 * PANEL_COLS columns. */
    void (*epilogue_plain)(const struct accumulators *accumulators, uint16_t *c, int64_t c_stride, int rows,
                           int cols);
};

/* What the sets with TILE_ROWS rows a tile have in common. */
#define INTEGER_SIZES                                                                                          \
    .tile_rows = TILE_ROWS, .panels = 1, .a_group_bytes = sizeof(struct a_group),                              \
    .panel_bytes = sizeof(struct b_panel), .sums_bytes = sizeof(struct accumulators), .pack_a = pack_a

extern const struct kernels kernels_portable;
#ifdef NVFP4_HAVE_AVX2
extern const struct kernels kernels_avx2;
#endif
#ifdef NVFP4_HAVE_AVX512
extern const struct kernels kernels_avx512;
#endif
#ifdef NVFP4_HAVE_NEON
extern const struct kernels kernels_neon;
#endif
#ifdef NVFP4_HAVE_AMX
extern const struct kernels kernels_amx;
#endif

/* ---- pack.c: shared by the instruction sets ---- */

/* e4m3 magnitude of each byte's low seven bits; the sign bit is ignored; 0x7f is NaN. */
float scale_value(uint8_t byte);

/* The scale factors of four groups from `group` on (a multiple of 4): four consecutive bytes in both layouts.
 */
static inline const uint8_t *scale_quad(const struct operand *b, int64_t row, int64_t group) {
    return b->scales + scale_offset(b->scale_layout, row, group, b->k / NVFP4_GROUP_ELEMS);
}

/* All groups of TILE_ROWS rows of A (`rows` present, the others zeros) from first_row on. */
void pack_a(void *packed, const struct operand *a, int64_t first_row, int rows);

void pack_b_values(void *panel, int which, const struct operand *b, int64_t first_row, int rows,
                   int64_t first_group, int groups);
void pack_b_scales(void *panel, int which, const struct operand *b, int64_t first_row, int rows,
                   int64_t first_group, int groups);

#endif
