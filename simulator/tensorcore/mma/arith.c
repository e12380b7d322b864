/* The rules of the instruction families, and tc_mma_element, which follows the rule step by step. */
#include "arith.h"

#include "tile.h"

enum { ZERO_EXPONENT = -126 }; /* exponent of a zero scale or accumulator in a grouped rule (MMA-Sim) */

enum number_class { FINITE, INFINITE, NOT_A_NUMBER };

/* significand * 2^(exponent - fraction bits of the format) */
struct number {
    enum number_class class;
    int64_t significand;
    int exponent;
};

static struct number decode(enum tc_format format, uint32_t code, bool negate) {
    const struct tc_format_info *f = &tc_formats[format];
    struct number x = {FINITE, 0, ZERO_EXPONENT};
    if (tc_is_nan(format, code)) {
        x.class = NOT_A_NUMBER;
        return x;
    }
    if (format == TC_UE8M0) {
        return (struct number){FINITE, 1, (int)(code & 0xff) - 127};
    }
    if (format == TC_TF32) {
        code = (code & ~0x1fffu) >> 13; /* sign, 8 exponent, 10 fraction bits */
    }
    int bits = format == TC_TF32 ? 19 : f->bits;
    uint32_t magnitude = code & ((1u << (bits - 1)) - 1);
    bool negative = (code >> (bits - 1) & 1) != negate;
    if (format == TC_UE4M3) {
        negative = false;
    }
    uint32_t infinity = format == TC_TF32 ? f->infinity >> 13 : f->infinity;
    if (f->infinity != f->nan && magnitude == infinity) {
        x.class = INFINITE;
        x.significand = negative ? -1 : 1;
        return x;
    }
    uint32_t exponent = magnitude >> f->fraction, fraction = magnitude & ((1u << f->fraction) - 1);
    if (magnitude) {
        x.significand = exponent ? fraction | 1u << f->fraction : fraction;
        x.exponent = f->min_exponent + (exponent ? (int)exponent - 1 : 0);
    }
    if (negative) {
        x.significand = -x.significand;
    }
    return x;
}

static uint32_t code_at(const uint8_t *row, enum tc_format format, int k, bool packed) {
    switch (tc_formats[format].bits) {
    case 32:
        return (uint32_t)row[4 * k] | (uint32_t)row[4 * k + 1] << 8 | (uint32_t)row[4 * k + 2] << 16 |
               (uint32_t)row[4 * k + 3] << 24;
    case 16:
        return (uint32_t)row[2 * k] | (uint32_t)row[2 * k + 1] << 8;
    case 4:
        return packed ? row[k / 2] >> (k % 2 * 4) & 15 : row[k] & 15;
    case 6:
        return row[k] & 63;
    default:
        return row[k];
    }
}

size_t tc_row_bytes(const struct tc_mma_rule *rule, enum tc_format format) {
    int bits = tc_formats[format].bits;
    if (rule->grouped) {
        return (size_t)rule->k / 2;
    }
    return (size_t)rule->k * (bits < 8 ? 1 : bits / 8);
}

/* Shifts a term left by `left` bits (right if negative) to units of the sum's last place, truncating toward
 * zero. */
static int64_t align(int64_t significand, int left) {
    int64_t magnitude = significand < 0 ? -significand : significand;
    if (left >= 0) {
        magnitude <<= left;
    } else {
        magnitude = left > -63 ? magnitude >> -left : 0;
    }
    return significand < 0 ? -magnitude : magnitude;
}

uint32_t tc_round_sum(const struct tc_mma_rule *rule, int64_t sum, int unit_exponent) {
    bool half = rule->d == TC_F16;
    uint32_t sign = sum < 0 ? (half ? 0x8000 : 0x80000000) : 0;
    uint64_t magnitude = sum < 0 ? -(uint64_t)sum : (uint64_t)sum;
    if (!magnitude) {
        return 0;
    }
    int fraction = half ? 10 : 23, min_exponent = half ? -14 : -126, max_exponent = half ? 15 : 127;
    int exponent = 63 - __builtin_clzll(magnitude) + unit_exponent;
    if (exponent < min_exponent) {
        exponent = min_exponent;
    }
    /* The result's last kept bit is worth 2^(exponent - result_fraction). */
    int drop = exponent - rule->result_fraction - unit_exponent;
    if (drop > 0) {
        uint64_t rest = drop < 64 ? magnitude & ((1ull << drop) - 1) : magnitude;
        magnitude = drop < 64 ? magnitude >> drop : 0;
        if (half && drop < 64) {
            uint64_t tie = 1ull << (drop - 1);
            magnitude += rest > tie || (rest == tie && (magnitude & 1));
        }
    } else {
        magnitude <<= -drop;
    }
    if (!magnitude) {
        return 0; /* a result that rounds to zero is +0 */
    }
    magnitude <<= fraction - rule->result_fraction;
    uint64_t code = ((uint64_t)(exponent - min_exponent) << fraction) + magnitude;
    uint64_t infinity = (uint64_t)(max_exponent - min_exponent + 2) << fraction;
    return sign | (uint32_t)(code < infinity ? code : infinity);
}

