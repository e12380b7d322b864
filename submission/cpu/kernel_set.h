/* The CPU backend's packed operands, and the interface of its kernels: one set per instruction set.
 *
 * Twice an e2m1 value is an integer in -12..12, so the 16 products of a group are an exact integer dot product.
 * The kernels multiply A's signed bytes with B's bytes plus 12, because x86 has instructions for u8 x s8; the
 * integer sum therefore starts at minus 12 times the sum of the group's A bytes (`unbias`).  The group's sum
 * times both scale factors is exact in fp32 (12 + 8 significant bits).  So a group is rounded once, in the fp32
 * addition, fused or not, and every instruction set except AMX (tiles.h) gives the same bits. */
#ifndef CPU_KERNEL_SET_H
#define CPU_KERNEL_SET_H

#include <stddef.h>
#include <stdint.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "../core/backend.h"

enum {
    TILE_ROWS = 4,     /* rows of A in a register tile */
    PANEL_COLS = 16,   /* columns of C, that is rows of B1 and of B2, in a register tile: 16 fp32 lanes */
    QUADS = 4,         /* quads in a group; a quad is a 32-bit lane of a u8 x s8 dot product */
    QUAD_ELEMS = 4,    /* 4 * 4 = NVFP4_GROUP_ELEMS */
    CHUNK_GROUPS = 32, /* groups packed at a time: a panel of B1 and B2 (20 KB) stays in a 32 KB L1 cache */
    VALUE_BIAS = 12,   /* twice the largest e2m1 magnitude */
};

/* One group of TILE_ROWS rows of A. */
struct a_group {
    int8_t twice_value[TILE_ROWS][NVFP4_GROUP_ELEMS];
    int32_t unbias[TILE_ROWS]; /* -VALUE_BIAS times the sum of the row's bytes */
    float scale[TILE_ROWS];    /* scale factor / 4: undoes the factor 2 of both operands */
};

/* One group of PANEL_COLS rows of one B: byte [quad][col][i] is twice the value of k = 4 * quad + i, biased. */
struct b_group {
    uint8_t biased[QUADS][PANEL_COLS][QUAD_ELEMS];
};

/* CHUNK_GROUPS groups: half 0 of PANEL_COLS rows of B1, half 1 of the same rows of B2.  With one product, both
 * halves are of B, and half 1 holds the next PANEL_COLS rows. */
struct b_panel {
    _Alignas(64) struct b_group values[2][CHUNK_GROUPS];
    float scale[2][CHUNK_GROUPS][PANEL_COLS];
};

/* fp32 accumulators of a register tile: [0] of A B1^T (gate), [1] of A B2^T (up).  With one product, [0] and
 * [1] are the first and the second PANEL_COLS columns. */
struct accumulators {
    _Alignas(64) float of[2][TILE_ROWS][PANEL_COLS];
};

/* One operand in the caller's layout: A, B1 or B2 of one batch, or A or B of a group. */
struct operand {
    const uint8_t *fp4; /* first byte of row 0 */
    const uint8_t *scales;
    int64_t k;
    int32_t scale_layout;
    int32_t type; /* enum custom_kernel_a_type: only A has 16 bits an element, at fp4 and without scales */
};

/* The kernels of one instruction set.  The types of packed A, panel and sums are the set's own; sizes below. */
struct kernels {
    const char *name;   /* the value of NVFP4_CPU_ISA */
    const char *detail; /* text of custom_kernel_backend_query() */
    int (*supported)(void);
    int tile_rows;        /* rows of A in a register tile, a multiple of TILE_ROWS */
    int panels;           /* panels multiplied at a time if packed A is large */
    int64_t least_rows;   /* the set is the fastest one for at least this many rows of A */
    int64_t few_rows;     /* multiply_few computes up to this many rows of A, at most one tile */
    size_t a_group_bytes; /* packed A: one group of a tile's rows */
    size_t panel_bytes, sums_bytes;
    void (*begin)(void), (*end)(void); /* called by each thread around its work; may be NULL */
    /* Packs all groups of a tile of A: `rows` rows from first_row on, and zeros for the tile's other rows. */
    void (*pack_a)(void *packed, const struct operand *a, int64_t first_row, int rows);
    /* Packs `groups` groups from first_group on, of 0 to PANEL_COLS rows of B from first_row on, into half
     * `which` of the panel.  Missing rows become zeros. */
    void (*pack_b)(void *panel, int which, const struct operand *b, int64_t first_row, int rows,
                   int64_t first_group, int groups);
    /* Adds the dot products of `groups` groups to a tile's sums; only the first `rows` rows are used later. */
    void (*multiply)(void *sums, const void *a, const void *panel, int rows, int groups);
    /* The same for a block of at most few_rows rows of A, from B as the caller gave it: adds PANEL_COLS rows of
     * B from first_row on to half `which` of the sums.  May be NULL. */
    void (*multiply_few)(void *sums, int which, const void *a, const struct operand *b, int64_t first_row,
                         int64_t first_group, int groups);
    /* Copies the sums of TILE_ROWS rows from first_row on; NULL if the sums are a struct accumulators. */
    void (*take_sums)(struct accumulators *to, const void *sums, int first_row);
    /* Writes fp16(silu(gate) * up) of rows x cols accumulators to c, whose rows are c_stride elements apart. */
    void (*epilogue)(const struct accumulators *accumulators, uint16_t *c, int64_t c_stride, int rows,
                     int cols);
    /* The grouped GEMM's epilogue: writes fp16 of the accumulators, up to 2 * PANEL_COLS columns. */
    void (*epilogue_plain)(const struct accumulators *accumulators, uint16_t *c, int64_t c_stride, int rows,
                           int cols);
    /* Quantizes rows, with their scale factors' padding along K; returns how many groups 448 cut. */
    int64_t (*quantize_rows)(const struct quantization *quantization, int64_t first_row, int64_t rows);
};

/* Members that all integer sets (all but AMX) share. */
#define INTEGER_SIZES                                                                                          \
    .tile_rows = TILE_ROWS, .panels = 1, .a_group_bytes = sizeof(struct a_group),                              \
    .panel_bytes = sizeof(struct b_panel), .sums_bytes = sizeof(struct accumulators), .pack_a = pack_a

extern const struct kernels kernels_portable;
extern const struct kernels
    kernels_halves; /* only extended_epilogue() follows: it has no epilogues of its own */
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

/* The value of an e4m3 byte without its sign; NaN for 0x7f and 0xff. */
float scale_value(uint8_t byte);

/* Scale factors of a row's groups `group` (a multiple of 4) to `group` + 3: four bytes in either layout. */
static inline const uint8_t *scale_quad(const struct operand *b, int64_t row, int64_t group) {
    return b->scales + scale_offset(b->scale_layout, row, group, b->k / NVFP4_GROUP_ELEMS);
}

/* pack_a and the two halves of pack_b in struct kernels, in portable C. */
void pack_a(void *packed, const struct operand *a, int64_t first_row, int rows);

void pack_b_values(void *panel, int which, const struct operand *b, int64_t first_row, int rows,
                   int64_t first_group, int groups);
void pack_b_scales(void *panel, int which, const struct operand *b, int64_t first_row, int rows,
                   int64_t first_group, int groups);

#ifdef __x86_64__
/* HW: CPUID leaf 1, ecx bit 29 (SDM, volume 2, CPUID).  Clang 14's __builtin_cpu_supports does not know "f16c".
 */
static inline int cpu_has_f16c(void) {
    unsigned int eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
}
#endif

#endif
