/* Integer arithmetic (PTX ISA, Integer Arithmetic Instructions). */
#include "isa/opcodes.h"
#include "machine/machine.h"

/* T is the type of the operation, D that of a row's element: 16-bit values are kept zero-extended in 32-bit
 * rows. */
#define BINARY(name, D, T, expression)                                                                         \
    static enum next name(struct run *run, const struct insn *insn, uint32_t mask) {                           \
        D *d = row(run, insn->op[0]);                                                                          \
        const D *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]);                                      \
        LANEWISE(mask, T a = (T)pa[l]; T b = (T)pb[l]; d[l] = (D)(expression));                                \
        return NEXT;                                                                                           \
    }
#define UNARY(name, D, T, expression)                                                                          \
    static enum next name(struct run *run, const struct insn *insn, uint32_t mask) {                           \
        D *d = row(run, insn->op[0]);                                                                          \
        const D *pa = row(run, insn->op[1]);                                                                   \
        LANEWISE(mask, T a = (T)pa[l]; d[l] = (D)(expression));                                                \
        return NEXT;                                                                                           \
    }

BINARY(add_16, uint32_t, uint32_t, (uint16_t)(a + b))
BINARY(add_32, uint32_t, uint32_t, a + b)
BINARY(add_64, uint64_t, uint64_t, a + b)
BINARY(add_16x2, uint32_t, uint32_t, ((a + b) & 0xffffu) | ((a & 0xffff0000u) + (b & 0xffff0000u)))
BINARY(add_sat_32, uint32_t, int64_t,
       (int32_t)a + (int64_t)(int32_t)b > INT32_MAX   ? INT32_MAX
       : (int32_t)a + (int64_t)(int32_t)b < INT32_MIN ? INT32_MIN
                                                      : (int32_t)a + (int64_t)(int32_t)b)
BINARY(sub_16, uint32_t, uint32_t, (uint16_t)(a - b))
BINARY(sub_32, uint32_t, uint32_t, a - b)
BINARY(sub_64, uint64_t, uint64_t, a - b)
BINARY(sub_sat_32, uint32_t, int64_t,
       (int32_t)a - (int64_t)(int32_t)b > INT32_MAX   ? INT32_MAX
       : (int32_t)a - (int64_t)(int32_t)b < INT32_MIN ? INT32_MIN
                                                      : (int32_t)a - (int64_t)(int32_t)b)
BINARY(mul_lo_16, uint32_t, uint32_t, (uint16_t)(a * b))
BINARY(mul_lo_32, uint32_t, uint32_t, a *b)
BINARY(mul_lo_64, uint64_t, uint64_t, a *b)
BINARY(mul_hi_u16, uint32_t, uint32_t, (uint16_t)(a * b >> 16))
BINARY(mul_hi_s16, uint32_t, int16_t, (uint16_t)((uint32_t)(a * b) >> 16))
BINARY(mul_hi_u32, uint32_t, uint32_t, (uint64_t)a *b >> 32)
BINARY(mul_hi_s32, uint32_t, int32_t, (uint64_t)((int64_t)a * b) >> 32)
__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;
BINARY(mul_hi_u64, uint64_t, uint64_t, (u128)a *b >> 64)
BINARY(mul_hi_s64, uint64_t, int64_t, (u128)((s128)a * b) >> 64)
/* Division by zero is unspecified in PTX; NVIDIA's chips return all ones. */
BINARY(div_u16, uint32_t, uint16_t, b == 0 ? 0xffff : a / b)
BINARY(div_s16, uint32_t, int16_t, (uint16_t)(b == 0 ? -1 : (int)a / b))
BINARY(div_u32, uint32_t, uint32_t, b == 0 ? UINT32_MAX : a / b)
BINARY(div_s32, uint32_t, int32_t, b == 0 ? -1 : (int64_t)a / b)
BINARY(div_u64, uint64_t, uint64_t, b == 0 ? UINT64_MAX : a / b)
BINARY(div_s64, uint64_t, int64_t, b == 0 ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b)
BINARY(rem_u16, uint32_t, uint16_t, b == 0 ? a : a % b)
BINARY(rem_s16, uint32_t, int16_t, (uint16_t)(b == 0 ? a : (int)a % b))
BINARY(rem_u32, uint32_t, uint32_t, b == 0 ? a : a % b)
BINARY(rem_s32, uint32_t, int32_t, b == 0 ? a : (int64_t)a % b)
BINARY(rem_u64, uint64_t, uint64_t, b == 0 ? a : a % b)
BINARY(rem_s64, uint64_t, int64_t, b == 0 ? a : b == -1 ? 0 : a % b)
BINARY(min_u16, uint32_t, uint16_t, a < b ? a : b)
BINARY(min_s16, uint32_t, int16_t, (uint16_t)(a < b ? a : b))
BINARY(min_u32, uint32_t, uint32_t, a < b ? a : b)
BINARY(min_s32, uint32_t, int32_t, a < b ? a : b)
BINARY(min_u64, uint64_t, uint64_t, a < b ? a : b)
BINARY(min_s64, uint64_t, int64_t, a < b ? a : b)
BINARY(max_u16, uint32_t, uint16_t, a > b ? a : b)
BINARY(max_s16, uint32_t, int16_t, (uint16_t)(a > b ? a : b))
BINARY(max_u32, uint32_t, uint32_t, a > b ? a : b)
BINARY(max_s32, uint32_t, int32_t, a > b ? a : b)
BINARY(max_u64, uint64_t, uint64_t, a > b ? a : b)
BINARY(max_s64, uint64_t, int64_t, a > b ? a : b)