uint32_t tc_mma_nan(const struct tc_mma_rule *rule) {
    return rule->d == TC_F16 ? 0x7fff : TC_CANONICAL_NAN;
}

static uint32_t infinity_of(const struct tc_mma_rule *rule, int64_t sign) {
    uint32_t positive = rule->d == TC_F16 ? 0x7c00 : 0x7f800000;
    return sign < 0 ? positive | (rule->d == TC_F16 ? 0x8000 : 0x80000000) : positive;
}

static uint32_t integer_element(const struct tc_mma_rule *rule, const uint8_t *a, const uint8_t *b,
                                uint32_t c) {
    int64_t sum = (int32_t)c;
    for (int k = 0; k < rule->k; k++) {
        sum += (rule->a == TC_S8 ? (int8_t)a[k] : a[k]) * (rule->b == TC_S8 ? (int8_t)b[k] : b[k]);
    }
    if (rule->saturate) {
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    }
    return (uint32_t)sum;
}

static uint32_t two_passes(const struct tc_mma_rule *rule, const uint8_t *a, const uint8_t *b, uint32_t c) {
    struct tc_mma_rule half = *rule;
    uint32_t sum = 0;
    half.two_passes = false;
    half.k = rule->k / 2;
    for (int pass = 0; pass < 2; pass++) {
        uint8_t x[TC_MMA_MAX_K], y[TC_MMA_MAX_K];
        for (int i = 0; i < half.k; i++) {
            int k = i / 2 * 4 + i % 2 + 2 * pass;
            x[i] = a[k];
            y[i] = b[k];
        }
        sum = tc_mma_element(&half, x, y, NULL, NULL, sum);
    }
    float total = tc_f32_of_bits(sum) + tc_f32_of_bits(c);
    return total != total ? TC_CANONICAL_NAN : tc_bits_of_f32(total);
}

uint32_t tc_mma_element(const struct tc_mma_rule *rule, const uint8_t *a, const uint8_t *b, const uint8_t *sfa,
                        const uint8_t *sfb, uint32_t c) {
    if (rule->d == TC_S32) {
        return integer_element(rule, a, b, c);
    }
    if (rule->two_passes) {
        return two_passes(rule, a, b, c);
    }

    struct number term[TC_MMA_MAX_K + 1];
    int fraction[TC_MMA_MAX_K + 1], terms = 0;
    int64_t infinite = 0; /* sign of the infinities so far; 0: none */
    bool nan = false;

    struct number acc = decode(rule->d, c, false);
    nan |= acc.class == NOT_A_NUMBER;
    if (acc.class == INFINITE) {
        infinite = acc.significand;
    }
    if (acc.significand) {
        acc.exponent -= rule->d_scale_log2;
    }
    fraction[terms] = tc_formats[rule->d].fraction;
    term[terms++] = acc;

    int scale_fraction = rule->scale_block ? 2 * tc_formats[rule->scale].fraction : 0;
    int step = rule->grouped ? TC_MXF4_GROUP : 1;
    for (int k = 0; k < rule->k; k += step) {
        struct number scale = {FINITE, 1, 0};
        if (rule->scale_block) {
            struct number x = decode(rule->scale, sfa[k / rule->scale_block], false);
            struct number y = decode(rule->scale, sfb[k / rule->scale_block], false);
            nan |= x.class == NOT_A_NUMBER || y.class == NOT_A_NUMBER;
            scale.significand = x.significand * y.significand;
            scale.exponent = x.exponent + y.exponent;
        }
        struct number t = {FINITE, 0, 0};
        for (int i = k; i < k + step; i++) {
            struct number x = decode(rule->a, code_at(a, rule->a, i, rule->grouped), rule->negate_a);
            struct number y = decode(rule->b, code_at(b, rule->b, i, rule->grouped), rule->negate_b);
            if (x.class != FINITE || y.class != FINITE) {
                int64_t sign = x.significand * y.significand; /* 0 for NaN and for 0 * infinity */
                nan |= !sign || (infinite && (infinite < 0) != (sign < 0));
                infinite = sign;
            }
            if (rule->grouped) {
                /* In units of 1/4: the exponents of e2m1 are 0 to 2. */
                t.significand += x.significand && y.significand
                                     ? x.significand * y.significand * (1 << (x.exponent + y.exponent))
                                     : 0;
            } else {
                t.significand = x.significand * y.significand;
                t.exponent = x.exponent + y.exponent;
            }
        }
        t.significand *= scale.significand;
        t.exponent += scale.exponent;
        fraction[terms] = tc_formats[rule->a].fraction + tc_formats[rule->b].fraction + scale_fraction;
        term[terms++] = t;
    }
    if (nan) {
        return tc_mma_nan(rule);
    }
    if (infinite) {
        return infinity_of(rule, infinite);
    }

    int largest = rule->grouped ? term[0].exponent : TC_LEAST_LARGEST;
    for (int i = 0; i < terms; i++) {
        if ((rule->grouped || term[i].significand) && term[i].exponent > largest) {
            largest = term[i].exponent;
        }
    }
    int64_t sum = 0;
    for (int i = 0; i < terms; i++) {
        sum += align(term[i].significand, rule->fraction_bits - fraction[i] + term[i].exponent - largest);
    }
    return tc_round_sum(rule, sum, largest - rule->fraction_bits);
}

