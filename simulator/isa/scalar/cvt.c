/* cvt except .pack and .rs (PTX ISA, Data Movement and Conversion: cvt). */
#include "isa/opcodes.h"
#include "machine/machine.h"
#include "rounding.h"
#include "tensorcore/half.h"
#include "tensorcore/mma/formats.h"

static bool is_signed(unsigned type) {
    return type == T_S8 || type == T_S16 || type == T_S32 || type == T_S64;
}

static bool is_real(unsigned type) {
    return type == T_F16 || type == T_BF16 || type == T_F32 || type == T_F64 || type == T_TF32;
}

/* The low bits of a value, extended to 64. */
static inline uint64_t extended(uint64_t value, uint32_t bits, bool sign) {
    const uint32_t up = 64 - bits;
    return sign ? (uint64_t)((int64_t)(value << up) >> up) : value << up >> up;
}

static inline uint64_t load_int(const struct run *run, const struct insn *insn, int lane) {
    return extended(lane_u64(run, insn->op[1], lane), insn->convert.from_bits,
                    is_signed(insn->convert.from_type));
}

/* Extends the value to a destination register wider than its type. Rows keep 16-bit registers zero-extended. */
static inline void store_int(const struct run *run, const struct insn *insn, int lane, uint64_t value) {
    value = extended(value, insn->convert.bits, is_signed(insn->type));
    set_lane(run, insn->op[0], lane, extended(value, insn->convert.register_bits, false));
}

static int64_t lowest(unsigned type) {
    return is_signed(type) ? (int64_t)(UINT64_MAX << (ptx_type_bytes(type) * 8 - 1)) : 0;
}

static uint64_t highest(unsigned type) {
    uint32_t bits = ptx_type_bytes(type) * 8 - (is_signed(type) ? 1 : 0);
    return bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

static enum next int_to_int(struct run *run, const struct insn *insn, uint32_t mask) {
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t value = load_int(run, insn, lane);
        if (insn->convert.sat) {
            bool negative = is_signed(insn->convert.from_type) && (int64_t)value < 0;
            if (negative) {
                value = (int64_t)value < lowest(insn->type) ? (uint64_t)lowest(insn->type) : value;
            } else {
                value = value > highest(insn->type) ? highest(insn->type) : value;
            }
        }
        store_int(run, insn, lane, value);
    }
    return NEXT;
}

/* Fast paths for conversions that are frequent in address arithmetic. */
static enum next widen_u32(struct run *run, const struct insn *insn, uint32_t mask) {
    uint64_t *d = row(run, insn->op[0]);
    const uint32_t *a = row(run, insn->op[1]);
    LANEWISE(mask, d[l] = a[l]);
    return NEXT;
}
static enum next widen_s32(struct run *run, const struct insn *insn, uint32_t mask) {
    uint64_t *d = row(run, insn->op[0]);
    const uint32_t *a = row(run, insn->op[1]);
    LANEWISE(mask, d[l] = (uint64_t)(int64_t)(int32_t)a[l]);
    return NEXT;
}
static enum next widen_f32(struct run *run, const struct insn *insn, uint32_t mask) {
    double *d = row(run, insn->op[0]);
    const float *a = row(run, insn->op[1]);
    LANEWISE(mask, d[l] = a[l]);
    return NEXT;
}
static enum next narrow_u64(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    const uint64_t *a = row(run, insn->op[1]);
    LANEWISE(mask, d[l] = (uint32_t)a[l]);
    return NEXT;
}

static double load_real(const struct run *run, const struct insn *insn, int lane) {
    double wide;
    float narrow;
    uint64_t raw = lane_u64(run, insn->op[1], lane);
    if (insn->convert.from_type == T_F64) {
        memcpy(&wide, &raw, 8);
        return wide;
    }
    if (insn->convert.from_type == T_F16 || insn->convert.from_type == T_BF16) {
        return insn->convert.from_type == T_F16 ? f16_to_f32((uint32_t)raw & 0xffff)
                                                : bf16_to_f32((uint32_t)raw & 0xffff);
    }
    memcpy(&narrow, &raw, 4);
    return insn->convert.ftz ? flush(narrow) : narrow;
}

