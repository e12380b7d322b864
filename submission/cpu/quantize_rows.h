/* The quantizer's rows on the CPU (custom_kernel.h, custom_kernel_quantize()); each instruction set compiles
 * its own copy. */
#ifndef CPU_QUANTIZE_ROWS_H
#define CPU_QUANTIZE_ROWS_H

#include <string.h>

#include "activation.h"
#include "quantize_group.h"

enum {
    UNIT_ELEMS = 8,     /* numbers that a partial sum of squares takes together */
    SUM_PARTIALS = 512, /* partial sums of a row: unit u goes to number u % SUM_PARTIALS ... */
    SUM_TREE = 32,      /* ... and these are added in trees of this size, and the trees in order */
};

/* A group of numbers of the quantization's type, from number `first` of `from` on. */
static inline void load_group(const void *from, int64_t first, int32_t type, float *to) {
    uint16_t halves[NVFP4_GROUP_ELEMS];
    if (type == CUSTOM_KERNEL_FP32) {
        memcpy(to, (const float *)from + first, NVFP4_GROUP_ELEMS * sizeof *to);
        return;
    }
    memcpy(halves, (const uint16_t *)from + first, sizeof halves);
    if (type == CUSTOM_KERNEL_BF16) {
        for (int i = 0; i < NVFP4_GROUP_ELEMS; i++) {
            to[i] = float_of_bits((uint32_t)halves[i] << 16);
        }
    } else {
        for (int i = 0; i < NVFP4_GROUP_ELEMS; i++) {
            to[i] = float_of_half(halves[i]);
        }
    }
}

/* Rounds a group of sums to the type, stores it, and leaves the rounded values in `values`. */
static inline void store_sums(void *to, int64_t first, int32_t type, float *values) {
    uint16_t *halves = (uint16_t *)to + first;
    if (type == CUSTOM_KERNEL_FP32) {
        memcpy((float *)to + first, values, NVFP4_GROUP_ELEMS * sizeof *values);
        return;
    }
    for (int i = 0; i < NVFP4_GROUP_ELEMS; i++) {
        halves[i] = type == CUSTOM_KERNEL_BF16 ? bfloat_bits(values[i]) : half_bits(values[i]);
    }
    load_group(to, first, type, values);
}

/* The numbers that RMSNorm normalizes. */
static inline void load_normed(const struct quantization *q, int64_t row, int64_t column, float *values) {
    load_group(q->x, row * q->x_row + column, q->type, values);
    if (q->residual != NULL) {
        float residual[NVFP4_GROUP_ELEMS];
        const int64_t at = row * q->problem.k + column;
        load_group(q->residual, at, q->type, residual);
        for (int i = 0; i < NVFP4_GROUP_ELEMS; i++) {
            values[i] += residual[i];
        }
        store_sums(q->sum, at, q->type, values);
    }
}

/* 1 / sqrt(S / K + epsilon); also writes the row's sums with the residual. */
static inline float norm_factor(const struct quantization *q, int64_t row) {
    float partials[SUM_PARTIALS] = {0}, sum = 0;
    for (int64_t column = 0; column < q->problem.k; column += NVFP4_GROUP_ELEMS) {
        float values[NVFP4_GROUP_ELEMS];
        load_normed(q, row, column, values);
        for (int unit = 0; unit < NVFP4_GROUP_ELEMS; unit += UNIT_ELEMS) {
            float part = 0;
            for (int i = unit; i < unit + UNIT_ELEMS; i++) {
                part += values[i] * values[i];
            }
            partials[(column + unit) / UNIT_ELEMS % SUM_PARTIALS] += part;
        }
    }
    for (int tree = 0; tree < SUM_PARTIALS; tree += SUM_TREE) {
        for (int apart = SUM_TREE / 2; apart > 0; apart /= 2) {
            for (int i = tree; i < tree + apart; i++) {
                partials[i] += partials[i + apart];
            }
        }
        sum += partials[tree];
    }
    return 1.0f / sqrtf(sum / (float)q->problem.k + q->epsilon);
}

/* The row of x that a row of the output is of; -1 for a row of zeros. */
static inline int64_t source_row(const struct quantization *q, int64_t row) {
    const int64_t found = q->rows != NULL ? q->rows[row] : row;
    return q->rows == NULL || (found >= 0 && found < q->x_rows) ? found : -1;
}

