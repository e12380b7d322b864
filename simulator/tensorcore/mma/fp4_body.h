/* The tile path for fp4 with block scales, included by tile_body.h.
 *
 * An e2m1 value times two is an integer from -12 to 12.  x86's multiply-adds take u8 x s8, so 12 is added to
 * A's values; starting a column's sum at -12 times the sum of B's bytes cancels that.  A group's sum is in
 * units of 1/4, and below 2304 in magnitude. */
enum { GROUPS = 4, QUADS = 4, BIAS = 12 };

struct fp4_row {
    uint32_t quad[GROUPS][QUADS]; /* four biased bytes each */
    float scale[GROUPS];
    int32_t significand[GROUPS], exponent[GROUPS];
    int largest; /* largest exponent of a scale */
    int nan;
};

struct fp4_block {
    _Alignas(64) int8_t twice[GROUPS][QUADS][LANES][4];
    int32_t unbias[GROUPS][LANES];
    float scale[GROUPS][LANES];
    int32_t significand[GROUPS][LANES], exponent[GROUPS][LANES];
    int32_t nan[LANES];
    int largest;
};

enum { GROUP_BYTES = TC_MXF4_GROUP / 2 };

/* Twice the values of a group of codes, the low nibble first, with BIAS added; returns their sum. */
static inline int fp4_biased(const uint8_t codes[GROUP_BYTES], bool negate, uint8_t out[TC_MXF4_GROUP]) {
    static const uint8_t biased[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
#if defined(__AVX2__)
    const __m128i packed = _mm_xor_si128(_mm_loadl_epi64((const __m128i *)(const void *)codes),
                                         _mm_set1_epi8((char)(negate ? 0x88 : 0)));
    const __m128i low = _mm_set1_epi8(15), high = _mm_srli_epi16(packed, 4);
    const __m128i nibbles = _mm_and_si128(_mm_unpacklo_epi8(packed, high), low);
    const __m128i table = _mm_loadu_si128((const __m128i *)(const void *)biased);
    const __m128i values = _mm_shuffle_epi8(table, nibbles), sums = _mm_sad_epu8(values, _mm_setzero_si128());
    _mm_storeu_si128((__m128i *)(void *)out, values);
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4);
#else
    int sum = 0;
    for (int k = 0; k < TC_MXF4_GROUP; k++) {
        out[k] = biased[(codes[k / 2] >> (4 * (k % 2)) & 15) ^ (negate ? 8 : 0)];
        sum += out[k];
    }
    return sum;
#endif
}

struct fp4_scale {
    float value;
    int significand, exponent, nan;
};

static struct fp4_scale fp4_decode_scale(enum tc_format format, uint8_t code) {
    struct fp4_scale s = {0, 0, -126, 0};
    if (tc_is_nan(format, code)) {
        s.nan = 1;
    } else if (format == TC_UE8M0) {
        s.significand = 1;
        s.exponent = code - 127;
        s.value = 0; /* unused: a product may exceed f32, so the fast path is not taken */
    } else if (code & 0x7f) {
        int field = code >> 3 & 15;
        s.significand = field ? (code & 7) | 8 : code & 7;
        s.exponent = (field ? field : 1) - 7;
        s.value = (float)s.significand * tc_f32_of_bits((uint32_t)(127 + s.exponent - 3) << 23);
    }
    return s;
}

/* The decoded scales by code: the thread's table, filled at its first use. */
static const struct fp4_scale *fp4_scales(enum tc_format format) {
    enum { CODES = 256 };
    static _Thread_local struct fp4_scale tables[2][CODES];
    static _Thread_local bool filled[2];
    const int which = format == TC_UE8M0;
    for (int code = 0; code < CODES && !filled[which]; code++) {
        tables[which][code] = fp4_decode_scale(format, (uint8_t)code);
    }
    filled[which] = true;
    return tables[which];
}

static void fp4_load_row(struct fp4_row *row, const struct tc_mma_rule *rule, const struct fp4_scale *decoded,
                         const uint8_t *codes, const uint8_t *scales) {
    row->largest = -1000;
    row->nan = 0;
    for (int g = 0; g < GROUPS; g++) {
        (void)fp4_biased(codes + g * GROUP_BYTES, rule->negate_a, (uint8_t *)row->quad[g]);
        struct fp4_scale s = decoded[scales[g * TC_MXF4_GROUP / rule->scale_block]];
        row->scale[g] = s.value * 0.25f; /* products are in units of 1/4 */
        row->significand[g] = s.significand;
        row->exponent[g] = s.exponent;
        row->nan |= s.nan;
        row->largest = s.exponent > row->largest ? s.exponent : row->largest;
    }
}

