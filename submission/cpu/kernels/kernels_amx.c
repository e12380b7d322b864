/* The AMX kernels: AVX-512 dequantizes by way of fp16 into bf16 tiles (tiles.h), AMX multiplies them. */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "../kernel_set.h"
#include "../quantize_rows.h"
#include "avx512.h"
#include "tiles.h"

enum {
    WORD_BYTES = SCALE_TILE_GROUPS * NVFP4_GROUP_ELEMS / 2, /* codes that share a word of four scale factors */
    WORD_STEPS = SCALE_TILE_GROUPS / BF16_STEP_GROUPS,
};

/* The eight tile registers; macros, because the compiler's intrinsics paste the numbers into assembly. */
#define GATE_0  0
#define GATE_1  1
#define UP_0    2
#define UP_1    3
#define A_0     4
#define A_1     5
#define TILE_B1 6
#define TILE_B2 7

/* Linux grants the tile registers on request: arch_prctl(2), Documentation/arch/x86/xstate.rst. */
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA  18

static int supported(void) {
    /* HW: CPUID leaf 7, edx: bit 22 AMX-BF16, 23 AVX512-FP16, 24 AMX-TILE (SDM, volume 2, CPUID). */
    const unsigned int wanted = 1u << 22 | 1u << 23 | 1u << 24;
    unsigned int eax, ebx, ecx, edx;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vbmi") && cpu_has_f16c() &&
           __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & wanted) == wanted &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* Configures all eight tiles of this thread as 16 rows of 64 bytes.  The configuration is constant because GCC
 * 12's intrinsic declares only its first eight bytes as read: stores to a local one would be dropped. */
static void begin(void) {
    _Alignas(64) static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {
        .palette = 1,
        .row_bytes = {BF16_ROW_BYTES, BF16_ROW_BYTES, BF16_ROW_BYTES, BF16_ROW_BYTES, BF16_ROW_BYTES,
                      BF16_ROW_BYTES, BF16_ROW_BYTES, BF16_ROW_BYTES},
        .rows = {BF16_TILE_ROWS, BF16_TILE_ROWS, BF16_TILE_ROWS, BF16_TILE_ROWS, BF16_TILE_ROWS, BF16_TILE_ROWS,
                 BF16_TILE_ROWS, BF16_TILE_ROWS},
    };
    _tile_loadconfig(&config);
}

static void end(void) {
    _tile_release();
}

/* ---- dequantization ---- */

/* Products in fp16; through fp32 if the compiler lacks AVX512-FP16, as in tests.  Exact either way. */
static inline __m512i multiply_halves(__m512i x, __m512i y) {
#ifdef __AVX512FP16__
    return _mm512_castph_si512(_mm512_mul_ph(_mm512_castsi512_ph(x), _mm512_castsi512_ph(y)));
#else
    __m256i halves[2];
    for (int i = 0; i < 2; i++) {
        __m256i of_x = i == 0 ? _mm512_castsi512_si256(x) : _mm512_extracti64x4_epi64(x, 1),
                of_y = i == 0 ? _mm512_castsi512_si256(y) : _mm512_extracti64x4_epi64(y, 1);
        halves[i] = _mm512_cvtps_ph(_mm512_mul_ps(_mm512_cvtph_ps(of_x), _mm512_cvtph_ps(of_y)), 0);
    }
    return _mm512_inserti64x4(_mm512_castsi256_si512(halves[0]), halves[1], 1);
#endif
}

/* The codes in the low nibbles of the high bytes, times the scales, as bf16 times BF16_OF_B.  The permutation
 * reads only a byte's low six bits, of which the table ignores the upper two.  The products are zero or normal
 * in fp16 with at most five fraction bits, so shifting fp16 right by 3 gives bf16 with another bias. */
static inline __m512i dequantize_bytes(__m512i codes, __m512i scales) {
    /* The high byte of each e2m1 code's fp16 value, four times over; the low bytes are zero. */
    const __m512i table = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46,
                                                               (char)0x80, (char)0xb8, (char)0xbc, (char)0xbe,
                                                               (char)0xc0, (char)0xc2, (char)0xc4, (char)0xc6));
    __m512i halves = _mm512_maskz_permutexvar_epi8(0xaaaaaaaaaaaaaaaa, codes, table);
    __m512i products = multiply_halves(halves, scales);
    return _mm512_and_si512(_mm512_srai_epi16(products, 3), _mm512_set1_epi16((short)0x8fff));
}

