/* Logic, shifts and bit fields (PTX ISA, Logic and Shift Instructions; popc, clz, brev, bfind, fns, bfe, bfi,
 * szext, bmsk). */
#include "isa/opcodes.h"
#include "machine/machine.h"

#define BINARY(name, D, expression)                                                                            \
    static enum next name(struct run *run, const struct insn *insn, uint32_t mask) {                           \
        D *d = row(run, insn->op[0]);                                                                          \
        const D *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]);                                      \
        LANEWISE(mask, D a = pa[l]; D b = pb[l]; d[l] = (D)(expression));                                      \
        return NEXT;                                                                                           \
    }
#define UNARY(name, D, S, expression)                                                                          \
    static enum next name(struct run *run, const struct insn *insn, uint32_t mask) {                           \
        D *d = row(run, insn->op[0]);                                                                          \
        const S *pa = row(run, insn->op[1]);                                                                   \
        LANEWISE(mask, S a = pa[l]; d[l] = (D)(expression));                                                   \
        return NEXT;                                                                                           \
    }
#define LOGIC(name, operator)                                                                                  \
    BINARY(name##_32, uint32_t, a operator b)                                                                  \
    BINARY(name##_64, uint64_t, a operator b)                                                                  \
    static enum next name##_pred(struct run *run, const struct insn *insn, uint32_t mask) {                    \
        set_pred(run, insn->op[0], mask, pred(run, insn->op[1]) operator pred(run, insn->op[2]));              \
        return NEXT;                                                                                           \
    }                                                                                                          \
    DECODE_ONE_TYPE(name,                                                                                      \
                    2, [T_PRED] = name##_pred, [T_B16] = name##_32, [T_B32] = name##_32, [T_B64] = name##_64)
LOGIC(and, &)
LOGIC(or, |)
LOGIC(xor, ^)

UNARY(not_16, uint32_t, uint32_t, (uint16_t)~a)
UNARY(not_32, uint32_t, uint32_t, ~a)
UNARY(not_64, uint64_t, uint64_t, ~a)
UNARY(cnot_32, uint32_t, uint32_t, a == 0)
UNARY(cnot_64, uint64_t, uint64_t, a == 0)

static enum next not_pred(struct run *run, const struct insn *insn, uint32_t mask) {
    set_pred(run, insn->op[0], mask, ~pred(run, insn->op[1]));
    return NEXT;
}

DECODE_ONE_TYPE(not, 1, [T_PRED] = not_pred, [T_B16] = not_16, [T_B32] = not_32, [T_B64] = not_64)

DECODE_ONE_TYPE(cnot, 1, [T_B16] = cnot_32, [T_B32] = cnot_32, [T_B64] = cnot_64)

/* ---- shifts; the amount is a 32-bit value, clamped to the width ---- */

#define SHIFT(name, D, T, bits, expression)                                                                    \
    static enum next name(struct run *run, const struct insn *insn, uint32_t mask) {                           \
        D *d = row(run, insn->op[0]);                                                                          \
        const D *pa = row(run, insn->op[1]);                                                                   \
        const uint32_t *pb = row(run, insn->op[2]);                                                            \
        LANEWISE(mask, T a = (T)pa[l]; uint32_t s = pb[l] > (bits) ? (bits) : pb[l]; d[l] = (D)(expression));  \
        return NEXT;                                                                                           \
    }
SHIFT(shl_16, uint32_t, uint32_t, 16u, (uint16_t)(a << s))
SHIFT(shl_32, uint32_t, uint32_t, 32u, (a << (s & 31)) & (s > 31 ? 0 : UINT32_MAX))
SHIFT(shl_64, uint64_t, uint64_t, 64u, s == 64 ? 0 : a << s)
SHIFT(shr_u16, uint32_t, uint32_t, 16u, a >> s)
SHIFT(shr_u32, uint32_t, uint32_t, 32u, (a >> (s & 31)) & (s > 31 ? 0 : UINT32_MAX))
SHIFT(shr_u64, uint64_t, uint64_t, 64u, s == 64 ? 0 : a >> s)
SHIFT(shr_s16, uint32_t, int16_t, 15u, (uint16_t)(a >> s))
SHIFT(shr_s32, uint32_t, int32_t, 31u, a >> s)
SHIFT(shr_s64, uint64_t, int64_t, 63u, a >> s)

void decode_bit_shift(struct decoder *d) {
    static const exec_fn left[T_TYPES] = {[T_B16] = shl_16, [T_B32] = shl_32, [T_B64] = shl_64};
    static const exec_fn right[T_TYPES] = {[T_B16] = shr_u16, [T_B32] = shr_u32, [T_B64] = shr_u64,
                                           [T_U16] = shr_u16, [T_U32] = shr_u32, [T_U64] = shr_u64,
                                           [T_S16] = shr_s16, [T_S32] = shr_s32, [T_S64] = shr_s64};
    unsigned type = mod_type(d);
    form_of_type(d, named(d, "shr") ? right : left, type);
    EMIT_OPERANDS(d, type, type, T_U32);
}

#define TERNARY(name, expression)                                                                              \
    static enum next name(struct run *run, const struct insn *insn, uint32_t mask) {                           \
        uint32_t *d = row(run, insn->op[0]);                                                                   \
        const uint32_t *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]), *pc = row(run, insn->op[3]);  \
        LANEWISE(mask, uint32_t a = pa[l]; uint32_t b = pb[l]; uint32_t c = pc[l]; d[l] = (expression));       \
        return NEXT;                                                                                           \
    }
