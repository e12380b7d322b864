/* The AVX-512 VNNI kernels: 16 columns per vector, sums of u8 x s8 quads in 32 bits. */
#include <immintrin.h>
#include <string.h>

#include "../activation.h"
#include "../kernel_set.h"
#include "../quantize_rows.h"
#include "avx512.h"

enum {
    AHEAD_BYTES = CHUNK_GROUPS * NVFP4_GROUP_ELEMS / 2, /* prefetch distance: a row's next chunk */
    BLOCK_GROUPS = SCALE_TILE_GROUPS,                   /* 64 values of a row: one vector of bytes */
    BLOCK_BYTES = BLOCK_GROUPS * NVFP4_GROUP_ELEMS / 2, /* a block's codes */
    BLOCK_QUADS = BLOCK_GROUPS * QUADS, /* 16, as many as panel columns: a square to transpose */
};

static int supported(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni") && cpu_has_f16c();
}

/* 64 values of a row, in order of k, as bytes: twice the value plus VALUE_BIAS. */
static inline __m512i biased_bytes(const uint8_t *fp4) {
    const __m512i biased =
        _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    __m512i pairs = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)fp4));
    __m512i high = _mm512_slli_epi16(_mm512_and_si512(pairs, _mm512_set1_epi16(0xf0)), 4);
    __m512i nibbles = _mm512_or_si512(_mm512_and_si512(pairs, _mm512_set1_epi16(0x0f)), high);
    return _mm512_shuffle_epi8(biased, nibbles);
}

