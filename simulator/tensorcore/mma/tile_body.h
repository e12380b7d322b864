/* The tile path, compiled once per instruction set; the including file defines TILE_FUNCTION.
 *
 * Once the largest exponent of an element is known, its sum is an integer sum, vectorised over columns.
 * Elements that the vectors cannot compute (NaN, infinity, exponents too far apart for f32) fall back to
 * tc_mma_element. */
#include "tile.h"
#include "vector.h"

/* Rounds sum * 2^unit to f32 for half a register of columns. The sums are exact in double; truncation clears
 * the double's low fraction bits. */
static inline void finish(const struct tc_mma_rule *rule, f64h sum, i64h unit, uint32_t *out) {
    f64h value = sum * power_of_two(unit);
    i64h kept = (i64h)value & ~(((int64_t)1 << (52 - rule->result_fraction)) - 1);
    f32h result = f32_of_f64((f64h)kept);
    i64h magnitude = (i64h)value & INT64_MAX;
    const int64_t smallest = (int64_t)(1023 - 126) << 52, too_large = (int64_t)(1023 + 128) << 52;
    STORE(out, result);
    i64h unusual = ((magnitude < smallest) & (magnitude != 0)) | (magnitude >= too_large);
    if (__builtin_expect(any_i64(unusual), 0)) {
        for (int j = 0; j < HALF; j++) {
            if (unusual[j]) {
                out[j] = tc_round_sum(rule, (int64_t)sum[j], (int)unit[j]);
            }
        }
    }
}

/* Rounds sums to f16, to nearest even: drops 42 bits of the double's fraction. */
static inline void finish_half(const struct tc_mma_rule *rule, f64h sum, i64h unit, uint32_t *out) {
    i64h bits = (i64h)(sum * power_of_two(unit)), magnitude = bits & INT64_MAX;
    const int64_t smallest = (int64_t)(1023 - 14) << 52, too_large = (int64_t)(1023 + 15) << 52 | 0x3ffll << 42;
    i64h rounded = (magnitude + ((1ll << 41) - 1) + (magnitude >> 42 & 1)) >> 42;
    i64h code = (rounded - ((1023 - 15) << 10)) | (bits >> 48 & 0x8000);
    i64h unusual = (magnitude < smallest) | (magnitude > too_large);
    for (int j = 0; j < HALF; j++) {
        out[j] = unusual[j] ? tc_round_sum(rule, (int64_t)sum[j], (int)unit[j]) : (uint32_t)code[j];
    }
}

/* ---- rules with one term per product ---- */

/* A decoded row. Values are divided by 2^shift, the largest exponent of a nonzero element, so that products are
 * exact in f32. */
struct wide_row {
    float value[TC_MMA_MAX_K];
    int16_t exponent[TC_MMA_MAX_K];
    int shift;
    int scale_exponent;
    int special; /* contains a NaN or an infinity */
};

struct wide_block {
    _Alignas(64) float value[TC_MMA_MAX_K][LANES];
    int16_t exponent[TC_MMA_MAX_K][LANES];
    int32_t shift[LANES];
    int32_t scale_exponent[LANES];
    int32_t special[LANES];
};

enum { NO_EXPONENT = -4000 }; /* exponent of zero: sums with other exponents stay below all real ones */

/* What each code of a format of at most 8 bits stands for. */
struct wide_table {
    float value[256];
    int16_t exponent[256];
    uint8_t special[256];
    bool filled;
};

static const struct wide_table *table_of(enum tc_format format) {
    static _Thread_local struct wide_table tables[TC_FORMATS];
    const struct tc_format_info *f = &tc_formats[format];
    struct wide_table *t = &tables[format];
    for (uint32_t code = 0; f->bits <= 8 && !t->filled && code < 256; code++) {
        uint32_t c = code & ((1u << f->bits) - 1), magnitude = c & ((1u << (f->bits - 1)) - 1);
        uint32_t exponent = magnitude >> f->fraction;
        t->value[code] = tc_to_f32(format, c);
        t->exponent[code] =
            (int16_t)(!magnitude ? NO_EXPONENT : f->min_exponent + (exponent ? (int)exponent - 1 : 0));
        t->special[code] = magnitude > f->max_finite;
    }
    t->filled = true;
    return t;
}

