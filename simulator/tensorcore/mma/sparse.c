/* Products of a structured sparse A: legality and position of metadata, and tc_mma_sparse_tile. */
#include "sparse.h"

#include <string.h>

enum {
    STRIP = 64,      /* rows of A per call of tc_mma_tile */
    MOST_BYTES = 64, /* longest row of stored elements */
    MOST_COLUMNS = 256
};

bool tc_sparse_legal(uint8_t metadata, enum tc_format a, bool ordered) {
    int first = metadata & 3, second = metadata >> 2;
    if (a == TC_TF32) {
        return (first == 0 && second == 1) || (first == 2 && second == 3);
    }
    return first < second || (!ordered && first != second);
}

bool tc_sparse_idle(uint8_t metadata, enum tc_format a, const uint8_t *row, int chunk) {
    static const uint8_t zeros[4] = {0};
    size_t bytes = 2 * (size_t)tc_sparse_unit(a);
    return a != TC_TF32 && (metadata & 3) == metadata >> 2 &&
           memcmp(row + (size_t)chunk * bytes, zeros, bytes) == 0;
}

/* With 16- and 32-bit elements a lane has four chunks of two rows, with narrower ones eight of one row. */
static bool is_wide(enum tc_format a) {
    return tc_formats[a].bits >= 16;
}

int tc_sparse_place(enum tc_format a, int chunks, uint32_t selector, int row, int chunk, int *nibble) {
    int thread, lower = row % 16 / 8, first = (int)selector;
    if (is_wide(a)) {
        thread = chunks == 4 ? first : 2 * first + chunk / 4;
        *nibble = chunk % 4 + 4 * lower;
    } else {
        thread = lower + 2 * (chunks == 8 ? first : chunk / 8);
        *nibble = chunk % 8;
    }
    return row % 8 * 4 + thread;
}

/* `unit` is a constant at each call, so that memcpy becomes one move. */
static inline __attribute__((always_inline)) void
choose_units(uint8_t *out, const uint8_t *dense, const uint8_t *chunks, int count, const int unit) {
    for (int c = 0; c < count; c++, dense += 4 * unit, out += 2 * unit) {
        memcpy(out, dense + (chunks[c] & 3) * unit, (size_t)unit);
        memcpy(out + unit, dense + (chunks[c] >> 2) * unit, (size_t)unit);
    }
}

/* Gathers the units of a dense row that the metadata selects. */
static void choose(uint8_t *out, const uint8_t *dense, const uint8_t *chunks, int count, int unit) {
    if (unit == 1) {
        choose_units(out, dense, chunks, count, 1);
    } else {
        choose_units(out, dense, chunks, count, 2);
    }
}

/* The reverse: the dense row with stored units in place and zeros elsewhere. */
static void spread(uint8_t *dense, const uint8_t *stored, const uint8_t *chunks, int count, int unit) {
    memset(dense, 0, (size_t)(4 * count * unit));
    for (int c = 0; c < count; c++, dense += 4 * unit, stored += 2 * unit) {
        memcpy(dense + (chunks[c] & 3) * unit, stored, (size_t)unit);
        memcpy(dense + (chunks[c] >> 2) * unit, stored + unit, (size_t)unit);
    }
}

/* True if a row contains a NaN or an infinity. */
static bool is_special(const uint8_t *codes, enum tc_format format, int k) {
    int bytes = tc_formats[format].bits <= 8 ? 1 : tc_formats[format].bits / 8;
    uint32_t magnitude = (1u << (tc_formats[format].bits - 1)) - 1;
    bool special = false;
    for (int i = 0; i < k; i++) {
        uint32_t code = 0;
        memcpy(&code, codes + i * bytes, (size_t)bytes);
        special |= (code & magnitude) > (tc_formats[format].max_finite | (format == TC_TF32 ? 0x1fff : 0));
    }
    return special;
}

/* True if A can be expanded to dense rows, since products with zero do not change a sum. Not if B has a NaN or
 * infinity, if the rule sums in groups or two passes, or if the row is too long for the tile path. */
static bool spreads(const struct tc_mma_rule *rule, const struct tc_mma_operands *in, int n) {
    if (rule->d == TC_S32) {
        return true;
    }
    bool plain = !rule->grouped && !rule->two_passes && 2 * rule->k <= TC_MMA_MAX_K;
    for (int j = 0; plain && j < n; j++) {
        plain = !is_special(in->b + (size_t)j * in->b_stride, rule->b, 2 * rule->k);
    }
    return plain;
}

void tc_mma_sparse_tile(const struct tc_mma_rule *rule, const struct tc_mma_operands *in,
                        const struct tc_sparse *sparse, uint32_t *const *d, int m, int n, bool accumulate) {
    size_t bytes = tc_row_bytes(rule, rule->a);
    int unit = sparse->unit, count = (int)bytes / (2 * unit);
    if (!spreads(rule, in, n)) {
        uint8_t chosen[MOST_COLUMNS][MOST_BYTES];
        for (int i = 0; i < m; i++) {
            for (int j = 0; j < n; j++) {
                choose(chosen[j], in->b + (size_t)j * in->b_stride, sparse->chunks + (size_t)i * sparse->stride,
                       count, unit);
            }
            struct tc_mma_operands row = *in;
            row.a += (size_t)i * in->a_stride;
            row.sfa = in->sfa ? in->sfa + (size_t)i * in->sfa_stride : NULL;
            row.b = chosen[0];
            row.b_stride = sizeof chosen[0];
            tc_mma_tile(rule, &row, d + i, 1, n, accumulate);
        }
        return;
    }
    struct tc_mma_rule dense_rule = *rule;
    dense_rule.k = 2 * rule->k;
    dense_rule.scale_block = 2 * rule->scale_block;
    for (int top = 0; top < m; top += STRIP) {
        uint8_t dense[STRIP][2 * MOST_BYTES];
        int rows = m - top < STRIP ? m - top : STRIP;
        for (int i = 0; i < rows; i++) {
            spread(dense[i], in->a + (size_t)(top + i) * in->a_stride,
                   sparse->chunks + (size_t)(top + i) * sparse->stride, count, unit);
        }
        struct tc_mma_operands strip = *in;
        strip.a = dense[0];
        strip.a_stride = sizeof dense[0];
        strip.sfa = in->sfa ? in->sfa + (size_t)top * in->sfa_stride : NULL;
        tc_mma_tile(&dense_rule, &strip, d + top, rows, n, accumulate);
    }
}
