/* Comparison and selection (PTX ISA: setp, set, selp, slct). */
#include <math.h>

#include "isa/opcodes.h"
#include "machine/machine.h"
#include "tensorcore/half.h"

enum {
    CMP_EQ,
    CMP_NE,
    CMP_LT,
    CMP_LE,
    CMP_GT,
    CMP_GE,
    CMP_LO,
    CMP_LS,
    CMP_HI,
    CMP_HS,
    CMP_EQU,
    CMP_NEU,
    CMP_LTU,
    CMP_LEU,
    CMP_GTU,
    CMP_GEU,
    CMP_NUM,
    CMP_NAN
};
static const char *const compare_names[] = {"eq", "ne",  "lt",  "le",  "gt",  "ge",  "lo",  "ls",  "hi",
                                            "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
enum { BOOL_NONE, BOOL_AND, BOOL_OR, BOOL_XOR };

/* A loop per comparison, so that the compiler vectorises it for full warps. */
#define COMPARE(T, operator)                                                                                   \
    LANEWISE(mask, bits |= (uint32_t)((T)pa[l] operator(T) pb[l]) << l);                                       \
    break;
#define COMPARE_INT(name, D, T)                                                                                \
    static uint32_t name(const struct insn *insn, const D *pa, const D *pb, uint32_t mask) {                   \
        uint32_t bits = 0;                                                                                     \
        switch (insn->compare.relation) {                                                                      \
        case CMP_EQ:                                                                                           \
            COMPARE(T, ==)                                                                                     \
        case CMP_NE:                                                                                           \
            COMPARE(T, !=)                                                                                     \
        case CMP_LT:                                                                                           \
        case CMP_LO:                                                                                           \
            COMPARE(T, <)                                                                                      \
        case CMP_LE:                                                                                           \
        case CMP_LS:                                                                                           \
            COMPARE(T, <=)                                                                                     \
        case CMP_GT:                                                                                           \
        case CMP_HI:                                                                                           \
            COMPARE(T, >)                                                                                      \
        default:                                                                                               \
            COMPARE(T, >=)                                                                                     \
        }                                                                                                      \
        return bits;                                                                                           \
    }
COMPARE_INT(compare_u16, uint32_t, uint16_t)
COMPARE_INT(compare_s16, uint32_t, int16_t)
COMPARE_INT(compare_u32, uint32_t, uint32_t)
COMPARE_INT(compare_s32, uint32_t, int32_t)
COMPARE_INT(compare_u64, uint64_t, uint64_t)
COMPARE_INT(compare_s64, uint64_t, int64_t)

static bool compare_double(unsigned cmp, double a, double b) {
    bool unordered = a != a || b != b;
    switch (cmp) {
    case CMP_EQ:
        return a == b;
    case CMP_NE:
        return !unordered && a != b;
    case CMP_LT:
        return a < b;
    case CMP_LE:
        return a <= b;
    case CMP_GT:
        return a > b;
    case CMP_GE:
        return a >= b;
    case CMP_EQU:
        return unordered || a == b;
    case CMP_NEU:
        return unordered || a != b;
    case CMP_LTU:
        return unordered || a < b;
    case CMP_LEU:
        return unordered || a <= b;
    case CMP_GTU:
        return unordered || a > b;
    case CMP_GEU:
        return unordered || a >= b;
    case CMP_NUM:
        return !unordered;
    default:
        return unordered;
    }
}

static double float_lane(const struct run *run, const struct insn *insn, struct operand operand, int lane,
                         bool high) {
    const uint8_t *at = row(run, operand);
    double wide;
    float narrow;
    uint32_t bits;
    if (insn->compare.operand_type == T_F64) {
        memcpy(&wide, at + lane * 8, 8);
        return wide;
    }
    memcpy(&bits, at + lane * 4, 4);
    if (insn->compare.operand_type == T_F32) {
        memcpy(&narrow, &bits, 4);
        return insn->compare.ftz && fabsf(narrow) < 0x1p-126f ? 0.0 : (double)narrow;
    }
    bits = high ? bits >> 16 : bits & 0xffff;
    return insn->compare.operand_type == T_BF16 || insn->compare.operand_type == T_BF16X2 ? bf16_to_f32(bits)
                                                                                          : f16_to_f32(bits);
}

static uint32_t compare(const struct run *run, const struct insn *insn, struct operand a, struct operand b,
                        uint32_t mask, bool high) {
    uint32_t bits = 0;
    switch (insn->compare.operand_type) {
    case T_B16:
    case T_U16:
        return compare_u16(insn, row(run, a), row(run, b), mask);
    case T_S16:
        return compare_s16(insn, row(run, a), row(run, b), mask);
    case T_B32:
    case T_U32:
        return compare_u32(insn, row(run, a), row(run, b), mask);
    case T_S32:
        return compare_s32(insn, row(run, a), row(run, b), mask);
    case T_B64:
    case T_U64:
        return compare_u64(insn, row(run, a), row(run, b), mask);
    case T_S64:
        return compare_s64(insn, row(run, a), row(run, b), mask);
    default:
        FOR_LANES(rest, mask) {
            int lane = LANE(rest);
            bits |= (uint32_t)compare_double(insn->compare.relation, float_lane(run, insn, a, lane, high),
                                             float_lane(run, insn, b, lane, high))
                    << lane;
        }
        return bits;
    }
}

static uint32_t combine(const struct run *run, const struct insn *insn, uint32_t bits, int at) {
    return insn->compare.combine == BOOL_AND   ? bits & pred(run, insn->op[at])
           : insn->compare.combine == BOOL_OR  ? bits | pred(run, insn->op[at])
           : insn->compare.combine == BOOL_XOR ? bits ^ pred(run, insn->op[at])
                                               : bits;
}

/* op: p, q, a, b, c */
static enum next exec_setp(struct run *run, const struct insn *insn, uint32_t mask) {
    bool pair = insn->compare.operand_type == T_F16X2 || insn->compare.operand_type == T_BF16X2;
    uint32_t bits = compare(run, insn, insn->op[2], insn->op[3], mask, false);
    uint32_t second = pair ? compare(run, insn, insn->op[2], insn->op[3], mask, true) : ~bits;
    second = combine(run, insn, second, 4); /* p may be the same register as c: compute both results first */
    set_pred(run, insn->op[0], mask, combine(run, insn, bits, 4));
    if (!insn->op[1].sink) {
        set_pred(run, insn->op[1], mask, second);
    }
    return NEXT;
}

static void take_comparison(struct decoder *d) {
    static const char *const bools[] = {"and", "or", "xor"};
    int cmp = mod_of(d, COUNTED(compare_names));
    if (cmp < 0) {
        decode_fail(d, "expected a comparison, e.g. .eq");
    }
    d->insn->compare.relation = (uint8_t)cmp;
    d->insn->compare.combine = (uint8_t)(mod_of(d, COUNTED(bools)) + 1);
    d->insn->compare.ftz = mod(d, "ftz");
}

void decode_setp(struct decoder *d) {
    take_comparison(d);
    unsigned type = mod_type(d);
    int operands = d->insn->compare.combine != BOOL_NONE ? 4 : 3;
    need_operands(d, operands, operands);
    if (type == T_PRED || type == T_B8 || (!is_float_type(type) && ptx_type_bytes(type) < 2)) {
        no_form(d, type);
    }
    const struct operand_text none = {.kind = PO_SINK};
    d->insn->fn = exec_setp;
    d->insn->compare.operand_type = (uint8_t)type;
    d->insn->cls = is_float_type(type) ? CL_FLOAT : CL_INT;
    emit_dst(d, &d->op[0], T_PRED);
    emit_dst(d, d->op[0].second != NULL ? d->op[0].second : &none, T_PRED);
    emit(d, src(d, &d->op[1], type));
    emit(d, src(d, &d->op[2], type));
    if (operands == 4) {
        emit(d, src(d, &d->op[3], T_PRED));
    }
}

/* op: d, a, b, c */
static enum next exec_set(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    bool pair = insn->compare.operand_type == T_F16X2 || insn->compare.operand_type == T_BF16X2;
    uint32_t bits = compare(run, insn, insn->op[1], insn->op[2], mask, false);
    uint32_t high = pair ? compare(run, insn, insn->op[1], insn->op[2], mask, true) : 0;
    bits = insn->nop > 3 ? combine(run, insn, bits, 3) : bits;
    uint32_t yes = insn->type == T_F32                          ? 0x3f800000
                   : insn->type == T_F16                        ? 0x3c00
                   : insn->type == T_BF16                       ? 0x3f80
                   : insn->type == T_U16 || insn->type == T_S16 ? 0xffff
                                                                : UINT32_MAX;
    if (pair) {
        uint32_t one = insn->type == T_F16X2 ? 0x3c00 : insn->type == T_BF16X2 ? 0x3f80 : 0xffff;
        LANEWISE(mask, d[l] = (bits >> l & 1 ? one : 0) | (high >> l & 1 ? one << 16 : 0));
    } else {
        LANEWISE(mask, d[l] = bits >> l & 1 ? yes : 0);
    }
    return NEXT;
}

void decode_set(struct decoder *d) {
    take_comparison(d);
    unsigned type = mod_type(d), source = mod_type(d);
    if (ptx_type_bytes(type) == 8 || source == T_PRED || ptx_type_bytes(source) < 2) {
        decode_fail(d, "there is no form for these types");
    }
    d->insn->fn = exec_set;
    d->insn->type = (uint8_t)type;
    d->insn->compare.operand_type = (uint8_t)source;
    const unsigned types[] = {type, source, source, T_PRED};
    emit_operands(d, types, d->insn->compare.combine != BOOL_NONE ? 4 : 3);
}

static enum next selp_32(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]), p = pred(run, insn->op[3]);
    const uint32_t *a = row(run, insn->op[1]), *b = row(run, insn->op[2]);
    LANEWISE(mask, d[l] = p >> l & 1 ? a[l] : b[l]);
    return NEXT;
}

