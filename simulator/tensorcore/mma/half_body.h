/* Decodes f16 for the tile path, a vector at a time; decode_wide of tile_body.h, which includes this file, does
 * the same for one number. */

typedef uint16_t u16v __attribute__((vector_size(2 * LANES)));

struct half_lanes {
    f32v value;
    i32v exponent; /* NO_EXPONENT: the number is zero */
    i32v special;  /* mask of NaNs and infinities */
};

static inline struct half_lanes decode_half(u16v codes, int negate) {
    i32v code = __builtin_convertvector(codes, i32v);
    i32v magnitude = code & 0x7fff, field = magnitude >> 10;
    f32v value = (f32v)(magnitude << 13) * 0x1p112f; /* changes the exponent's bias, also for subnormals */
    i32v zero = magnitude == 0;
    i32v exponent = max_i32(field, (i32v){0} + 1) - 15;
    i32v sign = ((code & 0x8000) ^ ((i32v){0} + (negate ? 0x8000 : 0))) << 16;
    return (struct half_lanes){(f32v)((i32v)value | sign), (exponent & ~zero) | (zero & NO_EXPONENT),
                               field == 31};
}

/* Decodes a row of A. */
static void decode_half_row(struct wide_row *row, const uint8_t *codes, int k, int negate) {
    i32v shift = (i32v){0} - 1000, special = {0};
    for (int i = 0; i < k; i += LANES) {
        struct half_lanes lanes = decode_half(LOAD(u16v, codes + 2 * i), negate);
        STORE(row->value + i, lanes.value);
        STORE(row->exponent + i, __builtin_convertvector(lanes.exponent, i16v));
        shift = max_i32(shift, lanes.exponent);
        special |= lanes.special;
    }
    int largest = -1000;
    for (int i = 0; i < LANES; i++) {
        largest = shift[i] > largest ? shift[i] : largest;
    }
    row->shift = largest == -1000 ? 0 : largest;
    row->special = any_i32(special) != 0;
    row->scale_exponent = 0;
    f32v factor = (f32v){0} + (row->special ? 0.0f : tc_f32_of_bits((uint32_t)(127 - row->shift) << 23));
    for (int i = 0; i < k; i += LANES) {
        f32v value = LOAD(f32v, row->value + i);
        f32v kept = row->special ? (f32v){0} : value * factor;
        STORE(row->value + i, kept);
    }
}

/* Decodes LANES columns of B; only the first `columns` exist, the others become zero. */
static void decode_half_block(struct wide_block *block, const uint8_t *codes, size_t stride, int columns, int k,
                              int negate) {
    _Alignas(64) uint16_t turned[32][LANES];
    memset(turned, 0, sizeof turned);
    for (int x = 0; x < columns; x++) {
        uint16_t column[32];
        memcpy(column, codes + (size_t)x * stride, (size_t)k * sizeof *column);
        for (int i = 0; i < k; i++) {
            turned[i][x] = column[i];
        }
    }
    i32v shift = (i32v){0} - 1000, special = {0};
    for (int i = 0; i < k; i++) {
        struct half_lanes lanes = decode_half(LOAD(u16v, turned[i]), negate);
        STORE(block->value[i], lanes.value);
        STORE(block->exponent[i], __builtin_convertvector(lanes.exponent, i16v));
        shift = max_i32(shift, lanes.exponent);
        special |= lanes.special;
    }
    shift &= shift != -1000;
    f32v factor = (f32v)((((i32v){0} + 127 - shift) << 23));
    for (int i = 0; i < k; i++) {
        f32v value = LOAD(f32v, block->value[i]) * factor;
        i32v kept = (i32v)value & ~special;
        STORE(block->value[i], kept);
    }
    i32v flags = special & 1;
    STORE(block->shift, shift);
    STORE(block->special, flags);
}