static void decode_wide(struct wide_row *row, const uint8_t *codes, enum tc_format format, int k, int negate,
                        const struct wide_table *table) {
    int special = 0, shift = -1000;
    for (int i = 0; i < k; i++) {
        uint32_t bits;
        int exponent;
        float value;
        if (format == TC_F16) {
            uint16_t c;
            memcpy(&c, codes + 2 * i, 2);
            uint32_t magnitude = c & 0x7fff, field = magnitude >> 10;
            value = tc_f32_of_bits(magnitude << 13) *
                    0x1p112f; /* changes the exponent's bias, also for subnormals */
            bits = tc_bits_of_f32(value) | (uint32_t)(c & 0x8000) << 16;
            exponent = (int)(field ? field : 1) - 15;
            special |= field == 31;
        } else if (format == TC_BF16 || format == TC_TF32) {
            if (format == TC_BF16) {
                uint16_t c;
                memcpy(&c, codes + 2 * i, 2);
                bits = (uint32_t)c << 16;
            } else {
                memcpy(&bits, codes + 4 * i, 4);
                bits &= ~0x1fffu;
            }
            uint32_t field = bits >> 23 & 255;
            exponent = (int)(field ? field : 1) - 127;
            special |= field == 255;
        } else {
            bits = tc_bits_of_f32(table->value[codes[i]]);
            exponent = table->exponent[codes[i]];
            special |= table->special[codes[i]];
        }
        if (!(bits & 0x7fffffff)) {
            exponent = NO_EXPONENT;
        } else if (exponent > shift) {
            shift = exponent;
        }
        row->value[i] = tc_f32_of_bits(negate ? bits ^ 0x80000000 : bits);
        row->exponent[i] = (int16_t)exponent;
    }
    if (shift == -1000) {
        shift = 0;
    }
    float factor = shift > 126 ? 0x1p-127f : tc_f32_of_bits((uint32_t)(127 - shift) << 23);
    for (int i = 0; i < k; i++) {
        row->value[i] = special ? 0 : row->value[i] * factor;
    }
    row->shift = shift;
    row->special = special;
    row->scale_exponent = 0;
}

#include "half_body.h"

static void wide_scale(struct wide_row *row, const uint8_t *scale) {
    row->scale_exponent = *scale - 127;
    row->special |= *scale == 255;
}

/* Splits accumulators into significand, in units of 2^-fraction, and exponent. Returns a mask of NaNs and
 * infinities. */
static inline i32v split_accumulator(const struct tc_mma_rule *rule, i32v c, i32v *significand,
                                     i32v *exponent) {
    int fraction = rule->d == TC_F16 ? 10 : 23, fields = rule->d == TC_F16 ? 31 : 255;
    int bias = rule->d == TC_F16 ? 15 : 127, sign_bit = rule->d == TC_F16 ? 15 : 31;
    i32v magnitude = c & (int32_t)((1u << sign_bit) - 1);
    i32v field = magnitude >> fraction;
    i32v normal = field != 0, zero = magnitude == 0;
    i32v value = (magnitude & ((1 << fraction) - 1)) | (normal & (1 << fraction));
    i32v negative = (c << (31 - sign_bit)) < 0;
    *significand = (value ^ negative) - negative;
    i32v power = field + (~normal & 1) - bias - rule->d_scale_log2;
    *exponent = (power & ~zero) | (zero & (rule->grouped ? -126 : NO_EXPONENT));
    return field == fields;
}

enum { WIDEST_SHIFT = 85 }; /* beyond this shift, a product in f32 may have lost relevant bits */