/* shf: shifts the 64 bits b:a and returns the high word (.l) or the low word (.r). */
TERNARY(shf_l_wrap, b << (c & 31) | a >> 1 >> (31 - (c & 31)))
TERNARY(shf_l_clamp, (uint32_t)(c >= 32 ? a : ((uint64_t)b << 32 | a) << c >> 32))
TERNARY(shf_r_wrap, a >> (c & 31) | b << 1 << (31 - (c & 31)))
TERNARY(shf_r_clamp, (uint32_t)(((uint64_t)b << 32 | a) >> (c >= 32 ? 32 : c)))

void decode_shf(struct decoder *d) {
    static const exec_fn fns[2][2][T_TYPES] = {{{[T_B32] = shf_l_wrap}, {[T_B32] = shf_l_clamp}},
                                               {{[T_B32] = shf_r_wrap}, {[T_B32] = shf_r_clamp}}};
    bool right = mod(d, "r");
    if (!right && !mod(d, "l")) {
        decode_fail(d, "expected .l or .r");
    }
    bool clamp = mod(d, "clamp");
    if (!clamp && !mod(d, "wrap")) {
        decode_fail(d, "expected .clamp or .wrap");
    }
    of_one_type(d, fns[right][clamp], mod_type(d), 3);
}

/* ---- lop3: immLut has the result for each combination of the three input bits ---- */

static inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t result = 0;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t term = (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
        result |= table >> i & 1 ? term : 0;
    }
    return result;
}
TERNARY(lop3_b32, lop3(a, b, c, insn->integer.table))

static enum next lop3_pred(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t any = 0;
    (void)lop3_b32(run, insn, mask);
    const uint32_t *d = row(run, insn->op[0]);
    FOR_LANES(rest, mask) {
        any |= (uint32_t)(d[LANE(rest)] != 0) << LANE(rest);
    }
    uint32_t q = pred(run, insn->op[5]);
    set_pred(run, insn->op[4], mask, insn->integer.combine_and ? any & q : any | q);
    return NEXT;
}

void decode_lop3(struct decoder *d) {
    bool with_or = mod(d, "or"), with_and = mod(d, "and");
    unsigned type = mod_type(d);
    need_operands(d, with_or || with_and ? 6 : 5, with_or || with_and ? 6 : 5);
    if (type != T_B32) {
        decode_fail(d, "expected type .b32");
    }
    d->insn->integer.table = (uint8_t)immediate(d, &d->op[4]);
    emit_dst(d, &d->op[0], type);
    for (int i = 1; i < 4; i++) {
        emit(d, src(d, &d->op[i], type));
    }
    d->insn->fn = lop3_b32;
    if (with_or || with_and) {
        if (d->op[0].second == NULL) {
            decode_fail(d, "expected a predicate destination");
        }
        emit_dst(d, d->op[0].second, T_PRED);
        emit(d, src(d, &d->op[5], T_PRED));
        d->insn->integer.combine_and = with_and;
        d->insn->fn = lop3_pred;
    }
}

