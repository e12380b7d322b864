/* The AMX kernels' portable twin: the same layout and dispatch, the instruction's arithmetic in C.  Linked in
 * the place of kernels_amx.c, so that a machine without AMX runs all but its instructions.
 *
 * TDPBF16PS (SDM, volume 2): even and odd products of a pair have sums of their own over the pairs of a step,
 * which are added before the destination is; each operation rounds to nearest even, subnormals count as zero.
 */
#include <math.h>

#include "submission/cpu/activation.h"
#include "submission/cpu/kernels/tiles.h"

static int supported(void) {
    return 1;
}

static float flushed(float x) {
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static float bf16(uint16_t bits) {
    return flushed(float_of_bits((uint32_t)bits << 16));
}

static void multiply_step(float (*sums)[BF16_TILE_ROWS], const uint16_t (*b)[BF16_STEP_K],
                          const uint16_t (*a)[BF16_TILE_ROWS][2]) {
    for (int col = 0; col < PANEL_COLS; col++) {
        for (int row = 0; row < BF16_TILE_ROWS; row++) {
            float of_pair[2] = {0};
            for (int pair = 0; pair < BF16_PAIRS; pair++) {
                for (int i = 0; i < 2; i++) {
                    /* The product is exact: 16 bits.  So this is the instruction's fused sum. */
                    of_pair[i] = flushed(of_pair[i] + bf16(b[col][2 * pair + i]) * bf16(a[pair][row][i]));
                }
            }
            sums[col][row] = flushed(sums[col][row] + flushed(of_pair[0] + of_pair[1]));
        }
    }
}

static void multiply(void *sums, const void *a, const void *panel, int rows, int groups) {
    struct bf16_sums *acc = sums, chunk = {0};
    const struct bf16_a_step *steps = a;
    const struct bf16_panel *b = panel;
    /* One tile of rows has two sums: of even steps, and in the place of the second tile of odd ones. */
    const int few = rows <= BF16_TILE_ROWS;
    for (int i = 0; i < groups / BF16_STEP_GROUPS; i++) {
        for (int which = 0; which < 2; which++) {
            for (int tile = 0; tile < (few ? 1 : BF16_ROW_TILES); tile++) {
                int sum = few ? i % 2 : tile;
                multiply_step(chunk.of[which][sum], b->of[which][i].of, steps[i].of[tile]);
            }
        }
    }
    for (int which = 0; which < 2; which++) {
        for (int sum = 0; sum < BF16_ROW_TILES; sum++) {
            for (int i = 0; i < PANEL_COLS * BF16_TILE_ROWS; i++) {
                int col = i / BF16_TILE_ROWS, row = i % BF16_TILE_ROWS;
                acc->of[which][few ? 0 : sum][col][row] += chunk.of[which][sum][col][row];
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

const struct kernels kernels_amx = {
    .name = "amx",
    .detail = "AMX's twin",
    .supported = supported,
    BF16_SIZES,
    .pack_a = bf16_pack_a,
    .pack_b = bf16_pack_b,
    .multiply = multiply,
    .take_sums = bf16_take_sums,
    .epilogue = epilogue,
    .epilogue_plain = epilogue_plain,
};