/* ---- the families ---- */
static struct tc_mma_rule rule_of(enum tc_format a, enum tc_format b, enum tc_format d, int k) {
    struct tc_mma_rule rule = {0};
    rule.a = a;
    rule.b = b;
    rule.d = d;
    rule.k = k;
    rule.fraction_bits = TC_FRACTION_MMA;
    rule.result_fraction = d == TC_F16 ? 10 : 23;
    return rule;
}

/* K of 32 bytes. */
static int natural_k(enum tc_format a) {
    int bits = tc_formats[a].bits;
    return 32 / (bits < 8 ? 1 : bits / 8);
}

struct tc_mma_rule tc_rule_wgmma(enum tc_format a, enum tc_format b, enum tc_format d) {
    struct tc_mma_rule rule = rule_of(a, b, d, natural_k(a));
    if (a == TC_E4M3 || a == TC_E5M2) {
        rule.fraction_bits = TC_FRACTION_WGMMA_FP8;
        rule.result_fraction = d == TC_F16 ? 10 : TC_FRACTION_WGMMA_FP8;
    }
    return rule;
}

struct tc_mma_rule tc_rule_mma_sync(enum tc_format a, enum tc_format b, enum tc_format d, int k) {
    struct tc_mma_rule rule = rule_of(a, b, d, k);
    rule.two_passes = d == TC_F32 && (a == TC_E4M3 || a == TC_E5M2);
    return rule;
}

struct tc_mma_rule tc_rule_tcgen05(enum tc_format a, enum tc_format b, enum tc_format d) {
    return rule_of(a, b, d, natural_k(a));
}

struct tc_mma_rule tc_rule_mxf8f6f4(enum tc_format a, enum tc_format b) {
    struct tc_mma_rule rule = rule_of(a, b, TC_F32, 32);
    rule.scale = TC_UE8M0;
    rule.scale_block = 32;
    return rule;
}

struct tc_mma_rule tc_rule_mxf4(enum tc_format scale, int scale_block) {
    struct tc_mma_rule rule = rule_of(TC_E2M1, TC_E2M1, TC_F32, 64);
    rule.fraction_bits = TC_FRACTION_MXF4;
    rule.scale = scale;
    rule.scale_block = scale_block;
    rule.grouped = true;
    return rule;
}

void tc_mma_tile_generic(const struct tc_mma_rule *rule, const struct tc_mma_operands *in, uint32_t *const *d,
                         int m, int n, bool accumulate) {
    for (int i = 0; i < m; i++) {
        for (int j = 0; d[i] && j < n; j++) {
            d[i][j] = tc_mma_element_at(rule, in, i, j, accumulate ? d[i][j] : 0);
        }
    }
}