/* Writes NaN to the elements whose scale factor is NaN: dequantize_bytes() loses it. */
static void spoil(struct bf16_b_step to[static WORD_STEPS], __m512i words) {
    _Alignas(64) uint8_t scales[PANEL_COLS][SCALE_TILE_GROUPS];
    _mm512_store_si512(scales, words);
    for (int i = 0; i < PANEL_COLS * SCALE_TILE_GROUPS; i++) {
        int row = i / SCALE_TILE_GROUPS, first = i % SCALE_TILE_GROUPS * (NVFP4_GROUP_ELEMS / 2);
        for (int j = 0; j < NVFP4_GROUP_ELEMS && scales[row][i % SCALE_TILE_GROUPS] == 0x7f; j++) {
            to[j % WORD_STEPS].of[row][first + j / WORD_STEPS] = 0x7fc0;
        }
    }
}

/* Dequantizes 64 elements of each of `rows` rows, whose scale factors are in `words`, one dword per row. */
static inline void dequantize_words(struct bf16_b_step to[static WORD_STEPS], const uint8_t *fp4,
                                    int64_t row_bytes, __m512i words, int rows) {
    const __m512i undo = _mm512_set1_epi16(0x5c00); /* E4M3_OF_HALF */
    /* Element i of a step belongs to group i / 8. */
    const __m512i group = _mm512_setr_epi64(0, 0, 0x0001000100010001, 0x0001000100010001, 0x0002000200020002,
                                            0x0002000200020002, 0x0003000300030003, 0x0003000300030003);
    const __m512i magnitudes = _mm512_set1_epi8(0x7f);
    __m512i scales[2]; /* fp16, eight rows each */
    words = _mm512_and_si512(words, magnitudes);
    for (int i = 0; i < 2; i++) {
        __m256i bytes = i == 0 ? _mm512_castsi512_si256(words) : _mm512_extracti64x4_epi64(words, 1);
        scales[i] = multiply_halves(_mm512_slli_epi16(_mm512_cvtepu8_epi16(bytes), E4M3_TO_HALF_SHIFT), undo);
    }
#pragma GCC unroll 16
    for (int row = 0; row < rows; row++) {
        __m512i bytes = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(fp4 + row * row_bytes)));
        __m512i of_row = _mm512_permutexvar_epi16(
            _mm512_add_epi16(group, _mm512_set1_epi16((short)(row % 8 * SCALE_TILE_GROUPS))), scales[row / 8]);
        _mm512_store_si512(to[0].of[row], dequantize_bytes(_mm512_slli_epi16(bytes, 8), of_row));
        _mm512_store_si512(to[1].of[row], dequantize_bytes(_mm512_slli_epi16(bytes, 4), of_row));
    }
    if (_mm512_cmpeq_epi8_mask(words, magnitudes) != 0) {
        spoil(to, words);
    }
}

/* ---- packing ---- */

/* Converts the scaling of B (BF16_OF_B) to that of A (BF16_OF_A): exponent + 224, except for zero and NaN. */
static inline __m512i as_of_a(__m512i values) {
    const __m512i magnitudes = _mm512_and_si512(values, _mm512_set1_epi16(0x7fff));
    __mmask32 finite = _mm512_test_epi16_mask(magnitudes, magnitudes) &
                       _mm512_cmplt_epi16_mask(magnitudes, _mm512_set1_epi16(0x7fc0));
    return _mm512_mask_add_epi16(values, finite, values, _mm512_set1_epi16(224 << 7));
}

static void pack_a_steps(void *packed, const struct operand *a, int64_t first_row, int rows) {
    struct bf16_a_step *steps = packed;
    const int64_t groups = a->k / NVFP4_GROUP_ELEMS;
    const __m512i pairs = _mm512_mullo_epi32(_mm512_set1_epi32(BF16_TILE_ROWS),
                                             _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                                                               15)); /* offsets in dwords of a row's pairs */
    for (int tile = 0; tile < BF16_ROW_TILES; tile++) {
        int present = rows - tile * BF16_TILE_ROWS;
        present = present < 0 ? 0 : present < BF16_TILE_ROWS ? present : BF16_TILE_ROWS;
        for (int64_t group = 0; group < groups; group += SCALE_TILE_GROUPS) {
            struct bf16_b_step values[WORD_STEPS];
            _Alignas(64) uint32_t words[PANEL_COLS] = {0};
            const uint8_t *fp4 =
                a->fp4 + (first_row + tile * BF16_TILE_ROWS) * (a->k / 2) + group * (NVFP4_GROUP_ELEMS / 2);
            for (int row = 0; row < present; row++) {
                memcpy(&words[row], scale_quad(a, first_row + tile * BF16_TILE_ROWS + row, group),
                       sizeof words[row]);
            }
            memset(values, 0, sizeof values);
            dequantize_words(values, fp4, a->k / 2, _mm512_load_si512(words), present);
            for (int i = 0; i < WORD_STEPS * BF16_TILE_ROWS; i++) {
                int step = i / BF16_TILE_ROWS, row = i % BF16_TILE_ROWS;
                _mm512_i32scatter_epi32(steps[group / BF16_STEP_GROUPS + step].of[tile][0][row], pairs,
                                        as_of_a(_mm512_load_si512(values[step].of[row])), sizeof(uint32_t));
            }
        }
    }
}