static uint32_t pick_half(uint32_t high, uint32_t low) {
    return (high & 0xffff) << 16 | (low & 0xffff);
}
#define HALF_S(x) ((int16_t)(uint16_t)(x))
BINARY(min_u16x2, uint32_t, uint32_t,
       pick_half((a >> 16) < (b >> 16) ? a >> 16 : b >> 16, (a & 0xffff) < (b & 0xffff) ? a : b))
BINARY(max_u16x2, uint32_t, uint32_t,
       pick_half((a >> 16) > (b >> 16) ? a >> 16 : b >> 16, (a & 0xffff) > (b & 0xffff) ? a : b))
BINARY(min_s16x2, uint32_t, uint32_t,
       pick_half(HALF_S(a >> 16) < HALF_S(b >> 16) ? a >> 16 : b >> 16, HALF_S(a) < HALF_S(b) ? a : b))
BINARY(max_s16x2, uint32_t, uint32_t,
       pick_half(HALF_S(a >> 16) > HALF_S(b >> 16) ? a >> 16 : b >> 16, HALF_S(a) > HALF_S(b) ? a : b))
/* .relu: negative results become zero. */
#define ABOVE_ZERO(x) ((x) > 0 ? (uint32_t)(x) : 0)
#define LEAST(x, y)   ((x) < (y) ? (x) : (y))
#define MOST(x, y)    ((x) > (y) ? (x) : (y))
BINARY(min_relu_s32, uint32_t, int32_t, ABOVE_ZERO(LEAST(a, b)))
BINARY(max_relu_s32, uint32_t, int32_t, ABOVE_ZERO(MOST(a, b)))
BINARY(min_relu_s16x2, uint32_t, uint32_t,
       pick_half(ABOVE_ZERO(LEAST(HALF_S(a >> 16), HALF_S(b >> 16))), ABOVE_ZERO(LEAST(HALF_S(a), HALF_S(b)))))
BINARY(max_relu_s16x2, uint32_t, uint32_t,
       pick_half(ABOVE_ZERO(MOST(HALF_S(a >> 16), HALF_S(b >> 16))), ABOVE_ZERO(MOST(HALF_S(a), HALF_S(b)))))
UNARY(abs_16, uint32_t, int16_t, (uint16_t)(a < 0 ? -a : a))
UNARY(abs_32, uint32_t, int64_t, (int32_t)a < 0 ? -(int64_t)(int32_t)a : (int32_t)a)
UNARY(abs_64, uint64_t, uint64_t, (int64_t)a < 0 ? 0 - a : a)
UNARY(neg_16, uint32_t, uint32_t, (uint16_t)(0 - a))
UNARY(neg_32, uint32_t, uint32_t, 0 - a)
UNARY(neg_64, uint64_t, uint64_t, 0 - a)