static void fp4_load_block(struct fp4_block *b, const struct tc_mma_rule *rule, const struct fp4_scale *decoded,
                           const struct tc_mma_operands *in, int j, int columns) {
    memset(b, 0, sizeof *b);
    b->largest = -1000;
    for (int x = 0; x < columns; x++) {
        const uint8_t *codes = in->b + (j + x) * in->b_stride, *scales = in->sfb + (j + x) * in->sfb_stride;
        for (int g = 0; g < GROUPS; g++) {
            uint8_t biased[TC_MXF4_GROUP];
            int8_t twice[TC_MXF4_GROUP];
            const int sum = fp4_biased(codes + g * GROUP_BYTES, rule->negate_b, biased);
            for (int k = 0; k < TC_MXF4_GROUP; k++) {
                twice[k] = (int8_t)(biased[k] - BIAS);
            }
            for (int q = 0; q < QUADS; q++) {
                memcpy(b->twice[g][q][x], &twice[4 * q], 4);
            }
            b->unbias[g][x] = -BIAS * (sum - BIAS * TC_MXF4_GROUP);
            struct fp4_scale s = decoded[scales[g * TC_MXF4_GROUP / rule->scale_block]];
            b->scale[g][x] = s.value;
            b->significand[g][x] = s.significand;
            b->exponent[g][x] = s.exponent;
            b->nan[x] |= s.nan;
            b->largest = s.exponent > b->largest ? s.exponent : b->largest;
        }
    }
}

static inline i32v fp4_group_sum(const struct fp4_row *a, const struct fp4_block *b, int g) {
#if defined(__AVX512VNNI__)
    __m512i sum = _mm512_load_si512(b->unbias[g]);
    for (int q = 0; q < QUADS; q++) {
        sum =
            _mm512_dpbusd_epi32(sum, _mm512_set1_epi32((int)a->quad[g][q]), _mm512_load_si512(b->twice[g][q]));
    }
    return (i32v)sum;
#elif defined(__AVX2__)
    __m256i pairs = _mm256_setzero_si256();
    for (int q = 0; q < QUADS; q++) {
        __m256i x = _mm256_set1_epi32((int)a->quad[g][q]);
        __m256i y = _mm256_load_si256((const __m256i *)b->twice[g][q]);
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(x, y)); /* at most 4 * 576, fits 16 bits */
    }
    return (i32v)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)) + LOAD(i32v, b->unbias[g]);
#else
    i32v sum = LOAD(i32v, b->unbias[g]);
    for (int q = 0; q < QUADS; q++) {
        uint32_t quad = a->quad[g][q];
        for (int x = 0; x < 4; x++) {
            int32_t byte = (int32_t)(quad >> (8 * x) & 255);
            i32v column = LOAD(i32v, b->twice[g][q]);
            sum += (column << (24 - 8 * x) >> 24) * byte;
        }
    }
    return sum;
#endif
}

/* True if C is below 2^16 and a multiple of 2^-20. If all exponents are at most 15, every term is a multiple of
 * 2^-20 (1/4 * 1/64 * 2^-12) and nothing is truncated, so that an exact sum in double is right. */
static inline bool fp4_exact_in_double(f32v c) {
    f32v scaled = c * 0x1p20f;
    i32v magnitude = (i32v)c & INT32_MAX;
    i32v field = ((i32v)c >> 23) & 255;
    /* From 2^4 on (field 131) every f32 is a multiple of 2^-19; below, check whether 2^20 c is an integer. */
    i32v small = field < 127 + 4;
    i32v whole = (f32v)((i32v)scaled & small) ==
                 __builtin_convertvector(__builtin_convertvector((f32v)((i32v)scaled & small), i32v), f32v);
    return !any_i32((magnitude >= (127 + 16) << 23) | ~whole);
}

static void fp4_fast(const struct tc_mma_rule *rule, const struct fp4_row *a, const struct fp4_block *b, f32v c,
                     uint32_t *out) {
    (void)rule;
    f64h sum[2];
    sum[0] = sum[1] = (f64h){0};
    for (int g = 0; g < GROUPS; g++) {
        /* 12 bits of the group's sum times 8 bits of the scales' product: exact in f32. */
        f32v term =
            __builtin_convertvector(fp4_group_sum(a, b, g), f32v) * (LOAD(f32v, b->scale[g]) * a->scale[g]);
        for (int h = 0; h < 2; h++) {
            sum[h] += __builtin_convertvector(HALF_OF(term, h), f64h);
        }
    }
    for (int h = 0; h < 2; h++) {
        sum[h] += __builtin_convertvector(HALF_OF(c, h), f64h);
        /* The sum is a multiple of 2^-20 below 2^18, so f32 neither overflows nor underflows, and it cannot be
         * -0. */
        i64h kept = (i64h)sum[h] & ~((1ll << 29) - 1);
        STORE(out + HALF * h, __builtin_convertvector((f64h)kept, f32h));
    }
}