/* ---- bit fields ---- */

UNARY(popc_32, uint32_t, uint32_t, __builtin_popcount(a))
UNARY(popc_64, uint32_t, uint64_t, __builtin_popcountll(a))
UNARY(clz_32, uint32_t, uint32_t, a == 0 ? 32 : __builtin_clz(a))
UNARY(clz_64, uint32_t, uint64_t, a == 0 ? 64 : __builtin_clzll(a))

static inline uint64_t reverse(uint64_t x, int bits) {
    uint64_t result = 0;
    for (int i = 0; i < bits; i++) {
        result |= (x >> i & 1) << (bits - 1 - i);
    }
    return result;
}
UNARY(brev_32, uint32_t, uint32_t, reverse(a, 32))
UNARY(brev_64, uint64_t, uint64_t, reverse(a, 64))

DECODE_ONE_TYPE(brev, 1, [T_B32] = brev_32, [T_B64] = brev_64)

/* Position of the highest bit that differs from the sign; all ones if there is none. */
static uint32_t find_bit(uint64_t x, int bits, bool sign, bool amount) {
    if (sign && (x >> (bits - 1) & 1)) {
        x = ~x & (bits == 64 ? UINT64_MAX : UINT32_MAX);
    }
    if (x == 0) {
        return UINT32_MAX;
    }
    uint32_t at = 63 - (uint32_t)__builtin_clzll(x);
    return amount ? (uint32_t)bits - 1 - at : at;
}
UNARY(bfind_32, uint32_t, uint32_t, find_bit(a, 32, insn->type == T_S32, insn->integer.shift_amount))
UNARY(bfind_64, uint32_t, uint64_t, find_bit(a, 64, insn->type == T_S64, insn->integer.shift_amount))

/* popc, clz, bfind: the result is a 32-bit number. */
void decode_count(struct decoder *d) {
    static const exec_fn ones[T_TYPES] = {[T_B32] = popc_32, [T_B64] = popc_64};
    static const exec_fn zeros[T_TYPES] = {[T_B32] = clz_32, [T_B64] = clz_64};
    static const exec_fn highest[T_TYPES] = {
        [T_U32] = bfind_32, [T_S32] = bfind_32, [T_U64] = bfind_64, [T_S64] = bfind_64};
    d->insn->integer.shift_amount = named(d, "bfind") && mod(d, "shiftamt");
    unsigned type = mod_type(d);
    form_of_type(d, named(d, "popc") ? ones : named(d, "clz") ? zeros : highest, type);
    EMIT_OPERANDS(d, T_U32, type);
}

static uint64_t extract(uint64_t a, uint32_t position, uint32_t length, int bits, bool sign) {
    uint32_t top = (uint32_t)bits - 1;
    position &= 0xff;
    length &= 0xff;
    if (length == 0) {
        return 0;
    }
    uint32_t last = position + length - 1 > top ? top : position + length - 1;
    uint64_t fill = sign ? a >> last & 1 : 0, result = 0;
    if (position <= top) {
        uint32_t got = last - position + 1;
        result = a >> position & (got >= 64 ? UINT64_MAX : ((uint64_t)1 << got) - 1);
        if (fill && got < 64) {
            result |= UINT64_MAX << got;
        }
    } else if (fill) {
        result = UINT64_MAX;
    }
    return result;
}

#define FIELD(name, D, expression)                                                                             \
    static enum next name(struct run *run, const struct insn *insn, uint32_t mask) {                           \
        D *d = row(run, insn->op[0]);                                                                          \
        const D *pa = row(run, insn->op[1]);                                                                   \
        const uint32_t *pb = row(run, insn->op[2]), *pc = row(run, insn->op[3]);                               \
        LANEWISE(mask, D a = pa[l]; uint32_t b = pb[l]; uint32_t c = pc[l]; d[l] = (D)(expression));           \
        return NEXT;                                                                                           \
    }