/* One row of A times LANES columns of B. A call with a constant k_count (f16, bf16) unrolls the loops. *redo:
 * mask of columns left to tc_mma_element. */
static inline __attribute__((always_inline)) void wide_lanes(const struct tc_mma_rule *rule, const int k_count,
                                                             const struct wide_row *a,
                                                             const struct wide_block *b, i32v c,
                                                             uint32_t out[LANES], uint32_t *redo) {
    i32v c_significand, c_exponent;
    i32v special = split_accumulator(rule, c, &c_significand, &c_exponent);
    special |= LOAD(i32v, b->special) != 0;

    i16v product_exponent = LOAD(i16v, b->exponent[0]) + a->exponent[0];
    for (int k = 1; k < k_count; k++) {
        product_exponent = max_i16(product_exponent, LOAD(i16v, b->exponent[k]) + a->exponent[k]);
    }
    i32v scale = LOAD(i32v, b->scale_exponent) + a->scale_exponent;
    i32v products = __builtin_convertvector(product_exponent, i32v);
    i32v largest = max_i32(products + scale, c_exponent);
    largest = max_i32(largest, (i32v){0} + TC_LEAST_LARGEST);

    /* Multiplying by 2^left turns a product of the divided values into units of the sum's last place. */
    i32v left = scale + LOAD(i32v, b->shift) + a->shift + rule->fraction_bits - largest;
    special |= (left > WIDEST_SHIFT) & (products > NO_EXPONENT / 2); /* zeros may be shifted any distance */
    i32v field = max_i32(min_i32(left, (i32v){0} + 100) + 127, (i32v){0});
    f32v factor = (f32v)(field << 23);
    f64h sum[2];
    for (int h = 0; h < 2; h++) {
        sum[h] = (f64h){0};
    }
    for (int first = 0; first < k_count; first += 16) { /* 16 terms below 2^27 fit into 32 bits */
        int end = first + 16 < k_count ? first + 16 : k_count;
        i32v part = {0};
        for (int k = first; k < end; k++) {
            part += __builtin_convertvector(LOAD(f32v, b->value[k]) * a->value[k] * factor, i32v);
        }
        for (int h = 0; h < 2; h++) {
            sum[h] += f64_of_i32(HALF_OF(part, h));
        }
    }
    i32v down = largest - c_exponent;
    int c_left = rule->fraction_bits - (rule->d == TC_F16 ? 10 : 23);
    for (int h = 0; h < 2; h++) {
        i64h significand = i64_of_i32(HALF_OF(c_significand, h));
        i64h sign = significand >> 63, magnitude = (significand ^ sign) - sign;
        i64h right = i64_of_i32(HALF_OF(down, h)) - (c_left < 0 ? c_left : 0);
        i64h far = right > 62;
        magnitude =
            (i64h)((u64h)(magnitude << (c_left > 0 ? c_left : 0)) >> (u64h)((right & ~far) | (far & 62)));
        sum[h] += f64_of_i64((magnitude ^ sign) - sign);
        i64h unit = i64_of_i32(HALF_OF(largest, h)) - rule->fraction_bits;
        rule->d == TC_F32 ? finish(rule, sum[h], unit, out + HALF * h)
                          : finish_half(rule, sum[h], unit, out + HALF * h);
    }
    *redo = 0;
    if (__builtin_expect(a->special || any_i32(special), 0)) {
        for (int j = 0; j < LANES; j++) {
            *redo |= (uint32_t)(a->special || special[j]) << j;
        }
    }
}

/* At the tile's right edge, columns are loaded and stored through a buffer. */
static i32v load_accumulator(const uint32_t *d, int columns, bool accumulate) {
    if (!accumulate) {
        return (i32v){0};
    }
    if (columns == LANES) {
        return LOAD(i32v, d);
    }
    uint32_t c[LANES] = {0};
    memcpy(c, d, (size_t)columns * sizeof *c);
    return LOAD(i32v, c);
}

