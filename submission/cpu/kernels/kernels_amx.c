/* The kernels on AMX's tiles, in bf16; AVX-512 dequantizes into them, in fp16 (tiles.h, BF16_OF_A). */
#include <immintrin.h>
#include <stdbool.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "../kernels.h"
#include "avx512.h"
#include "tiles.h"

enum {
    WORD_ELEMS = SCALE_TILE_GROUPS * NVFP4_GROUP_ELEMS, /* 64: the elements of four scale factors */
    WORD_BYTES = WORD_ELEMS / 2,
    WORD_DWORDS = WORD_BYTES / 4, /* of eight fp4 each */
};

/* The eight tiles, whose numbers the compiler's macros paste into the instructions. */
#define GATE_0  0
#define GATE_1  1
#define UP_0    2
#define UP_1    3
#define A_0     4
#define A_1     5
#define TILE_B1 6
#define TILE_B2 7

/* Linux gives a process the tiles' registers when it asks: arch_prctl(2), Documentation/arch/x86/xstate.rst. */
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA  18

static int supported(void) {
    /* HW: CPUID leaf 7, edx: bit 22 AMX-BF16, 23 AVX512-FP16, 24 AMX-TILE (SDM, volume 2, CPUID). */
    const unsigned int wanted = 1u << 22 | 1u << 23 | 1u << 24;
    unsigned int eax, ebx, ecx, edx;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("f16c") &&
           __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx & wanted) == wanted &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* All eight tiles: 16 rows of 64 bytes.  Of this thread, until end.  Constant: GCC's intrinsic names the first
 * eight bytes alone as read, and stores of the others would be left out (GCC 12, seen: tiles without a row are
 * illegal). */
static void begin(void) {
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } _Alignas(64) config = {
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

/* fp32 of each e2m1 code times 2^8, which scales_of_group lacks. */
static inline __m512 e2m1_table(void) {
    return _mm512_mul_ps(_mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6),
                         _mm512_set1_ps(E4M3_OF_HALF));
}

/* Sixteen fp4 of a row from 8 bytes, as bf16 in their order. */
static inline __m256i dequantize_group(const uint8_t *fp4, float scale, __m512 table) {
    __m128i bytes = _mm_loadl_epi64((const __m128i *)fp4), low = _mm_set1_epi8(0x0f);
    __m128i nibbles =
        _mm_unpacklo_epi8(_mm_and_si128(bytes, low), _mm_and_si128(_mm_srli_epi16(bytes, 4), low));
    __m512 values = _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(nibbles), table);
    __m512 scaled = _mm512_mul_ps(values, _mm512_set1_ps(scale));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(scaled), 16));
}

static void pack_a_steps(void *packed, const struct operand *a, int64_t first_row, int rows) {
    struct bf16_a_step *steps = packed;
    const int64_t groups = a->k / NVFP4_GROUP_ELEMS;
    const __m512 table = e2m1_table();
    for (int r = 0; r < BF16_ROWS; r++) {
        const uint8_t *fp4 = a->fp4 + (first_row + r) * (a->k / 2), *scales = NULL;
        for (int64_t group = 0; group < groups; group++, fp4 += NVFP4_GROUP_ELEMS / 2) {
            uint16_t *to =
                &steps[group / BF16_STEP_GROUPS]
                     .of[r / BF16_TILE_ROWS][r % BF16_TILE_ROWS][group % BF16_STEP_GROUPS * NVFP4_GROUP_ELEMS];
            __m256i halves = _mm256_setzero_si256();
            if (r < rows) {
                if (group % SCALE_TILE_GROUPS == 0) {
                    scales = scale_quad(a, first_row + r, group);
                }
                halves = dequantize_group(
                    fp4, scale_value(scales[group % SCALE_TILE_GROUPS]) * (BF16_OF_A / E4M3_OF_HALF), table);
            }
            _mm256_storeu_si256((__m256i *)to, halves);
        }
    }
}

/* 32 bytes of each of sixteen rows -> dwords[i], dword i of each row. */
static inline void gather_dwords(__m512i dwords[WORD_DWORDS], const uint8_t *fp4, int64_t row_bytes) {
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                  high = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    __m512i quads[8];
    for (int half = 0; half < 2; half++) { /* rows 0 to 3 and 8 to 11, then 4 to 7 and 12 to 15 */
        __m512i rows[4], pairs[4];
        for (int i = 0; i < 4; i++) {
            const uint8_t *row = fp4 + (half * 4 + i) * row_bytes;
            rows[i] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)row)),
                                         _mm256_loadu_si256((const __m256i *)(row + 8 * row_bytes)), 1);
        }
        for (int i = 0; i < 4; i += 2) {
            pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
            pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
        }
        for (int i = 0; i < 2; i++) {
            quads[half * 4 + 2 * i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
            quads[half * 4 + 2 * i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
        }
    }
    for (int i = 0; i < 4; i++) {
        dwords[i] = _mm512_permutex2var_epi64(quads[i], low, quads[4 + i]);
        dwords[4 + i] = _mm512_permutex2var_epi64(quads[i], high, quads[4 + i]);
    }
}

