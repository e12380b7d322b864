/* Shared by the AVX-512 and AMX kernels: scale factors of 16 rows at a time, and the epilogues. */
#ifndef CPU_AVX512_H
#define CPU_AVX512_H

#include <immintrin.h>
#include <math.h>

#include "../kernel_set.h"

/* e4m3 bits shifted left by 7 are, as fp16, the value times 2^-8, subnormals included. */
#define E4M3_TO_HALF_SHIFT 7
#define E4M3_OF_HALF       256.0f

/* Offsets of PANEL_COLS rows' words (four scale factors each), relative to the first row's word. */
static inline __m512i scale_word_offsets(const struct operand *b, int64_t first_row, int64_t first_group) {
    const uint8_t *first = scale_quad(b, first_row, first_group);
    _Alignas(64) int32_t offsets[PANEL_COLS];
    for (int col = 0; col < PANEL_COLS; col++) {
        offsets[col] = (int32_t)(scale_quad(b, first_row + col, first_group) - first);
    }
    return _mm512_load_si512(offsets);
}

/* Distance from a row's word to its next four groups', the same for every row. */
static inline int64_t scale_word_step(const struct operand *b) {
    return b->scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED ? SCALE_TILE_BYTES : (int64_t)SCALE_TILE_GROUPS;
}

/* Byte `group` of each word as fp32, times 2^-8.  Goes through fp16 because no mode flushes its subnormals. */
static inline __m512 scales_of_group(__m512i words, int group) {
    __m512i bytes = _mm512_and_si512(_mm512_srli_epi32(words, (unsigned)group * 8), _mm512_set1_epi32(0x7f));
    __m256i halves = _mm512_cvtepi32_epi16(_mm512_slli_epi32(bytes, E4M3_TO_HALF_SHIFT));
    __mmask16 nan = _mm512_cmpeq_epi32_mask(bytes, _mm512_set1_epi32(0x7f));
    return _mm512_mask_mov_ps(_mm512_cvtph_ps(halves), nan, _mm512_set1_ps(NAN));
}

/* Prefetches a cache line of each of PANEL_COLS rows; addresses past the end are allowed.  The hardware
 * prefetcher misses these accesses: many rows, each with a short run. */
static inline void prefetch_rows(const uint8_t *first, int64_t row_bytes) {
    for (int row = 0; row < PANEL_COLS; row++) {
        _mm_prefetch((const char *)first + row * row_bytes, _MM_HINT_T0);
    }
}

/* kernel_set.h, struct kernels. */
void avx512_epilogue(const struct accumulators *accumulators, uint16_t *c, int64_t c_stride, int rows,
                     int cols);
void avx512_epilogue_plain(const struct accumulators *accumulators, uint16_t *c, int64_t c_stride, int rows,
                           int cols);

#endif