/* Transposes 16 x 16 32-bit lanes: first within 128-bit parts, then the parts. */
static inline void transpose(__m512i rows[16]) {
    __m512i pairs[16], quads[16];
    for (int i = 0; i < 16; i += 2) {
        pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        quads[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
        quads[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
        quads[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
        quads[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        __m512i even_low = _mm512_shuffle_i32x4(quads[i], quads[i + 4], 0x88);
        __m512i odd_low = _mm512_shuffle_i32x4(quads[i], quads[i + 4], 0xdd);
        __m512i even_high = _mm512_shuffle_i32x4(quads[i + 8], quads[i + 12], 0x88);
        __m512i odd_high = _mm512_shuffle_i32x4(quads[i + 8], quads[i + 12], 0xdd);
        rows[i] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
        rows[i + 4] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
        rows[i + 8] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
        rows[i + 12] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
    }
}

static void pack_b(void *to_panel, int which, const struct operand *b, int64_t first_row, int rows,
                   int64_t first_group, int groups) {
    struct b_panel *panel = to_panel;
    if (rows < PANEL_COLS) {
        pack_b_scales(panel, which, b, first_row, rows, first_group, groups);
        pack_b_values(panel, which, b, first_row, rows, first_group, groups);
        return;
    }
    const __m512i offsets = scale_word_offsets(b, first_row, first_group);
    const uint8_t *scales = scale_quad(b, first_row, first_group);
    const uint8_t *fp4 = b->fp4 + first_row * (b->k / 2) + first_group * (NVFP4_GROUP_ELEMS / 2);
    for (int g = 0; g < groups; g += BLOCK_GROUPS, fp4 += BLOCK_BYTES) {
        __m512i block[BLOCK_QUADS];
        prefetch_rows(fp4 + AHEAD_BYTES, b->k / 2);
        for (int col = 0; col < PANEL_COLS; col++) {
            block[col] = biased_bytes(fp4 + col * (b->k / 2));
        }
        transpose(block);
        for (int quad = 0; quad < BLOCK_QUADS; quad++) {
            _mm512_store_si512(panel->values[which][g + quad / QUADS].biased[quad % QUADS], block[quad]);
        }
        __m512i words = _mm512_i32gather_epi32(offsets, scales + g / BLOCK_GROUPS * scale_word_step(b), 1);
        for (int i = 0; i < BLOCK_GROUPS; i++) {
            _mm512_store_ps(panel->scale[which][g + i],
                            _mm512_mul_ps(scales_of_group(words, i), _mm512_set1_ps(E4M3_OF_HALF)));
        }
    }
}

static inline __m512i broadcast_quad(const int8_t *quad) {
    int32_t bytes;
    memcpy(&bytes, quad, sizeof bytes);
    return _mm512_set1_epi32(bytes);
}

static void multiply(void *sums, const void *packed_a, const void *packed_b, int rows, int groups) {
    struct accumulators *accumulators = sums;
    const struct a_group *a = packed_a;
    const struct b_panel *panel = packed_b;
    (void)rows;
    __m512 partial[2][TILE_ROWS];
    for (int row = 0; row < TILE_ROWS; row++) {
        partial[0][row] = partial[1][row] = _mm512_setzero_ps();
    }
    for (int g = 0; g < groups; g++) {
        __m512i b[2][QUADS];
        for (int quad = 0; quad < QUADS; quad++) {
            b[0][quad] = _mm512_load_si512(panel->values[0][g].biased[quad]);
            b[1][quad] = _mm512_load_si512(panel->values[1][g].biased[quad]);
        }
        for (int row = 0; row < TILE_ROWS; row++) {
            __m512i gate = _mm512_set1_epi32(a[g].unbias[row]), up = gate;
            for (int quad = 0; quad < QUADS; quad++) {
                __m512i values = broadcast_quad(&a[g].twice_value[row][quad * QUAD_ELEMS]);
                gate = _mm512_dpbusd_epi32(gate, b[0][quad], values);
                up = _mm512_dpbusd_epi32(up, b[1][quad], values);
            }
            __m512 a_scale = _mm512_set1_ps(a[g].scale[row]);
            __m512 gate_scale = _mm512_mul_ps(a_scale, _mm512_load_ps(panel->scale[0][g]));
            __m512 up_scale = _mm512_mul_ps(a_scale, _mm512_load_ps(panel->scale[1][g]));
            partial[0][row] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(gate), gate_scale, partial[0][row]);
            partial[1][row] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(up), up_scale, partial[1][row]);
        }
    }
    for (int which = 0; which < 2; which++) {
        for (int row = 0; row < TILE_ROWS; row++) {
            float *sum = accumulators->of[which][row];
            _mm512_store_ps(sum, _mm512_add_ps(_mm512_load_ps(sum), partial[which][row]));
        }
    }
}

/* The sums of the lanes, [group][column], of four columns with four groups of four lanes each. */
static inline __m512i add_quads(const __m512i columns[4]) {
    __m512i first = _mm512_add_epi32(_mm512_unpacklo_epi32(columns[0], columns[1]),
                                     _mm512_unpackhi_epi32(columns[0], columns[1]));
    __m512i second = _mm512_add_epi32(_mm512_unpacklo_epi32(columns[2], columns[3]),
                                      _mm512_unpackhi_epi32(columns[2], columns[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(first, second), _mm512_unpackhi_epi64(first, second));
}

/* multiply() for a single row of A: multiplies B's rows as the caller gave them, then transposes the sums
 * instead of the bytes. */
static void multiply_few(void *sums, int which, const void *packed_a, const struct operand *b,
                         int64_t first_row, int64_t first_group, int groups) {
    const struct a_group *a = packed_a;
    const __m512i offsets = scale_word_offsets(b, first_row, first_group);
    const uint8_t *scales = scale_quad(b, first_row, first_group);
    const uint8_t *fp4 = b->fp4 + first_row * (b->k / 2) + first_group * (NVFP4_GROUP_ELEMS / 2);
    __m512 partial = _mm512_setzero_ps();
    for (int g = 0; g < groups; g += BLOCK_GROUPS, fp4 += BLOCK_BYTES, scales += scale_word_step(b)) {
        __m512i values = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)a[g].twice_value[0]));
        values = _mm512_inserti32x4(values, _mm_loadu_si128((const __m128i *)a[g + 1].twice_value[0]), 1);
        values = _mm512_inserti32x4(values, _mm_loadu_si128((const __m128i *)a[g + 2].twice_value[0]), 2);
        values = _mm512_inserti32x4(values, _mm_loadu_si128((const __m128i *)a[g + 3].twice_value[0]), 3);
        prefetch_rows(fp4 + AHEAD_BYTES, b->k / 2);
        __m512i quads[4]; /* quads[i]: columns 4i to 4i + 3, [group][column] */
        for (int i = 0; i < 4; i++) {
            __m512i columns[4];
            for (int j = 0; j < 4; j++) {
                __m512i biased = biased_bytes(fp4 + (i * 4 + j) * (b->k / 2));
                columns[j] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), biased, values);
            }
            quads[i] = add_quads(columns);
        }
        __m512i even_low = _mm512_shuffle_i32x4(quads[0], quads[1], 0x88);
        __m512i odd_low = _mm512_shuffle_i32x4(quads[0], quads[1], 0xdd);
        __m512i even_high = _mm512_shuffle_i32x4(quads[2], quads[3], 0x88);
        __m512i odd_high = _mm512_shuffle_i32x4(quads[2], quads[3], 0xdd);
        const __m512i dots[BLOCK_GROUPS] = {
            _mm512_shuffle_i32x4(even_low, even_high, 0x88), _mm512_shuffle_i32x4(odd_low, odd_high, 0x88),
            _mm512_shuffle_i32x4(even_low, even_high, 0xdd), _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd)};
        __m512i words = _mm512_i32gather_epi32(offsets, scales, 1);
        for (int i = 0; i < BLOCK_GROUPS; i++) {
            __m512 scale =
                _mm512_mul_ps(_mm512_set1_ps(a[g + i].scale[0] * E4M3_OF_HALF), scales_of_group(words, i));
            __m512i dot = _mm512_add_epi32(dots[i], _mm512_set1_epi32(a[g + i].unbias[0]));
            partial = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, partial);
        }
    }
    float *sum = ((struct accumulators *)sums)->of[which][0];
    _mm512_store_ps(sum, _mm512_add_ps(_mm512_load_ps(sum), partial));
}