/* ---- B ---- */

/* Products in fp16.  Without the instruction through fp32, which the tests take: they are exact either way. */
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

/* What dequantizes a pair of fp4 of sixteen rows at a time. */
struct pairs_of_fp4 {
    __m512i high_bytes;   /* of the fp16 of each e2m1 code, four times: their low bytes are zero */
    __m512i positions[4]; /* of the two fp4 of a dword's byte 0 to 3, in bits of a quadword, at odd bytes */
};

static inline struct pairs_of_fp4 pairs_of_fp4(void) {
    struct pairs_of_fp4 pairs;
    pairs.high_bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46,
                                                            (char)0x80, (char)0xb8, (char)0xbc, (char)0xbe,
                                                            (char)0xc0, (char)0xc2, (char)0xc4, (char)0xc6));
    for (int byte = 0; byte < 4; byte++) {
        uint64_t of_dword = (uint64_t)(8 * byte) << 8 | (uint64_t)(8 * byte + 4) << 24;
        uint64_t of_second = (uint64_t)(8 * byte + 32) << 8 | (uint64_t)(8 * byte + 36) << 24;
        pairs.positions[byte] = _mm512_set1_epi64((long long)(of_dword | of_second << 32));
    }
    return pairs;
}

/* Scale factor `group` of each row's word as fp16, in both halves of a dword. */
static inline __m512i half_scales_of_group(__m512i words, int group) {
    __m512i bytes = _mm512_and_si512(_mm512_srli_epi32(words, (unsigned)group * 8), _mm512_set1_epi32(0x7f));
    __m512i halves = _mm512_slli_epi32(bytes, E4M3_TO_HALF_SHIFT);
    const __m512i undo = _mm512_set1_epi16(0x5c00); /* E4M3_OF_HALF */
    return multiply_halves(_mm512_or_si512(halves, _mm512_slli_epi32(halves, 16)), undo);
}

/* Byte `byte` of each dword: a pair of fp4 of sixteen rows times the scales, as pairs of bf16 times BF16_OF_B.
 * The products are zero or normal; of ten bits behind the point the last five are zero, so that fp16's exponent
 * and seven bits are bf16's with another bias. */
static inline __m512i dequantize_pairs(__m512i dwords, int byte, __m512i scales,
                                       const struct pairs_of_fp4 *pairs) {
    /* The permutation takes a byte's low six bits alone: two of them are another fp4's. */
    __m512i codes = _mm512_multishift_epi64_epi8(pairs->positions[byte], dwords);
    __m512i halves = _mm512_maskz_permutexvar_epi8(0xaaaaaaaaaaaaaaaa, codes, pairs->high_bytes);
    __m512i products = multiply_halves(halves, scales);
    return _mm512_and_si512(_mm512_srai_epi16(products, 3), _mm512_set1_epi16((short)0x8fff));
}