static void store_lanes(const struct tc_mma_rule *rule, const struct tc_mma_operands *in, uint32_t *d, int i,
                        int j, int columns, bool accumulate, uint32_t out[LANES], uint32_t redo) {
    for (int x = 0; redo && x < columns; x++) {
        if (redo >> x & 1) {
            out[x] = tc_mma_element_at(rule, in, i, j + x, accumulate ? d[x] : 0);
        }
    }
    if (columns == LANES) {
        memcpy(d, out, LANES * sizeof *out);
    } else {
        memcpy(d, out, (size_t)columns * sizeof *out);
    }
}

/* Decodes LANES columns of B from column j on; only the first `columns` exist, the others become zero. */
static void decode_block(const struct tc_mma_rule *rule, const struct tc_mma_operands *in, int j, int columns,
                         const struct wide_table *table, struct wide_block *block) {
    memset(block, 0, sizeof *block);
    for (int x = 0; x < columns; x++) {
        struct wide_row column;
        decode_wide(&column, in->b + (j + x) * in->b_stride, rule->b, rule->k, rule->negate_b, table);
        if (rule->scale_block) {
            wide_scale(&column, in->sfb + (j + x) * in->sfb_stride);
        }
        for (int k = 0; k < rule->k; k++) {
            block->value[k][x] = column.value[k];
            block->exponent[k][x] = column.exponent[k];
        }
        block->shift[x] = column.shift;
        block->scale_exponent[x] = column.scale_exponent;
        block->special[x] = column.special;
    }
}

static void wide_tile(const struct tc_mma_rule *rule, const struct tc_mma_operands *in, uint32_t *const *d,
                      int m, int n, bool accumulate) {
    const struct wide_table *a_table = table_of(rule->a), *b_table = table_of(rule->b);
    enum { ROWS = 128 };
    static _Thread_local struct wide_row rows[ROWS];
    for (int top = 0; top < m; top += ROWS) {
        int count = m - top < ROWS ? m - top : ROWS;
        for (int i = 0; i < count; i++) {
            const uint8_t *codes = in->a + (top + i) * in->a_stride;
            if (rule->a == TC_F16 && rule->k % LANES == 0) {
                decode_half_row(&rows[i], codes, rule->k, rule->negate_a);
            } else {
                decode_wide(&rows[i], codes, rule->a, rule->k, rule->negate_a, a_table);
            }
            if (rule->scale_block) {
                wide_scale(&rows[i], in->sfa + (top + i) * in->sfa_stride);
            }
        }
        for (int j = 0; j < n; j += LANES) {
            int columns = n - j < LANES ? n - j : LANES;
            struct wide_block block;
            memset(block.scale_exponent, 0, sizeof block.scale_exponent);
            if (rule->b == TC_F16 && !rule->scale_block) {
                decode_half_block(&block, in->b + j * in->b_stride, in->b_stride, columns, rule->k,
                                  rule->negate_b);
            } else {
                decode_block(rule, in, j, columns, b_table, &block);
            }
            for (int i = 0; i < count; i++) {
                uint32_t *row = d[top + i], redo;
                if (!row) {
                    continue;
                }
                _Alignas(64) uint32_t out[LANES];
                i32v c = load_accumulator(row + j, columns, accumulate);
                if (rule->k == 16) {
                    wide_lanes(rule, 16, &rows[i], &block, c, out, &redo);
                } else {
                    wide_lanes(rule, rule->k, &rows[i], &block, c, out, &redo);
                }
                store_lanes(rule, in, row + j, top + i, j, columns, accumulate, out, redo);
            }
        }
    }
}

#include "fp4_body.h"

void TILE_FUNCTION(const struct tc_mma_rule *rule, const struct tc_mma_operands *in, uint32_t *const *d, int m,
                   int n, bool accumulate) {
    if (rule->grouped) {
        fp4_tile(rule, in, d, m, n, accumulate);
    } else {
        wide_tile(rule, in, d, m, n, accumulate);
    }
}