static double round_to_int(double x, unsigned rnd) {
    return rnd == RND_RNI || rnd == RND_RN   ? nearbyint(x)
           : rnd == RND_RMI || rnd == RND_RM ? floor(x)
           : rnd == RND_RPI || rnd == RND_RP ? ceil(x)
                                             : trunc(x);
}

static enum next real_to_int(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t bits = insn->convert.bits;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        double x = load_real(run, insn, lane);
        uint64_t value;
        if (x != x) { /* NaN gives 0, or only the top bit if the source or result has 64 bits */
            value = bits == 64 || insn->convert.from_type == T_F64 ? (uint64_t)1 << (bits - 1) : 0;
        } else {
            x = round_to_int(x, insn->convert.rounding);
            double top = ldexp(1.0, (int)bits - (is_signed(insn->type) ? 1 : 0));
            if (x >= top) {
                value = highest(insn->type);
            } else if (is_signed(insn->type)) {
                value = x < (double)lowest(insn->type) ? (uint64_t)lowest(insn->type) : (uint64_t)(int64_t)x;
            } else {
                value = x <= 0 ? 0 : (uint64_t)x;
            }
        }
        store_int(run, insn, lane, value);
    }
    return NEXT;
}

static const enum tc_round tc_rounds[] = {[RND_NONE] = TC_RN, [RND_RN] = TC_RN, [RND_RZ] = TC_RZ,
                                          [RND_RM] = TC_RM,   [RND_RP] = TC_RP, [RND_RNA] = TC_RNA};
static float narrowed(double x, unsigned rnd) {
    const unsigned before = rounding_set(rnd);
    volatile double wide = x;
    volatile float narrow = (float)wide;
    rounding_restore(before);
    return narrow;
}

/* Rounds a float to a smaller format. A value from f64 was rounded to odd before, so it rounds only once. */
static uint32_t to_small(const struct insn *insn, enum tc_format format, float x) {
    unsigned flags = (insn->convert.relu ? TC_RELU : 0) | (insn->convert.satfinite ? TC_SATFINITE : 0);
    return tc_from_f32(format, x, tc_rounds[insn->convert.rounding], flags, 0);
}

static void store_real(const struct run *run, const struct insn *insn, int lane, double x) {
    void *to = row(run, insn->op[0]);
    if (insn->convert.sat) {
        x = x > 0 ? (x < 1 ? x : 1) : 0;
    }
    if (insn->convert.rounding >= RND_RNI) {
        x = round_to_int(x, insn->convert.rounding);
    }
    if (insn->type == T_F64) {
        ((double *)to)[lane] = x;
        return;
    }
    if (insn->type == T_F32) {
        float narrow = narrowed(x, insn->convert.rounding);
        ((float *)to)[lane] = canonical(insn->convert.ftz ? flush(narrow) : narrow);
        return;
    }
    /* Round to odd first: rounding to nearest twice could give a wrong result. */
    float narrow = narrowed(x, RND_RZ);
    uint32_t bits;
    memcpy(&bits, &narrow, 4);
    bits |= isfinite(narrow) && (double)narrow != x;
    memcpy(&narrow, &bits, 4);
    enum tc_format format = insn->type == T_F16 ? TC_F16 : insn->type == T_BF16 ? TC_BF16 : TC_TF32;
    ((uint32_t *)to)[lane] = to_small(insn, format, narrow);
}

/* An integer as a double, rounded to odd beyond 53 bits, so that a later rounding to a narrower format is
 * right. */
static double int_to_double(uint64_t value, bool negative) {
    const uint64_t below = (1u << 11) - 1; /* the bits of 64 that do not fit into 53 */
    uint64_t magnitude = negative ? 0 - value : value;
    if (magnitude >> 53 != 0) {
        magnitude = (magnitude & ~below) | (magnitude & below ? below + 1 : 0);
    }
    return negative ? -(double)magnitude : (double)magnitude;
}

