/* Floating-point add, sub, mul, div, fma, min, max of f32, f32x2 and f64 (PTX ISA, Floating Point
 * Instructions); f16 and bf16 are in half.c. Approximate divisions are correctly rounded, which is within the
 * documented bounds. */
#include "isa/opcodes.h"
#include "machine/machine.h"
#include "rounding.h"
#include "tensorcore/half.h"

static inline float saturate(float x) {
    return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; /* NaN gives +0 */
}

/* Forms without modifiers, rounded to nearest, which the compiler vectorises. */
#define F32(name, expression)                                                                                  \
    static enum next name(struct run *run, const struct insn *insn, uint32_t mask) {                           \
        float *d = row(run, insn->op[0]);                                                                      \
        const float *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]);                                  \
        LANEWISE(mask, float a = pa[l]; float b = pb[l]; d[l] = canonical(expression));                        \
        return NEXT;                                                                                           \
    }
#define F64(name, expression)                                                                                  \
    static enum next name(struct run *run, const struct insn *insn, uint32_t mask) {                           \
        double *d = row(run, insn->op[0]);                                                                     \
        const double *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]);                                 \
        LANEWISE(mask, double a = pa[l]; double b = pb[l]; d[l] = (expression));                               \
        return NEXT;                                                                                           \
    }
F32(add_f32, a + b)
F32(sub_f32, a - b)
F32(mul_f32, a *b)
F32(div_f32, a / b)
F64(add_f64, a + b)
F64(sub_f64, a - b)
F64(mul_f64, a *b)
F64(div_f64, a / b)

static enum next fma_f32(struct run *run, const struct insn *insn, uint32_t mask) {
    float *d = row(run, insn->op[0]);
    const float *a = row(run, insn->op[1]), *b = row(run, insn->op[2]), *c = row(run, insn->op[3]);
    LANEWISE(mask, d[l] = canonical(fmaf(a[l], b[l], c[l])));
    return NEXT;
}

static enum next fma_f64(struct run *run, const struct insn *insn, uint32_t mask) {
    double *d = row(run, insn->op[0]);
    const double *a = row(run, insn->op[1]), *b = row(run, insn->op[2]), *c = row(run, insn->op[3]);
    LANEWISE(mask, d[l] = fma(a[l], b[l], c[l]));
    return NEXT;
}

enum { OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FMA };

static double compute(unsigned op, double a, double b, double c) {
    return op == OP_ADD   ? a + b
           : op == OP_SUB ? a - b
           : op == OP_MUL ? a * b
           : op == OP_DIV ? a / b
                          : fma(a, b, c);
}

static float compute_f32(unsigned op, float a, float b, float c) {
    return op == OP_ADD   ? a + b
           : op == OP_SUB ? a - b
           : op == OP_MUL ? a * b
           : op == OP_DIV ? a / b
                          : fmaf(a, b, c);
}

/* Forms with .ftz, .sat or another rounding mode, and every f32x2. */
static enum next general_f32(struct run *run, const struct insn *insn, uint32_t mask) {
    float *d = row(run, insn->op[0]);
    const float *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]);
    const float *pc = insn->floating.operation == OP_FMA ? row(run, insn->op[3]) : pb;
    int width = insn->type == T_F32X2 ? 2 : 1;
    const unsigned before = rounding_set(insn->floating.rounding);
    FOR_LANES(rest, mask) {
        for (int i = 0; i < width; i++) {
            int l = LANE(rest) * width + i;
            volatile float a = pa[l], b = pb[l],
                           c = pc[l]; /* volatile: not computed before the rounding mode is set */
            if (insn->floating.ftz) {
                a = flush(a);
                b = flush(b);
                c = flush(c);
            }
            volatile float r = compute_f32(insn->floating.operation, a, b, c);
            r = insn->floating.ftz ? flush(r) : r;
            d[l] = canonical(insn->floating.sat ? saturate(r) : r);
        }
    }
    rounding_restore(before);
    return NEXT;
}

