/* Operations on the four bytes or two halves of a word: dot products (PTX ISA: dp4a, dp2a) and SIMD video
 * instructions without masks and selectors of their operands. The scalar ones are refused. */
#include "isa/opcodes.h"
#include "machine/machine.h"

enum { V_ADD, V_SUB, V_AVRG, V_ABSDIFF, V_MIN, V_MAX, V_SET };
static const char *const names[] = {"vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset"};

static int32_t part_of(uint32_t word, int part, int bits, bool is_signed) {
    const uint32_t value = word >> part * bits & ((1u << bits) - 1), sign = 1u << (bits - 1);
    return is_signed ? (int32_t)(value ^ sign) - (int32_t)sign : (int32_t)value;
}

static bool compare(unsigned relation, int32_t a, int32_t b) {
    const bool results[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
    return results[relation];
}

static int32_t apply(const struct insn *insn, int32_t a, int32_t b) {
    switch (insn->video.operation) {
    case V_ADD:
        return a + b;
    case V_SUB:
        return a - b;
    case V_AVRG: /* rounds halves up, of a negative sum down */
        return (a + b + (a + b >= 0)) >> 1;
    case V_ABSDIFF:
        return a < b ? b - a : a - b;
    case V_MIN:
        return a < b ? a : b;
    case V_MAX:
        return a < b ? b : a;
    default:
        return compare(insn->video.relation, a, b);
    }
}

/* op: result, a, b, c. With .add, the results are summed and added to c. */
static enum next exec_video(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct video_fields *v = &insn->video;
    const int bits = 32 / v->parts, low = v->is_signed ? -(1 << (bits - 1)) : 0;
    const int high = v->is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
    uint32_t *d = row(run, insn->op[0]);
    const uint32_t *a = row(run, insn->op[1]), *b = row(run, insn->op[2]), *c = row(run, insn->op[3]);
    FOR_LANES(rest, mask) {
        const int lane = LANE(rest);
        uint32_t sum = c[lane], word = 0;
        for (int i = 0; i < v->parts; i++) {
            int32_t result =
                apply(insn, part_of(a[lane], i, bits, v->a_signed), part_of(b[lane], i, bits, v->b_signed));
            result = v->sat ? (result < low ? low : result > high ? high : result) : result;
            sum += (uint32_t)result;
            word |= ((uint32_t)result & ((1u << bits) - 1)) << i * bits;
        }
        d[lane] = v->sum ? sum : word;
    }
    return NEXT;
}

static bool take_signed(struct decoder *d) {
    const unsigned type = mod_type(d);
    if (type != T_U32 && type != T_S32) {
        no_form(d, type);
    }
    return type == T_S32;
}

void decode_video(struct decoder *d) {
    static const char *const relations[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    struct video_fields *v = &d->insn->video;
    const size_t length = strlen(d->base) - 1; /* the last character is the number of parts */
    uint8_t operation = 0;
    while (strncmp(d->base, names[operation], length) != 0) {
        operation++;
    }
    v->operation = operation;
    v->parts = (uint8_t)(d->base[length] - '0');
    v->is_signed = operation != V_SET && take_signed(d);
    v->a_signed = take_signed(d);
    v->b_signed = take_signed(d);
    if (operation == V_SET) {
        const int relation = mod_of(d, COUNTED(relations));
        if (relation < 0) {
            decode_fail(d, "expected a comparison");
        }
        v->relation = (uint8_t)relation;
    }
    v->sat = operation != V_SET && mod(d, "sat");
    v->sum = !v->sat && mod(d, "add");
    EMIT_OPERANDS(d, T_B32, T_B32, T_B32, T_B32);
    d->insn->fn = exec_video;
}

/* ---- dp4a, dp2a ---- */

/* Sums the products of each byte of b, or of two bytes, with a byte or half of a. */
static enum next exec_dot(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    const uint32_t *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]), *pc = row(run, insn->op[3]);
    const int count = insn->video.parts, skip = insn->video.upper_bytes ? 2 : 0;
    FOR_LANES(rest, mask) {
        int l = LANE(rest);
        uint32_t sum = pc[l];
        for (int i = 0; i < count; i++) {
            sum += (uint32_t)(part_of(pa[l], i, 32 / count, insn->video.a_signed) *
                              part_of(pb[l], i + skip, 8, insn->video.b_signed));
        }
        d[l] = sum;
    }
    return NEXT;
}

void decode_dot(struct decoder *d) {
    d->insn->video.parts = named(d, "dp4a") ? 4 : 2;
    d->insn->video.upper_bytes = d->insn->video.parts == 2 && mod(d, "hi");
    if (d->insn->video.parts == 2 && !d->insn->video.upper_bytes && !mod(d, "lo")) {
        decode_fail(d, "expected .lo or .hi");
    }
    d->insn->video.a_signed = take_signed(d);
    d->insn->video.b_signed = take_signed(d);
    d->insn->fn = exec_dot;
    EMIT_OPERANDS(d, T_B32, T_B32, T_B32, T_B32);
}