#define BY_SIZE(f)                                                                                             \
    [T_U16] = f##_16, [T_S16] = f##_16, [T_U32] = f##_32, [T_S32] = f##_32, [T_U64] = f##_64, [T_S64] = f##_64
#define BY_TYPE(f)                                                                                             \
    [T_U16] = f##_u16, [T_S16] = f##_s16, [T_U32] = f##_u32, [T_S32] = f##_s32, [T_U64] = f##_u64,             \
    [T_S64] = f##_s64

/* Binary arithmetic of integers or floats; `modifier`, unless it is NULL, chooses other forms for integers. */
static void arithmetic(struct decoder *d, const exec_fn fns[T_TYPES], const char *modifier,
                       const exec_fn modified[T_TYPES]) {
    unsigned type = mod_type(d);
    if (is_float_type(type)) {
        decode_float_binary(d, type);
    } else {
        of_one_type(d, modifier != NULL && mod(d, modifier) ? modified : fns, type, 2);
    }
}

void decode_add(struct decoder *d) {
    static const exec_fn fns[T_TYPES] = {BY_SIZE(add), [T_U16X2] = add_16x2, [T_S16X2] = add_16x2};
    static const exec_fn saturating[T_TYPES] = {[T_S32] = add_sat_32};
    if (mod(d, "cc")) {
        carry_form(d, false, false, true);
    } else {
        arithmetic(d, fns, "sat", saturating);
    }
}

void decode_sub(struct decoder *d) {
    static const exec_fn fns[T_TYPES] = {BY_SIZE(sub)};
    static const exec_fn saturating[T_TYPES] = {[T_S32] = sub_sat_32};
    if (mod(d, "cc")) {
        carry_form(d, false, true, true);
    } else {
        arithmetic(d, fns, "sat", saturating);
    }
}

void decode_div(struct decoder *d) {
    static const exec_fn fns[T_TYPES] = {BY_TYPE(div)};
    arithmetic(d, fns, NULL, NULL);
}

DECODE_ONE_TYPE(rem, 2, BY_TYPE(rem))

#define EXTREME(name)                                                                                          \
    void decode_##name(struct decoder *d) {                                                                    \
        static const exec_fn fns[T_TYPES] = {BY_TYPE(name), [T_U16X2] = name##_u16x2,                          \
                                             [T_S16X2] = name##_s16x2};                                        \
        static const exec_fn clamped[T_TYPES] = {[T_S32] = name##_relu_s32, [T_S16X2] = name##_relu_s16x2};    \
        arithmetic(d, fns, "relu", clamped);                                                                   \
    }
EXTREME(min)
EXTREME(max)

#define SIGN(name)                                                                                             \
    void decode_##name(struct decoder *d) {                                                                    \
        static const exec_fn fns[T_TYPES] = {[T_S16] = name##_16, [T_S32] = name##_32, [T_S64] = name##_64};   \
        unsigned type = mod_type(d);                                                                           \
        if (is_float_type(type)) {                                                                             \
            decode_float_unary(d, type);                                                                       \
        } else {                                                                                               \
            of_one_type(d, fns, type, 1);                                                                      \
        }                                                                                                      \
    }
SIGN(abs)
SIGN(neg)

/* ---- products ---- */

#define WIDE(name, D, T, S)                                                                                    \
    static enum next name(struct run *run, const struct insn *insn, uint32_t mask) {                           \
        D *d = row(run, insn->op[0]);                                                                          \
        const uint32_t *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]);                               \
        LANEWISE(mask, d[l] = (D)((S)(T)pa[l] * (S)(T)pb[l]));                                                 \
        return NEXT;                                                                                           \
    }
WIDE(mul_wide_u16, uint32_t, uint16_t, uint32_t)
WIDE(mul_wide_s16, uint32_t, int16_t, int32_t)
WIDE(mul_wide_u32, uint64_t, uint32_t, uint64_t)
WIDE(mul_wide_s32, uint64_t, int32_t, int64_t)