static enum next general_f64(struct run *run, const struct insn *insn, uint32_t mask) {
    double *d = row(run, insn->op[0]);
    const double *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]);
    const double *pc = insn->floating.operation == OP_FMA ? row(run, insn->op[3]) : pb;
    const unsigned before = rounding_set(insn->floating.rounding);
    FOR_LANES(rest, mask) {
        int l = LANE(rest);
        volatile double a = pa[l], b = pb[l], c = pc[l];
        volatile double r = compute(insn->floating.operation, a, b, c);
        d[l] = r;
    }
    rounding_restore(before);
    return NEXT;
}

/* Mixed-precision add, sub and fma: f32 with f16 or bf16 sources (PTX ISA, Mixed Precision Floating Point
 * Instructions). All sources but the last are converted first, which is exact. */
static enum next mixed_f32(struct run *run, const struct insn *insn, uint32_t mask) {
    float *d = row(run, insn->op[0]);
    const uint32_t *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]);
    const float *pc = row(run, insn->op[insn->nop - 1]);
    bool fused = insn->floating.operation == OP_FMA, bf16 = insn->floating.source == T_BF16;
    const unsigned before = rounding_set(insn->floating.rounding);
    FOR_LANES(rest, mask) {
        int l = LANE(rest);
        volatile float a = bf16 ? bf16_to_f32(pa[l] & 0xffff) : f16_to_f32(pa[l]), c = pc[l];
        volatile float b = !fused ? c : bf16 ? bf16_to_f32(pb[l] & 0xffff) : f16_to_f32(pb[l]);
        volatile float r = compute_f32(insn->floating.operation, a, b, c);
        d[l] = canonical(insn->floating.sat ? saturate(r) : r);
    }
    rounding_restore(before);
    return NEXT;
}

/* Decodes a mixed-precision form; false if the mnemonic has no second type. */
static bool decode_mixed(struct decoder *d) {
    struct insn *insn = d->insn;
    int operation = insn->floating.operation, sources = operation == OP_FMA ? 3 : 2;
    unsigned type = mod(d, "f16") ? T_F16 : mod(d, "bf16") ? T_BF16 : T_NONE;
    if (type == T_NONE) {
        return false;
    }
    if (operation == OP_MUL || operation == OP_DIV || insn->floating.ftz || d->parser->module->sm < 100 ||
        (operation == OP_FMA && insn->floating.rounding == RND_NONE)) {
        decode_fail(d, "mixed precision exists for add, sub and fma.rnd, without .ftz, on sm_100 or later");
    }
    need_operands(d, sources + 1, sources + 1);
    insn->type = T_F32;
    insn->floating.source = (uint8_t)type;
    emit_dst(d, &d->op[0], T_F32);
    for (int i = 1; i <= sources; i++) {
        unsigned of = i < sources ? type : T_F32;
        if (d->op[i].kind == PO_REG && ptx_type_bytes(d->op[i].type) != ptx_type_bytes(of)) {
            decode_fail(d, "operand %d is not a .%s register", i + 1, ptx_type_name(of));
        }
        emit(d, src(d, &d->op[i], of));
    }
    insn->fn = mixed_f32;
    return true;
}

/* ---- min and max ---- */

double extreme(double a, double b, bool largest, bool nan) {
    if (a != a || b != b) {
        return nan || (a != a && b != b) ? NAN : a != a ? b : a;
    }
    bool a_less = a < b || (a == b && signbit(a) && !signbit(b));
    return a_less == largest ? b : a;
}

static enum next extreme_f32(struct run *run, const struct insn *insn, uint32_t mask) {
    float *d = row(run, insn->op[0]);
    const float *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]);
    const float *pc = insn->nop > 3 ? row(run, insn->op[3]) : NULL;
    FOR_LANES(rest, mask) {
        int l = LANE(rest);
        float a = pa[l], b = pb[l], c = pc == NULL ? 0 : pc[l], r;
        if (insn->floating.ftz) {
            a = flush(a);
            b = flush(b);
            c = flush(c);
        }
        if (insn->floating.absolute) {
            a = fabsf(a);
            b = fabsf(b);
            c = fabsf(c);
        }
        r = (float)extreme(a, b, insn->floating.largest, insn->floating.nan);
        if (pc != NULL) {
            r = (float)extreme(r, c, insn->floating.largest, insn->floating.nan);
        }
        if (insn->floating.xorsign_abs) {
            r = copysignf((float)extreme(fabsf(a), fabsf(b), insn->floating.largest, insn->floating.nan),
                          signbit(a) != signbit(b) ? -1.0f : 1.0f);
        }
        d[l] = canonical(r);
    }
    return NEXT;
}