/* The numbers to quantize; `factor` is the row's of RMSNorm. */
static inline void load_values(const struct quantization *q, int64_t row, int64_t column, float factor,
                               float *values) {
    if (q->form == CUSTOM_KERNEL_QUANTIZE_NORM) {
        float weight[NVFP4_GROUP_ELEMS];
        if (q->residual != NULL) {
            load_group(q->sum, row * q->problem.k + column, q->type, values);
        } else {
            load_group(q->x, row * q->x_row + column, q->type, values);
        }
        if (q->weight != NULL) {
            load_group(q->weight, column, q->type, weight);
        }
        for (int i = 0; i < NVFP4_GROUP_ELEMS; i++) {
            values[i] *= factor;
            values[i] = q->weight != NULL ? values[i] * weight[i] : values[i];
        }
        return;
    }
    const int64_t source = source_row(q, row);
    if (source < 0) {
        memset(values, 0, NVFP4_GROUP_ELEMS * sizeof *values);
        return;
    }
    load_group(q->x, source * q->x_row + column, q->type, values);
    if (q->form == CUSTOM_KERNEL_QUANTIZE_GATED) {
        float up[NVFP4_GROUP_ELEMS];
        load_group(q->x, row * q->x_row + q->problem.k + column, q->type, up);
        for (int i = 0; i < NVFP4_GROUP_ELEMS; i++) {
            values[i] = activated_gate(q->activation, values[i], up[i]);
        }
    }
}

/* The scale of a row by its largest number; writes what a product multiplies the row by. */
static inline float scale_of_row(const struct quantization *q, int64_t row) {
    const float least = 0x1p-100f, codes_and_factors = 6 * E4M3_MOST;
    float most = least;
    for (int64_t column = 0; column < q->problem.k; column += NVFP4_GROUP_ELEMS) {
        float values[NVFP4_GROUP_ELEMS];
        load_values(q, row, column, 1, values);
        for (int i = 0; i < NVFP4_GROUP_ELEMS; i++) {
            const float magnitude = values[i] < 0 ? -values[i] : values[i];
            most = magnitude > most || magnitude != magnitude ? magnitude : most;
        }
        if (most != most) {
            break;
        }
    }
    q->token_scale[row] = most * (1 / codes_and_factors);
    return positive_and_finite(codes_and_factors / most);
}

/* kernel_set.h, struct kernels. */
static int64_t quantize_rows(const struct quantization *q, int64_t first_row, int64_t rows) {
    const int64_t k = q->problem.k, groups = k / NVFP4_GROUP_ELEMS;
    const int64_t tiles = (groups + SCALE_TILE_GROUPS - 1) / SCALE_TILE_GROUPS;
    const int32_t layout = q->problem.scale_layout;
    const float of_all = read_quantization_scale(q->scale);
    int64_t saturated = 0;
    for (int64_t row = first_row; row < first_row + rows; row++) {
        const float factor = q->form == CUSTOM_KERNEL_QUANTIZE_NORM ? norm_factor(q, row) : 1;
        const float scale = q->token_scale != NULL ? scale_of_row(q, row) : of_all;
        uint8_t *codes = q->codes + row * (k / 2);
        for (int64_t tile = 0; tile < tiles; tile++) {
            uint8_t word[SCALE_TILE_GROUPS] = {0};
            const int64_t first = tile * SCALE_TILE_GROUPS,
                          present = groups - first < SCALE_TILE_GROUPS ? groups - first : SCALE_TILE_GROUPS;
            for (int64_t i = 0; i < present; i++, codes += NVFP4_GROUP_ELEMS / 2) {
                float values[NVFP4_GROUP_ELEMS];
                load_values(q, row, (first + i) * NVFP4_GROUP_ELEMS, factor, values);
                saturated += quantize_group(values, scale, codes, &word[i]);
            }
            if (layout == CUSTOM_KERNEL_SCALES_ROWS) {
                memcpy(q->scales + row * groups + first, word, (size_t)present);
            } else {
                memcpy(q->scales + quantized_word_offset(layout, row, tile, tiles), word, sizeof word);
            }
        }
    }
    return saturated;
}

#endif