static void pack_b(void *panel, int which, const struct operand *b, int64_t first_row, int rows,
                   int64_t first_group, int groups) {
    if (rows < PANEL_COLS) {
        bf16_pack_b(panel, which, b, first_row, rows, first_group, groups);
        return;
    }
    struct bf16_panel *packed = panel;
    const __m512i offsets = scale_word_offsets(b, first_row, first_group);
    const uint8_t *scales = scale_quad(b, first_row, first_group);
    const uint8_t *fp4 = b->fp4 + first_row * (b->k / 2) + first_group * (NVFP4_GROUP_ELEMS / 2);
    for (int group = 0; group < groups;
         group += SCALE_TILE_GROUPS, fp4 += WORD_BYTES, scales += scale_word_step(b)) {
        dequantize_words(&packed->of[which][group / BF16_STEP_GROUPS], fp4, b->k / 2,
                         _mm512_i32gather_epi32(offsets, scales, 1), PANEL_COLS);
    }
}

/* ---- products ---- */

typedef float sums_tile[BF16_TILE_ROWS];

/* A chunk's sums start at zero and are added here, so that a chain of fp32 additions has at most 16 steps. */
static inline void add_tile(sums_tile *to, sums_tile *from) {
    for (int row = 0; row < PANEL_COLS; row++) {
        _mm512_store_ps(to[row], _mm512_add_ps(_mm512_load_ps(to[row]), _mm512_load_ps(from[row])));
    }
}

/* One tile of rows.  Even and odd steps have separate sums, because a step waits for the last one on the same
 * sums. */
static void multiply_tile(const struct bf16_a_step *steps, const struct bf16_panel *b, int count) {
    for (int i = 0; i < count; i += 2) {
        _tile_loadd(A_0, steps[i].of[0], BF16_ROW_BYTES);
        _tile_loadd(TILE_B1, b->of[0][i].of, BF16_ROW_BYTES);
        _tile_dpbf16ps(GATE_0, TILE_B1, A_0);
        _tile_loadd(TILE_B2, b->of[1][i].of, BF16_ROW_BYTES);
        _tile_dpbf16ps(UP_0, TILE_B2, A_0);
        _tile_loadd(A_1, steps[i + 1].of[0], BF16_ROW_BYTES);
        _tile_loadd(TILE_B1, b->of[0][i + 1].of, BF16_ROW_BYTES);
        _tile_dpbf16ps(GATE_1, TILE_B1, A_1);
        _tile_loadd(TILE_B2, b->of[1][i + 1].of, BF16_ROW_BYTES);
        _tile_dpbf16ps(UP_1, TILE_B2, A_1);
    }
}

static void multiply_two(const struct bf16_a_step *steps, const struct bf16_panel *b, int count) {
    for (int i = 0; i < count; i++) {
        _tile_loadd(A_0, steps[i].of[0], BF16_ROW_BYTES);
        _tile_loadd(A_1, steps[i].of[1], BF16_ROW_BYTES);
        _tile_loadd(TILE_B1, b->of[0][i].of, BF16_ROW_BYTES);
        _tile_loadd(TILE_B2, b->of[1][i].of, BF16_ROW_BYTES);
        _tile_dpbf16ps(GATE_0, TILE_B1, A_0);
        _tile_dpbf16ps(GATE_1, TILE_B1, A_1);
        _tile_dpbf16ps(UP_0, TILE_B2, A_0);
        _tile_dpbf16ps(UP_1, TILE_B2, A_1);
    }
}

static void multiply(void *sums, const void *a, const void *panel, int rows, int groups) {
    struct bf16_sums *acc = sums, chunk;
    const bool few = rows <= BF16_TILE_ROWS;
    _tile_zero(GATE_0);
    _tile_zero(UP_0);
    _tile_zero(GATE_1);
    _tile_zero(UP_1);
    (few ? multiply_tile : multiply_two)(a, panel, groups / BF16_STEP_GROUPS);
    _tile_stored(GATE_0, chunk.of[0][0], BF16_ROW_BYTES);
    _tile_stored(UP_0, chunk.of[1][0], BF16_ROW_BYTES);
    _tile_stored(GATE_1, chunk.of[0][1], BF16_ROW_BYTES);
    _tile_stored(UP_1, chunk.of[1][1], BF16_ROW_BYTES);
    for (int which = 0; which < 2; which++) {
        add_tile(acc->of[which][0], chunk.of[which][0]);
        add_tile(acc->of[which][few ? 0 : 1], chunk.of[which][1]);
    }
}

