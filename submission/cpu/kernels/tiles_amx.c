#include "tiles.h"

#include <string.h>

#include "../silu.h"

/* The bf16 of each code times a scale factor and a power of two: exact, so the upper half of the fp32.  A NaN
 * stays one. */
static void scaled_values(uint16_t table[static 16], uint8_t scale, float power) {
    static const float e2m1[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    for (int code = 0; code < 16; code++) {
        table[code] = (uint16_t)(float_bits(e2m1[code] * scale_value(scale) * power) >> 16);
    }
}

void bf16_pack_a(void *packed, const struct operand *a, int64_t first_row, int rows) {
    struct bf16_a_step *steps = packed;
    const int64_t groups = a->k / NVFP4_GROUP_ELEMS;
    for (int r = 0; r < BF16_ROWS; r++) {
        const uint8_t *fp4 = a->fp4 + (first_row + r) * (a->k / 2), *scales = NULL;
        for (int64_t group = 0; group < groups; group++) {
            uint16_t *to =
                &steps[group / BF16_STEP_GROUPS]
                     .of[r / BF16_TILE_ROWS][r % BF16_TILE_ROWS][group % BF16_STEP_GROUPS * NVFP4_GROUP_ELEMS];
            if (r >= rows) {
                memset(to, 0, NVFP4_GROUP_ELEMS * sizeof *to);
                continue;
            }
            if (group % SCALE_TILE_GROUPS == 0) {
                scales = scale_quad(a, first_row + r, group);
            }
            uint16_t table[16];
            scaled_values(table, scales[group % SCALE_TILE_GROUPS], BF16_OF_A);
            for (int i = 0; i < NVFP4_GROUP_ELEMS; i += 2, fp4++) {
                to[i] = table[*fp4 & 15];
                to[i + 1] = table[*fp4 >> 4];
            }
        }
    }
}

void bf16_pack_b(void *panel, int which, const struct operand *b, int64_t first_row, int rows,
                 int64_t first_group, int groups) {
    struct bf16_panel *packed = panel;
    for (int col = 0; col < PANEL_COLS; col++) {
        const uint8_t *fp4 = b->fp4 + (first_row + col) * (b->k / 2) + first_group * (NVFP4_GROUP_ELEMS / 2);
        const uint8_t *scales = NULL;
        for (int group = 0; group < groups; group++) {
            uint16_t (*to)[PANEL_COLS][2] =
                &packed
                     ->of[which][group / BF16_STEP_GROUPS][group % BF16_STEP_GROUPS * (NVFP4_GROUP_ELEMS / 2)];
            uint16_t table[16] = {0};
            if (col < rows) {
                if (group % SCALE_TILE_GROUPS == 0) {
                    scales = scale_quad(b, first_row + col, first_group + group);
                }
                scaled_values(table, scales[group % SCALE_TILE_GROUPS], BF16_OF_B);
            }
            for (int pair = 0; pair < NVFP4_GROUP_ELEMS / 2; pair++) {
                const uint8_t byte = col < rows ? *fp4++ : 0;
                to[pair][col][0] = table[byte & 15];
                to[pair][col][1] = table[byte >> 4];
            }
        }
    }
}

void bf16_take_sums(struct accumulators *to, const void *sums, int first_row) {
    const struct bf16_sums *from = sums;
    for (int which = 0; which < 2; which++) {
        memcpy(to->of[which], from->of[which][first_row], sizeof to->of[which]);
    }
}