/* Writes the first `cols` columns of a panel's row as fp16. */
static inline void store_row(uint16_t *c, const float *result, int cols) {
    __mmask16 present = (__mmask16)((1u << cols) - 1);
    __m256i halves = _mm512_cvtps_ph(_mm512_load_ps(result), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_mask_storeu_epi16(c, present, halves);
}

void avx512_epilogue(const struct accumulators *accumulators, uint16_t *c, int64_t c_stride, int rows,
                     int cols) {
    for (int row = 0; row < rows; row++) {
        _Alignas(64) float result[PANEL_COLS];
        for (int col = 0; col < PANEL_COLS; col++) {
            result[col] = silu_times(accumulators->of[0][row][col], accumulators->of[1][row][col]);
        }
        store_row(&c[row * c_stride], result, cols);
    }
}

void avx512_epilogue_plain(const struct accumulators *accumulators, uint16_t *c, int64_t c_stride, int rows,
                           int cols) {
    for (int row = 0; row < rows; row++) {
        for (int panel = 0; panel * PANEL_COLS < cols; panel++) {
            int left = cols - panel * PANEL_COLS;
            store_row(&c[row * c_stride + panel * PANEL_COLS], accumulators->of[panel][row],
                      left < PANEL_COLS ? left : PANEL_COLS);
        }
    }
}

const struct kernels kernels_avx512 = {
    .name = "avx512",
    .detail = "AVX-512 VNNI",
    .supported = supported,
    INTEGER_SIZES,
    .pack_b = pack_b,
    .multiply = multiply,
    .few_rows = 1,
    .multiply_few = multiply_few,
    .epilogue = avx512_epilogue,
    .epilogue_plain = avx512_epilogue_plain,
    .quantize_rows = quantize_rows,
};
