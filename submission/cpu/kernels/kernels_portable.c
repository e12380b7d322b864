/* The kernels in portable C.  Other sets call them for what they do not implement. */
#include "../activation.h"
#include "../kernel_set.h"
#include "../quantize_rows.h"
#include "../rounding.h"

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
    .quantize_rows = quantize_rows,
};