static enum next extreme_f64(struct run *run, const struct insn *insn, uint32_t mask) {
    double *d = row(run, insn->op[0]);
    const double *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]);
    LANEWISE(mask, d[l] = extreme(pa[l], pb[l], insn->floating.largest, insn->floating.nan));
    return NEXT;
}

static void decode_extreme(struct decoder *d, unsigned type, bool largest) {
    static const exec_fn fns[T_TYPES] = {[T_F32] = extreme_f32, [T_F64] = extreme_f64};
    d->insn->floating.largest = largest;
    d->insn->floating.nan = mod(d, "NaN");
    bool three = d->nop == 4 && type == T_F32;
    d->insn->floating.xorsign_abs = !three && mod(d, "xorsign") && mod(d, "abs");
    d->insn->floating.absolute = three && mod(d, "abs");
    d->insn->floating.ftz = mod(d, "ftz");
    of_one_type(d, fns, type, three ? 3 : 2);
}

/* `fast` has the forms without modifiers. */
static void decode_arithmetic(struct decoder *d, uint32_t op, unsigned type, const exec_fn fast[T_TYPES]) {
    static const exec_fn general[T_TYPES] = {
        [T_F32] = general_f32, [T_F32X2] = general_f32, [T_F64] = general_f64};
    struct insn *insn = d->insn;
    bool near = op == OP_DIV && (mod(d, "approx") || mod(d, "full"));
    insn->floating.operation = (uint8_t)op;
    insn->floating.rounding = near ? RND_RN : (uint8_t)mod_rounding(d);
    insn->floating.ftz = mod(d, "ftz");
    insn->floating.sat = mod(d, "sat");
    if (insn->floating.rounding > RND_RP) {
        decode_fail(d, "there is no form with this rounding");
    }
    if (type == T_F32 && decode_mixed(d)) {
        return;
    }
    bool simple =
        insn->floating.rounding <= RND_RN && !insn->floating.ftz && !insn->floating.sat && type != T_F32X2;
    of_one_type(d, simple ? fast : general, type, op == OP_FMA ? 3 : 2);
}

void decode_float_binary(struct decoder *d, unsigned type) {
    static const char *const names[] = {"add", "sub", "mul", "div"};
    static const exec_fn fast[4][T_TYPES] = {{[T_F32] = add_f32, [T_F64] = add_f64},
                                             {[T_F32] = sub_f32, [T_F64] = sub_f64},
                                             {[T_F32] = mul_f32, [T_F64] = mul_f64},
                                             {[T_F32] = div_f32, [T_F64] = div_f64}};
    d->insn->cls = CL_FLOAT;
    if (type == T_F16 || type == T_F16X2 || type == T_BF16 || type == T_BF16X2) {
        decode_half(d, d->base, type);
        return;
    }
    if (named(d, "min") || named(d, "max")) {
        decode_extreme(d, type, named(d, "max"));
        return;
    }
    uint32_t op = 0;
    while (!named(d, names[op])) {
        op++;
    }
    decode_arithmetic(d, op, type, fast[op]);
}

void decode_float_fma(struct decoder *d, unsigned type) {
    static const exec_fn fast[T_TYPES] = {[T_F32] = fma_f32, [T_F64] = fma_f64};
    d->insn->cls = CL_FLOAT;
    if (type == T_F16 || type == T_F16X2 || type == T_BF16 || type == T_BF16X2) {
        decode_half(d, "fma", type);
        return;
    }
    decode_arithmetic(d, OP_FMA, type, fast);
}

void decode_fma(struct decoder *d) {
    unsigned type = mod_type(d);
    if (!is_float_type(type)) {
        no_form(d, type);
    }
    decode_float_fma(d, type);
}