#define MAD(name, D, T, expression)                                                                            \
    static enum next name(struct run *run, const struct insn *insn, uint32_t mask) {                           \
        D *d = row(run, insn->op[0]);                                                                          \
        const D *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]), *pc = row(run, insn->op[3]);         \
        LANEWISE(mask, T a = (T)pa[l]; T b = (T)pb[l]; D c = pc[l]; d[l] = (D)(expression));                   \
        return NEXT;                                                                                           \
    }
MAD(mad_lo_16, uint32_t, uint32_t, (uint16_t)(a * b + c))
MAD(mad_lo_32, uint32_t, uint32_t, a *b + c)
MAD(mad_lo_64, uint64_t, uint64_t, a *b + c)
MAD(mad_hi_u16, uint32_t, uint16_t, (uint16_t)(((uint32_t)a * b >> 16) + c))
MAD(mad_hi_s16, uint32_t, int16_t, (uint16_t)(((uint32_t)((int)a * b) >> 16) + c))
MAD(mad_hi_u32, uint32_t, uint32_t, ((uint64_t)a * b >> 32) + c)
MAD(mad_hi_s32, uint32_t, int32_t, ((uint64_t)((int64_t)a * b) >> 32) + c)
MAD(mad_hi_u64, uint64_t, uint64_t, (uint64_t)((u128)a * b >> 64) + c)
MAD(mad_hi_s64, uint64_t, int64_t, (uint64_t)((u128)((s128)a * b) >> 64) + c)
MAD(sad_u32, uint32_t, uint32_t, c + (a < b ? b - a : a - b))
MAD(sad_s32, uint32_t, int64_t,
    c + (uint32_t)((int32_t)a < (int32_t)b ? (int32_t)b - (int64_t)(int32_t)a
                                           : (int32_t)a - (int64_t)(int32_t)b))
MAD(sad_u16, uint32_t, uint16_t, (uint16_t)(c + (uint32_t)(a < b ? b - a : a - b)))
MAD(sad_s16, uint32_t, int16_t, (uint16_t)(c + (uint32_t)(a < b ? b - a : a - b)))
MAD(sad_u64, uint64_t, uint64_t, c + (a < b ? b - a : a - b))
MAD(sad_s64, uint64_t, int64_t, c + (a < b ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b))
#define MAD_WIDE(name, D, T, S)                                                                                \
    static enum next name(struct run *run, const struct insn *insn, uint32_t mask) {                           \
        D *d = row(run, insn->op[0]);                                                                          \
        const uint32_t *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]);                               \
        const D *pc = row(run, insn->op[3]);                                                                   \
        LANEWISE(mask, d[l] = (D)((S)(T)pa[l] * (S)(T)pb[l]) + pc[l]);                                         \
        return NEXT;                                                                                           \
    }
MAD_WIDE(mad_wide_u16, uint32_t, uint16_t, uint32_t)
MAD_WIDE(mad_wide_s16, uint32_t, int16_t, int32_t)
MAD_WIDE(mad_wide_u32, uint64_t, uint32_t, uint64_t)
MAD_WIDE(mad_wide_s32, uint64_t, int32_t, int64_t)

static void wide_product(struct decoder *d, unsigned type, bool add) {
    static const exec_fn fns[2][T_TYPES] = {
        {[T_U16] = mul_wide_u16, [T_S16] = mul_wide_s16, [T_U32] = mul_wide_u32, [T_S32] = mul_wide_s32},
        {[T_U16] = mad_wide_u16, [T_S16] = mad_wide_s16, [T_U32] = mad_wide_u32, [T_S32] = mad_wide_s32}};
    const unsigned result = ptx_type_bytes(type) == 2 ? T_U32 : T_U64;
    const unsigned types[] = {result, type, type, result};
    if (fns[add][type] == NULL) {
        decode_fail(d, "no .wide form of .%s", ptx_type_name(type));
    }
    form_of_type(d, fns[add], type);
    emit_operands(d, types, add ? 4 : 3);
}