static enum next int_to_real(struct run *run, const struct insn *insn, uint32_t mask) {
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t value = load_int(run, insn, lane);
        bool sign = is_signed(insn->convert.from_type);
        if (insn->type == T_F32 || insn->type == T_F64) { /* the conversion itself rounds */
            const unsigned before = rounding_set(insn->convert.rounding);
            volatile uint64_t from = value;
            volatile float narrow = sign ? (float)(int64_t)from : (float)from;
            volatile double wide = sign ? (double)(int64_t)from : (double)from;
            rounding_restore(before);
            if (insn->type == T_F32) {
                ((float *)row(run, insn->op[0]))[lane] = narrow;
            } else {
                ((double *)row(run, insn->op[0]))[lane] = wide;
            }
        } else {
            store_real(run, insn, lane, int_to_double(value, sign && (int64_t)value < 0));
        }
    }
    return NEXT;
}

static enum next real_to_real(struct run *run, const struct insn *insn, uint32_t mask) {
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        if (insn->type == T_TF32 &&
            insn->convert.from_type == T_F32) { /* directly, so that a NaN keeps its bits */
            ((uint32_t *)row(run, insn->op[0]))[lane] =
                to_small(insn, TC_TF32, ((const float *)row(run, insn->op[1]))[lane]);
            continue;
        }
        store_real(run, insn, lane, load_real(run, insn, lane));
    }
    return NEXT;
}

/* ---- packed formats; the first source becomes the high part ---- */

static enum tc_format element_format(unsigned type) {
    switch (type) {
    case T_F16X2:
        return TC_F16;
    case T_BF16X2:
        return TC_BF16;
    case T_E4M3X2:
        return TC_E4M3;
    case T_E5M2X2:
        return TC_E5M2;
    case T_E2M1X2:
        return TC_E2M1;
    case T_E2M3X2:
        return TC_E2M3;
    case T_E3M2X2:
        return TC_E3M2;
    case T_UE8M0X2:
        return TC_UE8M0;
    default:
        return TC_FORMATS;
    }
}

static uint32_t element_bits(unsigned type) {
    return ptx_type_bytes(type) * 4;
}

static enum next pack_floats(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    const float *a = row(run, insn->op[1]), *b = row(run, insn->op[2]);
    enum tc_format format = element_format(insn->type);
    uint32_t bits = element_bits(insn->type);
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        d[lane] = to_small(insn, format, a[lane]) << bits | to_small(insn, format, b[lane]);
    }
    return NEXT;
}

static enum next pack_f16x2_rn(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    const float *a = row(run, insn->op[1]), *b = row(run, insn->op[2]);
    FOR_LANES(rest, mask) {
        int l = LANE(rest);
        d[l] = (uint32_t)f32_to_f16(a[l]) << 16 | f32_to_f16(b[l]);
    }
    return NEXT;
}

static enum next repack(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    const uint32_t *a = row(run, insn->op[1]);
    enum tc_format to = element_format(insn->type), from = element_format(insn->convert.from_type);
    uint32_t to_bits = element_bits(insn->type), from_bits = element_bits(insn->convert.from_type);
    uint32_t from_mask = (1u << from_bits) - 1;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        float low = tc_to_f32(from, a[lane] & from_mask),
              high = tc_to_f32(from, a[lane] >> from_bits & from_mask);
        d[lane] = to_small(insn, to, high) << to_bits | to_small(insn, to, low);
    }
    return NEXT;
}

