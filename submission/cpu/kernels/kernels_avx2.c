/* The AVX2 kernels: eight columns per vector, sums of u8 x s8 pairs in 16 bits. */
#include <immintrin.h>
#include <string.h>

#include "../activation.h"
#include "../kernel_set.h"
#include "../quantize_rows.h"

enum { HALVES = 2, LANES = PANEL_COLS / HALVES }; /* a panel is two vectors wide */

static int supported(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cpu_has_f16c();
}

static void pack_b(void *panel, int which, const struct operand *b, int64_t first_row, int rows,
                   int64_t first_group, int groups) {
    pack_b_values(panel, which, b, first_row, rows, first_group, groups);
    pack_b_scales(panel, which, b, first_row, rows, first_group, groups);
}

static inline __m256i broadcast_quad(const int8_t *quad) {
    int32_t bytes;
    memcpy(&bytes, quad, sizeof bytes);
    return _mm256_set1_epi32(bytes);
}

static void multiply(void *sums, const void *packed_a, const void *packed_b, int rows, int groups) {
    struct accumulators *accumulators = sums;
    const struct a_group *a = packed_a;
    const struct b_panel *panel = packed_b;
    (void)rows;
    const __m256i ones = _mm256_set1_epi16(1);
    for (int which = 0; which < 2; which++) {
        for (int half = 0; half < HALVES; half++) {
            __m256 partial[TILE_ROWS];
            for (int row = 0; row < TILE_ROWS; row++) {
                partial[row] = _mm256_setzero_ps();
            }
            for (int g = 0; g < groups; g++) {
                __m256i b[QUADS];
                for (int quad = 0; quad < QUADS; quad++) {
                    b[quad] =
                        _mm256_load_si256((const __m256i *)panel->values[which][g].biased[quad][half * LANES]);
                }
                __m256 b_scale = _mm256_load_ps(&panel->scale[which][g][half * LANES]);
                for (int row = 0; row < TILE_ROWS; row++) {
                    /* Two 16-bit sums per column, |sum| <= 4 * 2 * 24 * 12 + 6 * 16 * 12.  Each starts at half
                     * of unbias, which is even. */
                    __m256i dot = _mm256_set1_epi16((int16_t)(a[g].unbias[row] / 2));
                    for (int quad = 0; quad < QUADS; quad++) {
                        __m256i values = broadcast_quad(&a[g].twice_value[row][quad * QUAD_ELEMS]);
                        dot = _mm256_add_epi16(dot, _mm256_maddubs_epi16(b[quad], values));
                    }
                    __m256 exact = _mm256_cvtepi32_ps(_mm256_madd_epi16(dot, ones));
                    __m256 scale = _mm256_mul_ps(_mm256_set1_ps(a[g].scale[row]), b_scale);
                    partial[row] = _mm256_fmadd_ps(exact, scale, partial[row]);
                }
            }
            for (int row = 0; row < TILE_ROWS; row++) {
                float *sum = &accumulators->of[which][row][half * LANES];
                _mm256_store_ps(sum, _mm256_add_ps(_mm256_load_ps(sum), partial[row]));
            }
        }
    }
}

/* Writes the first `cols` columns of a panel's row as fp16. */
static inline void store_row(uint16_t *c, const float *result, int cols) {
    uint16_t halves[PANEL_COLS];
    for (int half = 0; half < HALVES; half++) {
        _mm_storeu_si128((__m128i *)&halves[half * LANES],
                         _mm256_cvtps_ph(_mm256_loadu_ps(&result[half * LANES]),
                                         _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
    memcpy(c, halves, (size_t)cols * sizeof *halves);
}

static void epilogue(const struct accumulators *accumulators, uint16_t *c, int64_t c_stride, int rows,
                     int cols) {
    for (int row = 0; row < rows; row++) {
        float result[PANEL_COLS];
        for (int col = 0; col < PANEL_COLS; col++) {
            result[col] = silu_times(accumulators->of[0][row][col], accumulators->of[1][row][col]);
        }
        store_row(&c[row * c_stride], result, cols);
    }
}

static void epilogue_plain(const struct accumulators *accumulators, uint16_t *c, int64_t c_stride, int rows,
                           int cols) {
    for (int row = 0; row < rows; row++) {
        for (int panel = 0; panel * PANEL_COLS < cols; panel++) {
            int left = cols - panel * PANEL_COLS;
            store_row(&c[row * c_stride + panel * PANEL_COLS], accumulators->of[panel][row],
                      left < PANEL_COLS ? left : PANEL_COLS);
        }
    }
}

const struct kernels kernels_avx2 = {
    .name = "avx2",
    .detail = "AVX2",
    .supported = supported,
    INTEGER_SIZES,
    .pack_b = pack_b,
    .multiply = multiply,
    .epilogue = epilogue,
    .epilogue_plain = epilogue_plain,
    .quantize_rows = quantize_rows,
};