/* multiply() for one tile of rows and one B, without packing: dequantizes 64 elements of each row of B and
 * multiplies them while they are in the L1 cache. */
static void multiply_few(void *sums, int which, const void *a, const struct operand *b, int64_t first_row,
                         int64_t first_group, int groups) {
    struct bf16_sums *acc = sums;
    const struct bf16_a_step *steps = a;
    struct bf16_b_step words[2][WORD_STEPS]; /* used in turn: tiles may still be loading from the other */
    _Alignas(64) float chunk[2][PANEL_COLS][BF16_TILE_ROWS];
    const __m512i offsets = scale_word_offsets(b, first_row, first_group);
    const uint8_t *scales = scale_quad(b, first_row, first_group);
    const uint8_t *fp4 = b->fp4 + first_row * (b->k / 2) + first_group * (NVFP4_GROUP_ELEMS / 2);
    _tile_zero(GATE_0);
    _tile_zero(GATE_1);
    for (int group = 0; group < groups;
         group += SCALE_TILE_GROUPS, fp4 += WORD_BYTES, scales += scale_word_step(b), steps += WORD_STEPS) {
        struct bf16_b_step *word = words[group / SCALE_TILE_GROUPS % 2];
        dequantize_words(word, fp4, b->k / 2, _mm512_i32gather_epi32(offsets, scales, 1), PANEL_COLS);
        _tile_loadd(TILE_B1, word[0].of, BF16_ROW_BYTES);
        _tile_loadd(A_0, steps[0].of[0], BF16_ROW_BYTES);
        _tile_dpbf16ps(GATE_0, TILE_B1, A_0);
        _tile_loadd(TILE_B2, word[1].of, BF16_ROW_BYTES);
        _tile_loadd(A_1, steps[1].of[0], BF16_ROW_BYTES);
        _tile_dpbf16ps(GATE_1, TILE_B2, A_1);
    }
    _tile_stored(GATE_0, chunk[0], BF16_ROW_BYTES);
    _tile_stored(GATE_1, chunk[1], BF16_ROW_BYTES);
    add_tile(acc->of[which][0], chunk[0]);
    add_tile(acc->of[which][0], chunk[1]);
}

/* bf16_take_sums() with vectors: transposes four rows of A times sixteen rows of B. */
static void take_sums(struct accumulators *to, const void *sums, int first_row) {
    const struct bf16_sums *from = sums;
    for (int which = 0; which < 2; which++) {
        const sums_tile *tile = from->of[which][first_row / BF16_TILE_ROWS];
        const int first = first_row % BF16_TILE_ROWS;
        __m512 quads[4]; /* quads[i]: rows i, 4 + i, 8 + i, 12 + i of B */
        for (int i = 0; i < 4; i++) {
            quads[i] = _mm512_castps128_ps512(_mm_load_ps(&tile[i][first]));
            quads[i] = _mm512_insertf32x4(quads[i], _mm_load_ps(&tile[4 + i][first]), 1);
            quads[i] = _mm512_insertf32x4(quads[i], _mm_load_ps(&tile[8 + i][first]), 2);
            quads[i] = _mm512_insertf32x4(quads[i], _mm_load_ps(&tile[12 + i][first]), 3);
        }
        __m512d low[2], high[2];
        for (int i = 0; i < 2; i++) {
            low[i] = _mm512_castps_pd(_mm512_unpacklo_ps(quads[2 * i], quads[2 * i + 1]));
            high[i] = _mm512_castps_pd(_mm512_unpackhi_ps(quads[2 * i], quads[2 * i + 1]));
        }
        _mm512_store_pd(to->of[which][0], _mm512_unpacklo_pd(low[0], low[1]));
        _mm512_store_pd(to->of[which][1], _mm512_unpackhi_pd(low[0], low[1]));
        _mm512_store_pd(to->of[which][2], _mm512_unpacklo_pd(high[0], high[1]));
        _mm512_store_pd(to->of[which][3], _mm512_unpackhi_pd(high[0], high[1]));
    }
}

const struct kernels kernels_amx = {
    .name = "amx",
    .detail = "AMX",
    .supported = supported,
    BF16_SIZES,
    .begin = begin,
    .end = end,
    .pack_a = pack_a_steps,
    .pack_b = pack_b,
    .multiply = multiply,
    .few_rows = BF16_TILE_ROWS,
    .multiply_few = multiply_few,
    .take_sums = take_sums,
    .epilogue = avx512_epilogue,
    .epilogue_plain = avx512_epilogue_plain,
    .quantize_rows = quantize_rows,
};