/* The general case, in 64-bit integers. */
static void fp4_explicit(const struct tc_mma_rule *rule, const struct fp4_row *a, const struct fp4_block *b,
                         i32v c, uint32_t *out, uint32_t *redo) {
    i32v c_significand, c_exponent;
    i32v special = split_accumulator(rule, c, &c_significand, &c_exponent);
    i32v largest = c_exponent, exponent[GROUPS];
    for (int g = 0; g < GROUPS; g++) {
        exponent[g] = LOAD(i32v, b->exponent[g]) + a->exponent[g];
        largest = max_i32(largest, exponent[g]);
    }
    int scale_fraction = 2 * tc_formats[rule->scale].fraction;
    i64h sum[2];
    sum[0] = sum[1] = (i64h){0};
    for (int g = 0; g <= GROUPS; g++) { /* the last term is the accumulator */
        i32v value = g < GROUPS ? fp4_group_sum(a, b, g) * (LOAD(i32v, b->significand[g]) * a->significand[g])
                                : c_significand;
        i32v down = largest - (g < GROUPS ? exponent[g] : c_exponent);
        int left = rule->fraction_bits - (g < GROUPS ? 2 + scale_fraction : 23);
        for (int h = 0; h < 2; h++) {
            i64h v = __builtin_convertvector(HALF_OF(value, h), i64h);
            i64h sign = v >> 63, right = __builtin_convertvector(HALF_OF(down, h), i64h), far = right > 62;
            i64h magnitude = ((v ^ sign) - sign) << left >> ((right & ~far) | (far & 62));
            sum[h] += (magnitude ^ sign) - sign;
        }
    }
    for (int h = 0; h < 2; h++) {
        finish(rule, __builtin_convertvector(sum[h], f64h),
               __builtin_convertvector(HALF_OF(largest, h), i64h) - rule->fraction_bits, out + HALF * h);
    }
    *redo = 0;
    for (int j = 0; j < LANES; j++) {
        out[j] = b->nan[j] ? tc_mma_nan(rule) : out[j];
        *redo |= (uint32_t)(special[j] && !b->nan[j]) << j;
    }
}

/* A NaN scale of A makes the whole row NaN. Padded rows of scale factors often contain NaNs. */
static void fp4_nan(const struct tc_mma_rule *rule, uint32_t out[LANES]) {
    for (int j = 0; j < LANES; j++) {
        out[j] = tc_mma_nan(rule);
    }
}

static void fp4_tile(const struct tc_mma_rule *rule, const struct tc_mma_operands *in, uint32_t *const *d,
                     int m, int n, bool accumulate) {
    enum { ROWS = 128 };
    static _Thread_local struct fp4_row rows[ROWS];
    const struct fp4_scale *decoded = fp4_scales(rule->scale);
    for (int top = 0; top < m; top += ROWS) {
        int count = m - top < ROWS ? m - top : ROWS;
        for (int i = 0; i < count; i++) {
            fp4_load_row(&rows[i], rule, decoded, in->a + (top + i) * in->a_stride,
                         in->sfa + (top + i) * in->sfa_stride);
        }
        for (int j = 0; j < n; j += LANES) {
            int columns = n - j < LANES ? n - j : LANES;
            struct fp4_block block;
            fp4_load_block(&block, rule, decoded, in, j, columns);
            int block_nan = any_i32(LOAD(i32v, block.nan));
            for (int i = 0; i < count; i++) {
                uint32_t *row = d[top + i], redo = 0;
                if (!row) {
                    continue;
                }
                _Alignas(64) uint32_t out[LANES];
                i32v c = load_accumulator(row + j, columns, accumulate);
                if (rows[i].nan) {
                    fp4_nan(rule, out);
                } else if (rule->scale == TC_UE4M3 && rule->d_scale_log2 == 0 && !block_nan &&
                           rows[i].largest + block.largest <= 15 && fp4_exact_in_double((f32v)c)) {
                    fp4_fast(rule, &rows[i], &block, (f32v)c, out);
                } else {
                    fp4_explicit(rule, &rows[i], &block, c, out, &redo);
                }
                store_lanes(rule, in, row + j, top + i, j, columns, accumulate, out, redo);
            }
        }
    }
}
