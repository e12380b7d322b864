/* Whether the AMX kernels' AVX-512 packs what portable C does: prints what differs.  77 without AVX-512. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submission/cpu/kernels/tiles.h"

enum { GIVEN_ROWS = 128, MOST_K = 1088 };

static uint8_t fp4[GIVEN_ROWS * MOST_K / 2], scales[GIVEN_ROWS * MOST_K / NVFP4_GROUP_ELEMS];
static struct bf16_panel panels[2];
static struct bf16_a_step steps[2][MOST_K / BF16_STEP_K];

static void fill(uint8_t *bytes, size_t count) { /* every byte value, NaN scales too */
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(rand() >> 8);
    }
}

static int check_b(const struct operand *b, int64_t first_row) {
    int wrong = 0;
    const int64_t groups = b->k / NVFP4_GROUP_ELEMS;
    for (int64_t first = 0; first < groups; first += CHUNK_GROUPS) {
        int chunk = (int)(groups - first < CHUNK_GROUPS ? groups - first : CHUNK_GROUPS);
        for (int i = 0; i < 2; i++) {
            memset(&panels[i], 0xa5, sizeof panels[i]);
            (i == 0 ? kernels_amx.pack_b : bf16_pack_b)(&panels[i], 1, b, first_row, PANEL_COLS, first, chunk);
        }
        wrong += memcmp(&panels[0], &panels[1], sizeof panels[0]) != 0;
    }
    return wrong;
}

static int check_a(const struct operand *a, int rows) {
    for (int i = 0; i < 2; i++) {
        memset(steps[i], 0xa5, sizeof steps[i]);
        (i == 0 ? kernels_amx.pack_a : bf16_pack_a)(steps[i], a, BF16_ROWS, rows);
    }
    return memcmp(steps[0], steps[1], sizeof steps[0]) != 0;
}

int main(void) {
    const int32_t layouts[] = {CUSTOM_KERNEL_SCALES_BLOCKED, CUSTOM_KERNEL_SCALES_ROWS};
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vbmi")) {
        return 77;
    }
    fill(fp4, sizeof fp4);
    fill(scales, sizeof scales);
    for (int i = 0; i < 2; i++) {
        for (int64_t k = 64; k <= MOST_K; k += 512) {
            struct operand operand = {.fp4 = fp4, .scales = scales, .k = k, .scale_layout = layouts[i]};
            int wrong_b = check_b(&operand, 0) + check_b(&operand, 96), wrong_a = 0;
            for (int rows = 1; rows <= BF16_ROWS; rows += 31) {
                wrong_a += check_a(&operand, rows);
            }
            if (wrong_a + wrong_b > 0) {
                printf("layout %d, k %d: %d of A, %d of B\n", layouts[i], (int)k, wrong_a, wrong_b);
            }
        }
    }
    return 0;
}