static void decode_packed(struct decoder *d, unsigned type, unsigned source) {
    struct insn *insn = d->insn;
    if (element_format(type) == TC_FORMATS) {
        decode_fail(d, "no conversion to .%s", ptx_type_name(type));
    }
    emit_dst(d, &d->op[0], ptx_type_bytes(type) == 4 ? T_B32 : ptx_type_bytes(type) == 2 ? T_B16 : T_B8);
    if (source == T_F32) {
        need_operands(d, 3, 3);
        emit(d, src(d, &d->op[1], T_F32));
        emit(d, src(d, &d->op[2], T_F32));
        bool plain_half = type == T_F16X2 && insn->convert.rounding == RND_RN && !insn->convert.relu &&
                          !insn->convert.satfinite;
        insn->fn = plain_half ? pack_f16x2_rn : pack_floats;
    } else {
        need_operands(d, 2, 2);
        if (element_format(source) == TC_FORMATS) {
            decode_fail(d, "no conversion from .%s", ptx_type_name(source));
        }
        emit(d, src_any(d, &d->op[1], T_B32));
        insn->fn = repack;
    }
}

void decode_cvt(struct decoder *d) {
    struct insn *insn = d->insn;
    if (mod(d, "rs")) {
        decode_cvt_stochastic(d);
        return;
    }
    insn->convert.rounding = (uint8_t)mod_rounding(d);
    insn->convert.ftz = mod(d, "ftz");
    insn->convert.sat = mod(d, "sat");
    insn->convert.relu = mod(d, "relu");
    insn->convert.satfinite = mod(d, "satfinite");
    if (mod(d, "pack")) {
        decode_cvt_pack(d);
        return;
    }
    unsigned type = mod_type(d), source = mod_type(d);
    insn->type = (uint8_t)type;
    insn->convert.from_type = (uint8_t)source;
    if (element_format(type) != TC_FORMATS || element_format(source) != TC_FORMATS) {
        decode_packed(d, type, source);
        return;
    }
    need_operands(d, 2, 2);
    bool to_real = is_real(type), from_real = is_real(source);
    if (type == T_PRED || source == T_PRED || (!to_real && ptx_type_bytes(type) > 8)) {
        decode_fail(d, "there is no form for these types");
    }
    insn->fn = to_real ? (from_real ? real_to_real : int_to_real) : (from_real ? real_to_int : int_to_int);
    const struct operand_text *to = &d->op[0];
    if (to->kind != PO_REG || to->type == T_PRED || ptx_type_bytes(to->type) < ptx_type_bytes(type) ||
        (d->op[1].kind == PO_REG && ptx_type_bytes(d->op[1].type) < ptx_type_bytes(source))) {
        decode_fail(d, "a register is narrower than its type");
    }
    insn->convert.register_bits = (uint8_t)(ptx_type_bytes(to->type) * 8);
    insn->convert.from_bits = (uint8_t)(ptx_type_bytes(source) * 8);
    insn->convert.bits = (uint8_t)(ptx_type_bytes(type) * 8);
    if (to_real) {
        emit_dst(d, to, type);
    } else {
        emit_dst(d, to, insn->convert.register_bits == 64 ? T_B64 : T_B32);
    }
    emit(d, src_any(d, &d->op[1], source));
    bool plain_int = insn->fn == int_to_int && !insn->convert.sat && d->op[1].kind == PO_REG;
    if (plain_int && ptx_type_bytes(d->op[1].type) == 4 && insn->convert.register_bits == 64 &&
        ptx_type_bytes(type) == 8) {
        insn->fn = source == T_U32 ? widen_u32 : source == T_S32 ? widen_s32 : insn->fn;
    } else if (plain_int && ptx_type_bytes(d->op[1].type) == 8 && insn->convert.register_bits == 32 &&
               ptx_type_bytes(type) == 4 && ptx_type_bytes(source) == 8) {
        insn->fn = narrow_u64;
    } else if (type == T_F64 && source == T_F32 && d->op[1].kind == PO_REG &&
               ptx_type_bytes(d->op[1].type) == 4 && !insn->convert.ftz && !insn->convert.sat &&
               insn->convert.rounding == RND_NONE) {
        insn->fn = widen_f32;
    }
}
