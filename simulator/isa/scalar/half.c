/* Arithmetic on f16, bf16 and pairs of them (PTX ISA, Half Precision Floating Point Instructions). */
#include "tensorcore/half.h"

#include <math.h>

#include "isa/opcodes.h"
#include "machine/machine.h"

enum { H_ADD, H_SUB, H_MUL, H_FMA, H_MIN, H_MAX, H_ABS, H_NEG, H_EX2, H_TANH };

static inline bool is_bf16(unsigned type) {
    return type == T_BF16 || type == T_BF16X2;
}

/* x + y rounded to odd, so that rounding it again to a narrower format gives the correctly rounded sum. */
static double add_to_odd(double x, double y) {
    double sum = x + y, back = sum - x, error = (x - (sum - back)) + (y - back);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (isfinite(sum) && error != 0 && (bits & 1) == 0) {
        bits += (error > 0) == (sum > 0) ? 1 : (uint64_t)-1;
        memcpy(&sum, &bits, sizeof sum);
    }
    return sum;
}

static float narrow_to_odd(double x) {
    float narrow = (float)x;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if (isfinite(narrow) && (double)narrow != x && (bits & 1) == 0) {
        bits += (fabs(x) > fabs((double)narrow)) ? 1 : (uint32_t)-1;
        memcpy(&narrow, &bits, sizeof narrow);
    }
    return narrow;
}

static uint32_t round_double(double x, bool bf16) {
    if (x != x) {
        return 0x7fff;
    }
    return bf16 ? f32_to_bf16(narrow_to_odd(x)) : f32_to_f16(narrow_to_odd(x));
}

static float flush_half(float x, const struct insn *insn) {
    return insn->floating.ftz && !is_bf16(insn->type) && fabsf(x) < 0x1p-14f ? copysignf(0.0f, x) : x;
}

/* fma.oob: what a tensor copy that asks for it fills in beyond a tensor's end (PTX ISA, fma: OOB-NaN;
 * async/bulk.c has who measured it). */
#define OUT_OF_BOUNDS_NAN 0x7ff7

static uint32_t apply(const struct insn *insn, uint32_t a_bits, uint32_t b_bits, uint32_t c_bits) {
    bool bf16 = is_bf16(insn->type);
    if (insn->floating.oob && (a_bits == OUT_OF_BOUNDS_NAN || b_bits == OUT_OF_BOUNDS_NAN)) {
        return 0;
    }
    if (insn->floating.operation == H_NEG) {
        return (a_bits ^ 0x8000) & 0xffff;
    }
    if (insn->floating.operation == H_ABS) {
        return a_bits & 0x7fff;
    }
    float a = bf16 ? bf16_to_f32(a_bits & 0xffff) : f16_to_f32(a_bits);
    float b = bf16 ? bf16_to_f32(b_bits & 0xffff) : f16_to_f32(b_bits);
    float c = bf16 ? bf16_to_f32(c_bits & 0xffff) : f16_to_f32(c_bits);
    a = flush_half(a, insn);
    b = flush_half(b, insn);
    c = flush_half(c, insn);
    double r = 0;
    switch (insn->floating.operation) {
    case H_ADD:
        r = add_to_odd(a, b);
        break;
    case H_SUB:
        r = add_to_odd(a, -(double)b);
        break;
    case H_MUL:
        r = (double)a * b;
        break;
    case H_FMA:
        r = add_to_odd((double)a * b, c);
        break;
    case H_EX2:
        r = exp2(a);
        break;
    case H_TANH:
        r = tanh(a);
        break;
    default:
        r = extreme(a, b, insn->floating.operation == H_MAX, insn->floating.nan);
    }
    if (insn->floating.sat) {
        r = r > 0 ? (r < 1 ? r : 1) : 0;
    }
    if (insn->floating.relu) {
        r = r > 0 || r != r ? r : 0;
    }
    uint32_t bits = round_double(r, bf16);
    if (insn->floating.ftz && !bf16 && (bits & 0x7c00) == 0) {
        bits &= 0x8000;
    }
    return bits;
}

static enum next exec_half(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    const uint32_t *a = row(run, insn->op[1]);
    const uint32_t *b = insn->nop > 2 ? row(run, insn->op[2]) : a;
    const uint32_t *c = insn->nop > 3 ? row(run, insn->op[3]) : a;
    bool pair = insn->type == T_F16X2 || insn->type == T_BF16X2;
    FOR_LANES(rest, mask) {
        int l = LANE(rest);
        uint32_t low = apply(insn, a[l] & 0xffff, b[l] & 0xffff, c[l] & 0xffff);
        d[l] = pair ? low | apply(insn, a[l] >> 16, b[l] >> 16, c[l] >> 16) << 16 : low;
    }
    return NEXT;
}

/* The product of two f16 is exact in f32, so the conversion is the only rounding. */
static enum next mul_f16x2(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    const uint32_t *a = row(run, insn->op[1]), *b = row(run, insn->op[2]);
    FOR_LANES(rest, mask) {
        int l = LANE(rest);
        uint32_t low = f32_to_f16(f16_to_f32(a[l]) * f16_to_f32(b[l]));
        uint32_t high = f32_to_f16(f16_to_f32(a[l] >> 16) * f16_to_f32(b[l] >> 16));
        d[l] = low | high << 16;
    }
    return NEXT;
}

void decode_half(struct decoder *d, const char *name, unsigned type) {
    static const char *const names[] = {"add", "sub", "mul", "fma", "min", "max", "abs", "neg", "ex2", "tanh"};
    static const int sources[] = {2, 2, 2, 3, 2, 2, 1, 1, 1, 1};
    static const exec_fn fns[T_TYPES] = {
        [T_F16] = exec_half, [T_F16X2] = exec_half, [T_BF16] = exec_half, [T_BF16X2] = exec_half};
    const uint32_t count = sizeof names / sizeof *names;
    uint32_t op = 0;
    while (op < count && strcmp(names[op], name) != 0) {
        op++;
    }
    if (op == count) {
        no_form(d, type);
    }
    d->insn->cls = CL_FLOAT;
    d->insn->floating.operation = (uint8_t)op;
    (void)mod(d, "rn");
    (void)mod(d, "approx");
    d->insn->floating.ftz = mod(d, "ftz");
    d->insn->floating.sat = mod(d, "sat");
    d->insn->floating.relu = op != H_MIN && op != H_MAX && mod(d, "relu");
    d->insn->floating.oob = op == H_FMA && mod(d, "oob");
    d->insn->floating.nan = (op == H_MIN || op == H_MAX) && mod(d, "NaN");
    of_one_type(d, fns, type, sources[op]);
    if (op == H_MUL && type == T_F16X2 && !d->insn->floating.ftz && !d->insn->floating.sat &&
        !d->insn->floating.relu) {
        d->insn->fn = mul_f16x2;
    }
}
