/* The NEON kernels, for every AArch64 processor: four columns per vector, products of bytes in 16 bits. */
#include <arm_neon.h>
#include <string.h>

#include "../kernel_set.h"
#include "../quantize_rows.h"

enum { COLUMNS = 4 }; /* elements of a vector of fp32 */

static int supported(void) {
    return 1;
}

/* 16 values of a row, from 8 bytes of codes, as bytes: twice the value plus VALUE_BIAS. */
static inline uint8x16_t biased_bytes(const uint8_t *fp4) {
    static const uint8_t biased[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    uint8x8_t bytes = vld1_u8(fp4);
    uint8x8x2_t nibbles = vzip_u8(vand_u8(bytes, vdup_n_u8(0x0f)), vshr_n_u8(bytes, 4));
    return vqtbl1q_u8(vld1q_u8(biased), vcombine_u8(nibbles.val[0], nibbles.val[1]));
}

static void pack_b(void *to_panel, int which, const struct operand *b, int64_t first_row, int rows,
                   int64_t first_group, int groups) {
    struct b_panel *panel = to_panel;
    pack_b_scales(panel, which, b, first_row, rows, first_group, groups);
    if (rows < PANEL_COLS) {
        pack_b_values(panel, which, b, first_row, rows, first_group, groups);
        return;
    }
    for (int col = 0; col < PANEL_COLS; col++) {
        const uint8_t *fp4 = b->fp4 + (first_row + col) * (b->k / 2) + first_group * (NVFP4_GROUP_ELEMS / 2);
        for (int g = 0; g < groups; g++, fp4 += NVFP4_GROUP_ELEMS / 2) {
            uint8_t quads[QUADS][QUAD_ELEMS];
            vst1q_u8(quads[0], biased_bytes(fp4));
            for (int quad = 0; quad < QUADS; quad++) {
                memcpy(panel->values[which][g].biased[quad][col], quads[quad], QUAD_ELEMS);
            }
        }
    }
}

/* Dot products of one group of a row of A with four columns, whose quads are in b. */
static inline int32x4_t dot_group(const int8x16_t b[QUADS], const int8_t *a, int32_t unbias) {
    const int32x4_t quads = vreinterpretq_s32_s8(vld1q_s8(a));
    const int8x8_t values[QUADS] = {
        vreinterpret_s8_s32(vdup_laneq_s32(quads, 0)), vreinterpret_s8_s32(vdup_laneq_s32(quads, 1)),
        vreinterpret_s8_s32(vdup_laneq_s32(quads, 2)), vreinterpret_s8_s32(vdup_laneq_s32(quads, 3))};
    int16x8_t low = vmull_s8(vget_low_s8(b[0]), values[0]), high = vmull_s8(vget_high_s8(b[0]), values[0]);
    for (int quad = 1; quad < QUADS; quad++) { /* |sum| <= 4 * 24 * 12 */
        low = vmlal_s8(low, vget_low_s8(b[quad]), values[quad]);
        high = vmlal_s8(high, vget_high_s8(b[quad]), values[quad]);
    }
    return vaddq_s32(vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)), vdupq_n_s32(unbias));
}

static void multiply(void *sums, const void *packed_a, const void *packed_b, int rows, int groups) {
    struct accumulators *accumulators = sums;
    const struct a_group *a = packed_a;
    const struct b_panel *panel = packed_b;
    for (int which = 0; which < 2; which++) {
        for (int col = 0; col < PANEL_COLS; col += COLUMNS) {
            float32x4_t partial[TILE_ROWS];
            for (int row = 0; row < TILE_ROWS; row++) {
                partial[row] = vdupq_n_f32(0);
            }
            for (int g = 0; g < groups; g++) {
                int8x16_t b[QUADS];
                for (int quad = 0; quad < QUADS; quad++) {
                    b[quad] = vreinterpretq_s8_u8(vld1q_u8(panel->values[which][g].biased[quad][col]));
                }
                const float32x4_t b_scale = vld1q_f32(&panel->scale[which][g][col]);
                for (int row = 0; row < TILE_ROWS; row++) {
                    if (row < rows) {
                        int32x4_t dot = dot_group(b, a[g].twice_value[row], a[g].unbias[row]);
                        partial[row] =
                            vfmaq_f32(partial[row], vcvtq_f32_s32(dot), vmulq_n_f32(b_scale, a[g].scale[row]));
                    }
                }
            }
            for (int row = 0; row < TILE_ROWS; row++) {
                float *sum = &accumulators->of[which][row][col];
                vst1q_f32(sum, vaddq_f32(vld1q_f32(sum), partial[row]));
            }
        }
    }
}

static void epilogue(const struct accumulators *accumulators, uint16_t *c, int64_t c_stride, int rows,
                     int cols) {
    kernels_portable.epilogue(accumulators, c, c_stride, rows, cols);
}

static void epilogue_plain(const struct accumulators *accumulators, uint16_t *c, int64_t c_stride, int rows,
                           int cols) {
    kernels_portable.epilogue_plain(accumulators, c, c_stride, rows, cols);
}

const struct kernels kernels_neon = {
    .name = "neon",
    .detail = "NEON",
    .supported = supported,
    INTEGER_SIZES,
    .pack_b = pack_b,
    .multiply = multiply,
    .epilogue = epilogue,
    .epilogue_plain = epilogue_plain,
    .quantize_rows = quantize_rows,
};
