/* What the sets with AVX-512 share: scale factors of sixteen rows at a time, and the outputs. */
#ifndef CPU_AVX512_H
#define CPU_AVX512_H

#include <immintrin.h>
#include <math.h>

#include "../kernel_set.h"

#define E4M3_TO_HALF_SHIFT 7      /* e4m3 bits there are the value times 2^-8 as fp16, subnormals included */
#define E4M3_OF_HALF       256.0f /* which this undoes */

/* Where each of PANEL_COLS rows' words of four scale factors lie, from the first row's. */
static inline __m512i scale_word_offsets(const struct operand *b, int64_t first_row, int64_t first_group) {
    const uint8_t *first = scale_quad(b, first_row, first_group);
    _Alignas(64) int32_t offsets[PANEL_COLS];
    for (int col = 0; col < PANEL_COLS; col++) {
        offsets[col] = (int32_t)(scale_quad(b, first_row + col, first_group) - first);
    }
    return _mm512_load_si512(offsets);
}

/* From a row's word to the next of four groups: the same in every row. */
static inline int64_t scale_word_step(const struct operand *b) {
    return b->scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED ? SCALE_TILE_BYTES : (int64_t)SCALE_TILE_GROUPS;
}

/* Byte `group` of each word as fp32, times 2^-8.  Through fp16, whose subnormals no caller's mode flushes. */
static inline __m512 scales_of_group(__m512i words, int group) {
    __m512i bytes = _mm512_and_si512(_mm512_srli_epi32(words, (unsigned)group * 8), _mm512_set1_epi32(0x7f));
    __m256i halves = _mm512_cvtepi32_epi16(_mm512_slli_epi32(bytes, E4M3_TO_HALF_SHIFT));
    __mmask16 nan = _mm512_cmpeq_epi32_mask(bytes, _mm512_set1_epi32(0x7f));
    return _mm512_mask_mov_ps(_mm512_cvtph_ps(halves), nan, _mm512_set1_ps(NAN));
}

/* A cache line of each of PANEL_COLS rows; addresses past the end are allowed.  The rows are too many, and each
 * too short, for the processor to see them coming. */
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