void decode_mul(struct decoder *d) {
    static const exec_fn low[T_TYPES] = {BY_SIZE(mul_lo)};
    static const exec_fn high[T_TYPES] = {BY_TYPE(mul_hi)};
    bool wide = mod(d, "wide"), hi = mod(d, "hi"), lo = mod(d, "lo");
    unsigned type = mod_type(d);
    if (is_float_type(type)) {
        decode_float_binary(d, type);
    } else if (wide) {
        wide_product(d, type, false);
    } else if (hi || lo) {
        of_one_type(d, hi ? high : low, type, 2);
    } else {
        decode_fail(d, "expected .lo, .hi or .wide");
    }
}

void decode_mad(struct decoder *d) {
    static const exec_fn low[T_TYPES] = {BY_SIZE(mad_lo)};
    static const exec_fn high[T_TYPES] = {BY_TYPE(mad_hi)};
    for (int i = 0; i < d->nmods; i++) {
        if (d->mods[i].length == 2 && memcmp(d->mods[i].text, "cc", 2) == 0) {
            decode_madc(d);
            return;
        }
    }
    bool wide = mod(d, "wide"), hi = mod(d, "hi"), lo = mod(d, "lo");
    unsigned type = mod_type(d);
    if (is_float_type(type)) {
        decode_float_fma(d, type);
    } else if (wide) {
        wide_product(d, type, true);
    } else if (hi || lo) {
        of_one_type(d, hi ? high : low, type, 3);
    } else {
        decode_fail(d, "expected .lo, .hi or .wide");
    }
}

/* PTX ISA, mul24 and mad24: the product has 48 bits, of which .hi returns bits 16 to 47. */
static inline int64_t product24(uint32_t a, uint32_t b) {
    return ((int64_t)(int32_t)(a << 8) >> 8) * ((int64_t)(int32_t)(b << 8) >> 8);
}

static inline uint64_t product24_u(uint32_t a, uint32_t b) {
    return (uint64_t)(a & 0xffffff) * (b & 0xffffff);
}

static inline uint32_t saturated(int64_t value) {
    return (uint32_t)(int32_t)(value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value);
}

MAD(mad24_lo, uint32_t, uint32_t, (uint32_t)product24(a, b) + c)
MAD(mad24_lo_u, uint32_t, uint32_t, (uint32_t)product24_u(a, b) + c)
MAD(mad24_hi, uint32_t, uint32_t, (uint32_t)(product24(a, b) >> 16) + c)
MAD(mad24_hi_u, uint32_t, uint32_t, (uint32_t)(product24_u(a, b) >> 16) + c)
MAD(mad24_hi_sat, uint32_t, uint32_t, saturated((product24(a, b) >> 16) + (int32_t)c))
BINARY(mul24_lo, uint32_t, uint32_t, (uint32_t)product24(a, b))
BINARY(mul24_lo_u, uint32_t, uint32_t, (uint32_t)product24_u(a, b))
BINARY(mul24_hi, uint32_t, uint32_t, (uint32_t)(product24(a, b) >> 16))
BINARY(mul24_hi_u, uint32_t, uint32_t, (uint32_t)(product24_u(a, b) >> 16))

/* mul24, mad24. */
void decode_24_bits(struct decoder *d) {
    static const exec_fn fns[2][2][T_TYPES] = {
        {{[T_S32] = mul24_lo, [T_U32] = mul24_lo_u}, {[T_S32] = mul24_hi, [T_U32] = mul24_hi_u}},
        {{[T_S32] = mad24_lo, [T_U32] = mad24_lo_u}, {[T_S32] = mad24_hi, [T_U32] = mad24_hi_u}}};
    static const exec_fn saturating[T_TYPES] = {[T_S32] = mad24_hi_sat};
    const bool adds = named(d, "mad24"), high = mod(d, "hi");
    if (!high && !mod(d, "lo")) {
        decode_fail(d, "expected .lo or .hi");
    }
    const bool sat = high && adds && mod(d, "sat");
    of_one_type(d, sat ? saturating : fns[adds][high], mod_type(d), adds ? 3 : 2);
}

DECODE_ONE_TYPE(sad, 3, [T_U16] = sad_u16, [T_S16] = sad_s16, [T_U32] = sad_u32, [T_S32] = sad_s32,
                [T_U64] = sad_u64, [T_S64] = sad_s64)