static enum next selp_64(struct run *run, const struct insn *insn, uint32_t mask) {
    uint64_t *d = row(run, insn->op[0]);
    uint32_t p = pred(run, insn->op[3]);
    const uint64_t *a = row(run, insn->op[1]), *b = row(run, insn->op[2]);
    LANEWISE(mask, d[l] = p >> l & 1 ? a[l] : b[l]);
    return NEXT;
}

/* a where c >= 0, else b; a NaN chooses b. */
static enum next exec_slct(struct run *run, const struct insn *insn, uint32_t mask) {
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint32_t c = lane_u32(run, insn->op[3], lane);
        float x;
        memcpy(&x, &c, sizeof x);
        bool first = insn->compare.operand_type == T_F32 ? (insn->compare.ftz && fabsf(x) < 0x1p-126f) || x >= 0
                                                         : (int32_t)c >= 0;
        set_lane(run, insn->op[0], lane, lane_u64(run, insn->op[first ? 1 : 2], lane));
    }
    return NEXT;
}

void decode_select(struct decoder *d) {
    const bool by_sign = named(d, "slct");
    d->insn->compare.ftz = by_sign && mod(d, "ftz");
    const unsigned type = mod_type(d), chooser = by_sign ? mod_type(d) : T_PRED;
    if (type == T_PRED) {
        no_form(d, type);
    }
    d->insn->type = (uint8_t)type;
    d->insn->compare.operand_type = (uint8_t)chooser;
    d->insn->fn = by_sign ? exec_slct : ptx_type_bytes(type) == 8 ? selp_64 : selp_32;
    EMIT_OPERANDS(d, type, type, type, chooser);
}
