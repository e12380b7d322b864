/* The kernels for an A of 16 bits an element, in portable C: both operands in fp32.
 *
 * A product of an fp16 or bf16 number with a weight (6 significant bits) is exact in fp32, fused or not, so
 * every compiler's code gives the same bits.  A group of 16 products is summed by itself, which keeps errors
 * small. */
#include <string.h>

#include "kernel_set.h"
#include "rounding.h"

struct halves_group {
    float of[TILE_ROWS][NVFP4_GROUP_ELEMS];
};

struct halves_panel {
    _Alignas(64) float of[2][CHUNK_GROUPS][NVFP4_GROUP_ELEMS][PANEL_COLS];
};

static int supported(void) {
    return 1;
}

static float fp16_value(uint16_t bits) {
    const uint32_t magnitude = bits & 0x7fffu, exponent = magnitude >> 10,
                   sign = (uint32_t)(bits & 0x8000u) << 16;
    if (exponent == 0) {
        const float value = (float)magnitude * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    const uint32_t rebiased = exponent == 31 ? 255 : exponent + 112;
    return float_of_bits(sign | rebiased << 23 | (magnitude & 0x3ffu) << 13);
}

static float bf16_value(uint16_t bits) {
    return float_of_bits((uint32_t)bits << 16);
}

static void pack_halves(void *to, const struct operand *a, int64_t first_row, int rows) {
    struct halves_group *packed = to;
    const int64_t groups = a->k / NVFP4_GROUP_ELEMS;
    memset(packed, 0, (size_t)groups * sizeof *packed);
    for (int row = 0; row < rows; row++) {
        const uint16_t *from = (const uint16_t *)(const void *)a->fp4 + (first_row + row) * a->k;
        for (int64_t i = 0; i < a->k; i++) {
            packed[i / NVFP4_GROUP_ELEMS].of[row][i % NVFP4_GROUP_ELEMS] =
                a->type == CUSTOM_KERNEL_A_BF16 ? bf16_value(from[i]) : fp16_value(from[i]);
        }
    }
}

static void pack_b(void *to_panel, int which, const struct operand *b, int64_t first_row, int rows,
                   int64_t first_group, int groups) {
    static const float e2m1[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0f, -0.5, -1, -1.5, -2, -3, -4, -6};
    struct halves_panel *panel = to_panel;
    for (int g = 0; g < groups; g++) {
        float (*to)[PANEL_COLS] = panel->of[which][g];
        memset(to, 0, sizeof panel->of[which][g]);
        for (int col = 0; col < rows; col++) {
            const int64_t row = first_row + col, group = first_group + g;
            const uint8_t *codes = b->fp4 + row * (b->k / 2) + group * (NVFP4_GROUP_ELEMS / 2);
            const float scale =
                scale_value(b->scales[scale_offset(b->scale_layout, row, group, b->k / NVFP4_GROUP_ELEMS)]);
            for (int i = 0; i < NVFP4_GROUP_ELEMS; i += 2) {
                to[i][col] = e2m1[codes[i / 2] & 15] * scale;
                to[i + 1][col] = e2m1[codes[i / 2] >> 4] * scale;
            }
        }
    }
}

static void multiply(void *sums, const void *packed_a, const void *packed_b, int rows, int groups) {
    struct accumulators *accumulators = sums;
    const struct halves_group *a = packed_a;
    const struct halves_panel *panel = packed_b;
    for (int which = 0; which < 2; which++) {
        for (int row = 0; row < rows; row++) {
            float *sum = accumulators->of[which][row];
            for (int g = 0; g < groups; g++) {
                float partial[PANEL_COLS] = {0};
                for (int i = 0; i < NVFP4_GROUP_ELEMS; i++) {
                    const float value = a[g].of[row][i];
                    for (int col = 0; col < PANEL_COLS; col++) {
                        partial[col] += value * panel->of[which][g][i][col];
                    }
                }
                for (int col = 0; col < PANEL_COLS; col++) {
                    sum[col] += partial[col];
                }
            }
        }
    }
}

const struct kernels kernels_halves = {
    .name = "halves",
    .detail = "an A of 16 bits in portable C",
    .supported = supported,
    .tile_rows = TILE_ROWS,
    .panels = 1,
    .a_group_bytes = sizeof(struct halves_group),
    .panel_bytes = sizeof(struct halves_panel),
    .sums_bytes = sizeof(struct accumulators),
    .pack_a = pack_halves,
    .pack_b = pack_b,
    .multiply = multiply,
};