/* NaN where a scale factor of a word's groups is one, which a shift of fp16 would lose. */
static void spoil(uint16_t (*to)[PANEL_COLS][2], __m512i words) {
    for (int i = 0; i < SCALE_TILE_GROUPS; i++) {
        __m512i bytes = _mm512_and_si512(_mm512_srli_epi32(words, (unsigned)i * 8), _mm512_set1_epi32(0x7f));
        __mmask16 nan = _mm512_cmpeq_epi32_mask(bytes, _mm512_set1_epi32(0x7f));
        for (int byte = 0; byte < NVFP4_GROUP_ELEMS / 2; byte++, to++) {
            _mm512_mask_store_epi32(to, nan, _mm512_set1_epi32(0x7fc07fc0));
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
    const struct pairs_of_fp4 pairs = pairs_of_fp4();
    const __m512i magnitudes = _mm512_set1_epi8(0x7f);
    const __m512i offsets = scale_word_offsets(b, first_row, first_group);
    const uint8_t *scales = scale_quad(b, first_row, first_group);
    const uint8_t *fp4 = b->fp4 + first_row * (b->k / 2) + first_group * (NVFP4_GROUP_ELEMS / 2);
    uint16_t (*to)[PANEL_COLS][2] = packed->of[which][0];
    for (int group = 0; group < groups;
         group += SCALE_TILE_GROUPS, fp4 += WORD_BYTES, scales += scale_word_step(b)) {
        __m512i dwords[WORD_DWORDS], words = _mm512_i32gather_epi32(offsets, scales, 1);
        prefetch_rows(fp4 + PANEL_COLS * (b->k / 2), b->k / 2); /* the next panel's */
        gather_dwords(dwords, fp4, b->k / 2);
        for (int i = 0; i < SCALE_TILE_GROUPS; i++) {
            __m512i factors = half_scales_of_group(words, i);
            for (int byte = 0; byte < NVFP4_GROUP_ELEMS / 2; byte++, to++) {
                _mm512_store_si512(to, dequantize_pairs(dwords[2 * i + byte / 4], byte % 4, factors, &pairs));
            }
        }
        if (_mm512_cmpeq_epi8_mask(_mm512_and_si512(words, magnitudes), magnitudes) != 0) {
            spoil(to - SCALE_TILE_GROUPS * NVFP4_GROUP_ELEMS / 2, words);
        }
    }
}

/* ---- products ---- */

/* A chunk's sums start at zero and are added to the others' in fp32: chains of 16 steps at most. */
static inline void add_tiles(float (*to)[PANEL_COLS], float (*from)[PANEL_COLS], int rows) {
    for (int row = 0; row < rows; row++) {
        _mm512_store_ps(to[row], _mm512_add_ps(_mm512_load_ps(to[row]), _mm512_load_ps(from[row])));
    }
}

/* One tile of rows: even and odd steps have sums of their own, since each waits for the one before it. */
static void multiply_few(const struct bf16_a_step *steps, const struct bf16_panel *b, int count) {
    for (int i = 0; i < count; i += 2) {
        _tile_loadd(A_0, steps[i].of[0], BF16_ROW_BYTES);
        _tile_loadd(TILE_B1, b->of[0][i], BF16_ROW_BYTES);
        _tile_dpbf16ps(GATE_0, A_0, TILE_B1);
        _tile_loadd(TILE_B2, b->of[1][i], BF16_ROW_BYTES);
        _tile_dpbf16ps(UP_0, A_0, TILE_B2);
        _tile_loadd(A_1, steps[i + 1].of[0], BF16_ROW_BYTES);
        _tile_loadd(TILE_B1, b->of[0][i + 1], BF16_ROW_BYTES);
        _tile_dpbf16ps(GATE_1, A_1, TILE_B1);
        _tile_loadd(TILE_B2, b->of[1][i + 1], BF16_ROW_BYTES);
        _tile_dpbf16ps(UP_1, A_1, TILE_B2);
    }
}

static void multiply_two(const struct bf16_a_step *steps, const struct bf16_panel *b, int count) {
    for (int i = 0; i < count; i++) {
        _tile_loadd(A_0, steps[i].of[0], BF16_ROW_BYTES);
        _tile_loadd(A_1, steps[i].of[1], BF16_ROW_BYTES);
        _tile_loadd(TILE_B1, b->of[0][i], BF16_ROW_BYTES);
        _tile_loadd(TILE_B2, b->of[1][i], BF16_ROW_BYTES);
        _tile_dpbf16ps(GATE_0, A_0, TILE_B1);
        _tile_dpbf16ps(GATE_1, A_1, TILE_B1);
        _tile_dpbf16ps(UP_0, A_0, TILE_B2);
        _tile_dpbf16ps(UP_1, A_1, TILE_B2);
    }
}

static void multiply(void *sums, const void *a, const void *panel, int rows, int groups) {
    struct bf16_sums *acc = sums, chunk;
    const bool few = rows <= BF16_TILE_ROWS;
    _tile_zero(GATE_0);
    _tile_zero(UP_0);
    _tile_zero(GATE_1);
    _tile_zero(UP_1);
    (few ? multiply_few : multiply_two)(a, panel, groups / BF16_STEP_GROUPS);
    _tile_stored(GATE_0, chunk.of[0], BF16_ROW_BYTES);
    _tile_stored(UP_0, chunk.of[1], BF16_ROW_BYTES);
    _tile_stored(GATE_1, chunk.of[0][BF16_TILE_ROWS], BF16_ROW_BYTES);
    _tile_stored(UP_1, chunk.of[1][BF16_TILE_ROWS], BF16_ROW_BYTES);
    for (int which = 0; which < 2; which++) {
        add_tiles(acc->of[which], chunk.of[which], rows);
        if (few) {
            add_tiles(acc->of[which], &chunk.of[which][BF16_TILE_ROWS], rows);
        }
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
    .take_sums = bf16_take_sums,
    .epilogue = avx512_epilogue,
    .epilogue_plain = avx512_epilogue_plain,
};
