/* Floating-point instructions with one source: abs, neg, rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh; copysign,
 * testp. */
#include "isa/opcodes.h"
#include "machine/machine.h"
#include "rounding.h"
#include "tensorcore/half.h"

enum { U_ABS, U_NEG, U_RCP, U_SQRT, U_RSQRT, U_SIN, U_COS, U_LG2, U_EX2, U_TANH };
static const char *const names[] = {"abs", "neg", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"};

static double apply(uint32_t op, double x) {
    switch (op) {
    case U_RCP:
        return 1.0 / x;
    case U_SQRT:
        return sqrt(x);
    case U_RSQRT:
        return 1.0 / sqrt(x);
    case U_SIN:
        return sin(x);
    case U_COS:
        return cos(x);
    case U_LG2:
        return log2(x);
    case U_EX2:
        return exp2(x);
    default:
        return tanh(x);
    }
}

static enum next sign_f32(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    const uint32_t *a = row(run, insn->op[1]);
    bool negate = insn->floating.operation == U_NEG, ftz = insn->floating.ftz;
    LANEWISE(mask, uint32_t x = a[l]; x = ftz && (x & 0x7f800000) == 0 ? x & 0x80000000 : x;
             d[l] = negate ? x ^ 0x80000000 : x & 0x7fffffff);
    return NEXT;
}

static enum next sign_f64(struct run *run, const struct insn *insn, uint32_t mask) {
    uint64_t *d = row(run, insn->op[0]);
    const uint64_t *a = row(run, insn->op[1]), sign = (uint64_t)1 << 63;
    bool negate = insn->floating.operation == U_NEG;
    LANEWISE(mask, d[l] = negate ? a[l] ^ sign : a[l] & ~sign);
    return NEXT;
}

/* rcp and sqrt: the host's float division and square root are correctly rounded, by the rounding mode. */
static enum next exec_f32(struct run *run, const struct insn *insn, uint32_t mask) {
    float *d = row(run, insn->op[0]);
    const float *a = row(run, insn->op[1]);
    const uint32_t operation = insn->floating.operation;
    const unsigned before = rounding_set(insn->floating.rounding);
    FOR_LANES(rest, mask) {
        volatile float x = a[LANE(rest)], r;
        x = insn->floating.ftz ? flush(x) : x;
        r = operation == U_RCP ? 1.0f / x : operation == U_SQRT ? sqrtf(x) : (float)apply(operation, x);
        d[LANE(rest)] = canonical(insn->floating.ftz ? flush(r) : r);
    }
    rounding_restore(before);
    return NEXT;
}

static enum next exec_f64(struct run *run, const struct insn *insn, uint32_t mask) {
    double *d = row(run, insn->op[0]);
    const double *a = row(run, insn->op[1]);
    const unsigned before = rounding_set(insn->floating.rounding);
    FOR_LANES(rest, mask) {
        volatile double x = a[LANE(rest)];
        volatile double r = apply(insn->floating.operation, x);
        d[LANE(rest)] = r;
    }
    rounding_restore(before);
    return NEXT;
}

/* Faster ex2.approx and rcp.approx, which epilogues use much: float arithmetic is within PTX's error bounds. */
static enum next ex2_f32(struct run *run, const struct insn *insn, uint32_t mask) {
    float *d = row(run, insn->op[0]);
    const float *a = row(run, insn->op[1]);
    FOR_LANES(rest, mask) {
        float x = a[LANE(rest)];
        x = insn->floating.ftz ? flush(x) : x;
        float r = exp2f(x);
        d[LANE(rest)] = insn->floating.ftz ? flush(r) : r;
    }
    return NEXT;
}

static enum next rcp_f32(struct run *run, const struct insn *insn, uint32_t mask) {
    float *d = row(run, insn->op[0]);
    const float *a = row(run, insn->op[1]);
    bool ftz = insn->floating.ftz;
    LANEWISE(mask, float x = ftz ? flush(a[l]) : a[l]; float r = 1.0f / x; d[l] = ftz ? flush(r) : r);
    return NEXT;
}

void decode_float_unary(struct decoder *d, unsigned type) {
    static const exec_fn sign[T_TYPES] = {[T_F32] = sign_f32, [T_F64] = sign_f64};
    static const exec_fn others[T_TYPES] = {[T_F32] = exec_f32, [T_F64] = exec_f64};
    uint32_t op = 0;
    while (!named(d, names[op])) {
        op++;
    }
    d->insn->cls = CL_FLOAT;
    if (type == T_F16 || type == T_F16X2 || type == T_BF16 || type == T_BF16X2) {
        decode_half(d, d->base, type);
        return;
    }
    d->insn->floating.operation = (uint8_t)op;
    d->insn->floating.ftz = mod(d, "ftz");
    bool approximate = mod(d, "approx");
    d->insn->floating.rounding = (uint8_t)mod_rounding(d);
    if (d->insn->floating.rounding > RND_RP ||
        (d->insn->floating.rounding != RND_NONE && op != U_RCP && op != U_SQRT)) {
        decode_fail(d, "there is no form with this rounding");
    }
    of_one_type(d, op <= U_NEG ? sign : others, type, 1);
    if (type == T_F32 && approximate && (op == U_EX2 || op == U_RCP)) {
        d->insn->fn = op == U_EX2 ? ex2_f32 : rcp_f32;
    }
}

void decode_real_function(struct decoder *d) {
    unsigned type = mod_type(d);
    if (!is_float_type(type)) {
        no_form(d, type);
    }
    decode_float_unary(d, type);
}

static enum next copysign_f32(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    const uint32_t *a = row(run, insn->op[1]), *b = row(run, insn->op[2]);
    LANEWISE(mask, d[l] = (a[l] & 0x80000000) | (b[l] & 0x7fffffff)); /* a's sign, b's magnitude */
    return NEXT;
}

static enum next copysign_f64(struct run *run, const struct insn *insn, uint32_t mask) {
    uint64_t *d = row(run, insn->op[0]);
    const uint64_t *a = row(run, insn->op[1]), *b = row(run, insn->op[2]), sign = (uint64_t)1 << 63;
    LANEWISE(mask, d[l] = (a[l] & sign) | (b[l] & ~sign));
    return NEXT;
}

DECODE_ONE_TYPE(copysign, 2, [T_F32] = copysign_f32, [T_F64] = copysign_f64)

enum { TEST_FINITE, TEST_INFINITE, TEST_NUMBER, TEST_NOTANUMBER, TEST_NORMAL, TEST_SUBNORMAL };

static enum next exec_testp(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t result = 0;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        int kind = insn->type == T_F64 ? fpclassify(((const double *)row(run, insn->op[1]))[lane])
                                       : fpclassify(((const float *)row(run, insn->op[1]))[lane]);
        bool holds = insn->floating.operation == TEST_FINITE       ? kind != FP_INFINITE && kind != FP_NAN
                     : insn->floating.operation == TEST_INFINITE   ? kind == FP_INFINITE
                     : insn->floating.operation == TEST_NUMBER     ? kind != FP_NAN
                     : insn->floating.operation == TEST_NOTANUMBER ? kind == FP_NAN
                     : insn->floating.operation == TEST_NORMAL     ? kind == FP_NORMAL
                                                                   : kind == FP_SUBNORMAL;
        result |= (uint32_t)holds << lane;
    }
    set_pred(run, insn->op[0], mask, result);
    return NEXT;
}

void decode_testp(struct decoder *d) {
    static const char *const tests[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    int test = mod_of(d, COUNTED(tests));
    unsigned type = mod_type(d);
    if (test < 0 || (type != T_F32 && type != T_F64)) {
        decode_fail(d, "there is no form for this test and type");
    }
    d->insn->floating.operation = (uint8_t)test;
    d->insn->type = (uint8_t)type;
    d->insn->fn = exec_testp;
    EMIT_OPERANDS(d, T_PRED, type);
}