FIELD(bfe_u32, uint32_t, extract(a, b, c, 32, false))
FIELD(bfe_s32, uint32_t, extract(a, b, c, 32, true))
FIELD(bfe_u64, uint64_t, extract(a, b, c, 64, false))
FIELD(bfe_s64, uint64_t, extract(a, b, c, 64, true))

void decode_bfe(struct decoder *d) {
    static const exec_fn fns[T_TYPES] = {
        [T_U32] = bfe_u32, [T_S32] = bfe_s32, [T_U64] = bfe_u64, [T_S64] = bfe_s64};
    unsigned type = mod_type(d);
    form_of_type(d, fns, type);
    EMIT_OPERANDS(d, type, type, T_U32, T_U32);
}

static uint64_t insert(uint64_t a, uint64_t b, uint32_t position, uint32_t length, uint32_t bits) {
    position &= 0xff;
    length &= 0xff;
    if (position >= bits || length == 0) {
        return b;
    }
    length = length > bits - position ? bits - position : length;
    uint64_t ones = (length >= 64 ? UINT64_MAX : ((uint64_t)1 << length) - 1) << position;
    return (b & ~ones) | (a << position & ones);
}

static enum next exec_bfi(struct run *run, const struct insn *insn, uint32_t mask) {
    bool wide = insn->type == T_B64;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t result =
            insert(lane_u64(run, insn->op[1], lane), lane_u64(run, insn->op[2], lane),
                   lane_u32(run, insn->op[3], lane), lane_u32(run, insn->op[4], lane), wide ? 64 : 32);
        set_lane(run, insn->op[0], lane, result);
    }
    return NEXT;
}

void decode_bfi(struct decoder *d) {
    static const exec_fn fns[T_TYPES] = {[T_B32] = exec_bfi, [T_B64] = exec_bfi};
    unsigned type = mod_type(d);
    form_of_type(d, fns, type);
    EMIT_OPERANDS(d, type, type, type, T_U32, T_U32);
}

/* szext: sign- or zero-extends the low b bits of a; bmsk: b ones from bit a up. */
BINARY(szext_u32, uint32_t,
       insn->integer.wrap ? extract(a, 0, b & 31, 32, false)
                          : (b > 31 ? a : (uint32_t)extract(a, 0, b, 32, false)))
BINARY(szext_s32, uint32_t,
       insn->integer.wrap ? extract(a, 0, b & 31, 32, true)
                          : (b > 31 ? a : (uint32_t)extract(a, 0, b, 32, true)))
BINARY(bmsk_b32, uint32_t,
       insn->integer.wrap ? (uint32_t)((((uint64_t)1 << (b & 31)) - 1) << (a & 31))
                          : (a > 31 ? 0 : (uint32_t)((((uint64_t)1 << (b > 32 ? 32 : b)) - 1) << a)))

void decode_low_bits(struct decoder *d) {
    static const exec_fn extends[T_TYPES] = {[T_U32] = szext_u32, [T_S32] = szext_s32};
    static const exec_fn masks[T_TYPES] = {[T_B32] = bmsk_b32};
    d->insn->integer.wrap = mod(d, "wrap");
    (void)mod(d, "clamp");
    of_one_type(d, named(d, "szext") ? extends : masks, mod_type(d), 2);
}

static uint32_t nth_set(uint32_t bits, uint32_t base, int32_t offset) {
    base &= 31;
    if (offset == 0) {
        return bits >> base & 1 ? base : UINT32_MAX;
    }
    int step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
    for (int at = (int)base; at >= 0 && at < 32; at += step) {
        left -= (int)(bits >> at & 1);
        if (left == 0) {
            return (uint32_t)at;
        }
    }
    return UINT32_MAX;
}
TERNARY(fns_b32, nth_set(a, b, (int32_t)c))

DECODE_ONE_TYPE(fns, 3, [T_B32] = fns_b32)
