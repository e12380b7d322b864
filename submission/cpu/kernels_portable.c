/* The kernels in portable C; also the fallback for what the SIMD ones leave out. */
#include "kernels.h"
#include "silu.h"

static int supported(void) {
    return 1;
}

static void pack_b(void *panel, int which, const struct operand *b, int64_t first_row, int rows,
                   int64_t first_group, int groups) {
    pack_b_values(panel, which, b, first_row, rows, first_group, groups);
    pack_b_scales(panel, which, b, first_row, rows, first_group, groups);
}

static void multiply(void *sums, const void *packed_a, const void *packed_b, int rows, int groups) {
    struct accumulators *accumulators = sums;
    const struct a_group *a = packed_a;
    const struct b_panel *panel = packed_b;
    (void)rows;
    for (int which = 0; which < 2; which++) {
        for (int row = 0; row < TILE_ROWS; row++) {
            float partial[PANEL_COLS] = {0};
            for (int g = 0; g < groups; g++) {
                const struct b_group *b = &panel->values[which][g];
                int32_t dot[PANEL_COLS];
                for (int col = 0; col < PANEL_COLS; col++) {
                    dot[col] = a[g].unbias[row];
                }
                for (int quad = 0; quad < QUADS; quad++) {
                    const int8_t *values = &a[g].twice_value[row][quad * QUAD_ELEMS];
                    for (int col = 0; col < PANEL_COLS; col++) {
                        for (int i = 0; i < QUAD_ELEMS; i++) {
                            dot[col] += b->biased[quad][col][i] * values[i];
                        }
                    }
                }
                for (int col = 0; col < PANEL_COLS; col++) {
                    partial[col] += (float)dot[col] * (a[g].scale[row] * panel->scale[which][g][col]);
                }
            }
            for (int col = 0; col < PANEL_COLS; col++) {
                accumulators->of[which][row][col] += partial[col];
            }
        }
    }
}

/* fp32 to fp16 bits: to nearest even, overflow to infinity, NaN to a quiet NaN of the same sign. */
static uint16_t half_bits(float x) {
    const uint32_t fp32_infinity = 0x7f800000u, fp16_infinity = 0x7c00u, fp16_nan = 0x7e00u;
    const uint32_t overflow = 0x477ff000u;   /* 65520: halfway from the largest fp16 to 65536 */
    const uint32_t min_normal = 0x38800000u; /* 2^-14 */
    uint32_t bits = float_bits(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > fp32_infinity) {
        return (uint16_t)(sign | fp16_nan);
    }
    if (magnitude >= overflow) {
        return (uint16_t)(sign | fp16_infinity);
    }
    if (magnitude < min_normal) {
        /* Adding 1/2 aligns the value to fp16's subnormal grid, 2^-24, and rounds it there. */
        return (uint16_t)(sign | (float_bits(float_of_bits(magnitude) + 0.5f) - float_bits(0.5f)));
    }
    /* Rebias the exponent by 127 - 15, then round the 13 bits that go to even; a carry into the exponent is
     * right. */
    uint32_t rebiased = magnitude - (112u << 23);
    return (uint16_t)(sign | (rebiased + 0xfffu + (rebiased >> 13 & 1)) >> 13);
}

static void epilogue(const struct accumulators *accumulators, uint16_t *c, int64_t c_stride, int rows,
                     int cols) {
    for (int row = 0; row < rows; row++) {
        float result[PANEL_COLS];
        for (int col = 0; col < PANEL_COLS; col++) {
            result[col] = silu_times(accumulators->of[0][row][col], accumulators->of[1][row][col]);
        }
        for (int col = 0; col < cols; col++) {
            c[row * c_stride + col] = half_bits(result[col]);
        }
    }
}

static void epilogue_plain(const struct accumulators *accumulators, uint16_t *c, int64_t c_stride, int rows,
                           int cols) {
    for (int row = 0; row < rows; row++) {
        for (int col = 0; col < cols; col++) {
            c[row * c_stride + col] = half_bits(accumulators->of[col / PANEL_COLS][row][col % PANEL_COLS]);
        }
    }
}

const struct kernels kernels_portable = {
    .name = "portable",
    .detail = "portable C",
    .supported = supported,
    INTEGER_SIZES,
    .pack_b = pack_b,
    .multiply = multiply,
    .epilogue = epilogue,
    .epilogue_plain = epilogue_plain,
};
