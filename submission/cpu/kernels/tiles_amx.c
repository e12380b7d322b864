/* Packing for AMX in portable C (tiles.h): for edges of the matrices and as a reference for kernels_amx.c. */
#include "tiles.h"

#include <string.h>

#include "../activation.h"

/* Each code times a scale factor and a power of two as bf16.  The values are exact in bf16, so the upper half
 * of their fp32 bits suffices; NaN stays NaN. */
static void scaled_values(uint16_t table[static 16], uint8_t scale, float power) {
    static const float e2m1[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    for (int code = 0; code < 16; code++) {
        table[code] = (uint16_t)(float_bits(e2m1[code] * scale_value(scale) * power) >> 16);
    }
}

/* Dequantizes 64 elements of a row, times a power of two. */
static void dequantize_word(uint16_t to[static 2 * BF16_STEP_K], const struct operand *operand, int64_t row,
                            int64_t first_group, float power) {
    const uint8_t *fp4 = operand->fp4 + row * (operand->k / 2) + first_group * (NVFP4_GROUP_ELEMS / 2);
    const uint8_t *scales = scale_quad(operand, row, first_group);
    for (int group = 0; group < SCALE_TILE_GROUPS; group++) {
        uint16_t table[16];
        scaled_values(table, scales[group], power);
        for (int pair = 0; pair < NVFP4_GROUP_ELEMS / 2; pair++, fp4++) {
            *to++ = table[*fp4 & 15];
            *to++ = table[*fp4 >> 4];
        }
    }
}

void bf16_pack_a(void *packed, const struct operand *a, int64_t first_row, int rows) {
    struct bf16_a_step *steps = packed;
    const int64_t groups = a->k / NVFP4_GROUP_ELEMS;
    for (int r = 0; r < BF16_ROWS; r++) {
        for (int64_t group = 0; group < groups; group += SCALE_TILE_GROUPS) {
            uint16_t values[2 * BF16_STEP_K] = {0};
            if (r < rows) {
                dequantize_word(values, a, first_row + r, group, BF16_OF_A);
            }
            for (int i = 0; i < 2 * BF16_STEP_K; i++) {
                int place = bf16_place_in_step(i);
                steps[group / BF16_STEP_GROUPS + bf16_step_of(i)]
                    .of[r / BF16_TILE_ROWS][place / 2][r % BF16_TILE_ROWS][place % 2] = values[i];
            }
        }
    }
}

void bf16_pack_b(void *panel, int which, const struct operand *b, int64_t first_row, int rows,
                 int64_t first_group, int groups) {
    struct bf16_panel *packed = panel;
    for (int col = 0; col < PANEL_COLS; col++) {
        for (int group = 0; group < groups; group += SCALE_TILE_GROUPS) {
            uint16_t values[2 * BF16_STEP_K] = {0};
            if (col < rows) {
                dequantize_word(values, b, first_row + col, first_group + group, BF16_OF_B);
            }
            for (int i = 0; i < 2 * BF16_STEP_K; i++) {
                packed->of[which][group / BF16_STEP_GROUPS + bf16_step_of(i)].of[col][bf16_place_in_step(i)] =
                    values[i];
            }
        }
    }
}

void bf16_take_sums(struct accumulators *to, const void *sums, int first_row) {
    const struct bf16_sums *from = sums;
    for (int which = 0; which < 2; which++) {
        for (int row = 0; row < TILE_ROWS; row++) {
            for (int col = 0; col < PANEL_COLS; col++) {
                to->of[which][row][col] =
                    from->of[which][first_row / BF16_TILE_ROWS][col][first_row % BF16_TILE_ROWS + row];
            }
        }
    }
}
