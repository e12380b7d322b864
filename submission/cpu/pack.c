/* Packs NVFP4 operands in portable C (kernel_set.h). */
#include <math.h>
#include <string.h>

#include "kernel_set.h"

/* (8 + mantissa) * 2^(exponent - 10), or mantissa * 2^-9 for the subnormals (OCP OFP8 v1.0, e4m3). */
#define E4M3(exponent, mantissa)                                                                               \
    ((exponent) == 0 ? (mantissa) / 512.0f : (8 + (mantissa)) * (float)(1 << (exponent)) / 1024.0f)
#define E4M3_BINADE(exponent)                                                                                  \
    E4M3(exponent, 0), E4M3(exponent, 1), E4M3(exponent, 2), E4M3(exponent, 3), E4M3(exponent, 4),             \
        E4M3(exponent, 5), E4M3(exponent, 6), E4M3(exponent, 7)
#define E4M3_MAGNITUDE_MASK 0x7f

/* A table, because a caller's flush-to-zero mode would make arithmetic lose the subnormals. */
static const float e4m3[E4M3_MAGNITUDE_MASK + 1] = {
    E4M3_BINADE(0),
    E4M3_BINADE(1),
    E4M3_BINADE(2),
    E4M3_BINADE(3),
    E4M3_BINADE(4),
    E4M3_BINADE(5),
    E4M3_BINADE(6),
    E4M3_BINADE(7),
    E4M3_BINADE(8),
    E4M3_BINADE(9),
    E4M3_BINADE(10),
    E4M3_BINADE(11),
    E4M3_BINADE(12),
    E4M3_BINADE(13),
    E4M3_BINADE(14),
    E4M3(15, 0),
    E4M3(15, 1),
    E4M3(15, 2),
    E4M3(15, 3),
    E4M3(15, 4),
    E4M3(15, 5),
    E4M3(15, 6),
    NAN,
};

/* Twice the e2m1 value of each code (OCP MX v1.0, 5.3.3). */
static const int8_t twice_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float scale_value(uint8_t byte) {
    return e4m3[byte & E4M3_MAGNITUDE_MASK];
}

void pack_a(void *to, const struct operand *a, int64_t first_row, int rows) {
    struct a_group *packed = to;
    int64_t groups = a->k / NVFP4_GROUP_ELEMS;
    for (int r = 0; r < rows; r++) {
        int64_t row = first_row + r;
        const uint8_t *fp4 = a->fp4 + row * (a->k / 2);
        const uint8_t *scales = NULL;
        for (int64_t g = 0; g < groups; g++) {
            int8_t *values = packed[g].twice_value[r];
            int32_t sum = 0;
            for (int i = 0; i < NVFP4_GROUP_ELEMS / 2; i++) {
                uint8_t pair = fp4[g * (NVFP4_GROUP_ELEMS / 2) + i];
                values[2 * i] = twice_e2m1[pair & 15];
                values[2 * i + 1] = twice_e2m1[pair >> 4];
                sum += values[2 * i] + values[2 * i + 1];
            }
            if (g % SCALE_TILE_GROUPS == 0) {
                scales = scale_quad(a, row, g);
            }
            packed[g].unbias[r] = -VALUE_BIAS * sum;
            packed[g].scale[r] = scale_value(scales[g % SCALE_TILE_GROUPS]) / 4;
        }
    }
    for (int r = rows; r < TILE_ROWS; r++) {
        for (int64_t g = 0; g < groups; g++) {
            memset(packed[g].twice_value[r], 0, sizeof packed[g].twice_value[r]);
            packed[g].unbias[r] = 0;
            packed[g].scale[r] = 0;
        }
    }
}

void pack_b_values(void *to_panel, int which, const struct operand *b, int64_t first_row, int rows,
                   int64_t first_group, int groups) {
    struct b_panel *panel = to_panel;
    struct b_group *packed = panel->values[which];
    for (int col = 0; col < rows; col++) {
        const uint8_t *fp4 = b->fp4 + (first_row + col) * (b->k / 2) + first_group * (NVFP4_GROUP_ELEMS / 2);
        for (int g = 0; g < groups; g++) {
            for (int quad = 0; quad < QUADS; quad++) {
                uint8_t *to = packed[g].biased[quad][col];
                for (int i = 0; i < QUAD_ELEMS; i += 2, fp4++) {
                    to[i] = (uint8_t)(twice_e2m1[*fp4 & 15] + VALUE_BIAS);
                    to[i + 1] = (uint8_t)(twice_e2m1[*fp4 >> 4] + VALUE_BIAS);
                }
            }
        }
    }
    for (int col = rows; col < PANEL_COLS; col++) {
        for (int g = 0; g < groups; g++) {
            for (int quad = 0; quad < QUADS; quad++) {
                memset(packed[g].biased[quad][col], VALUE_BIAS, QUAD_ELEMS);
            }
        }
    }
}

void pack_b_scales(void *to_panel, int which, const struct operand *b, int64_t first_row, int rows,
                   int64_t first_group, int groups) {
    struct b_panel *panel = to_panel;
    /* In both layouts, a row's next four scale factors are a constant distance away. */
    const int64_t step =
        b->scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED ? SCALE_TILE_BYTES : (int64_t)SCALE_TILE_GROUPS;
    for (int col = 0; col < rows; col++) {
        const uint8_t *scales = scale_quad(b, first_row + col, first_group);
        for (int g = 0; g < groups; g += SCALE_TILE_GROUPS, scales += step) {
            for (int i = 0; i < SCALE_TILE_GROUPS; i++) {
                panel->scale[which][g + i][col] = scale_value(scales[i]);
            }
        }
    }
    for (int g = 0; g < groups; g++) {
        for (int col = rows; col < PANEL_COLS; col++) {
            panel->scale[which][g][col] = 0;
        }
    }
}
