/* cvt.rs, stochastic rounding (PTX ISA, Data Movement and Conversion: cvt): random bits are added to the
 * mantissa bits to be dropped, and a carry increases the result's magnitude. */
#include <string.h>

#include "isa/opcodes.h"
#include "machine/machine.h"
#include "tensorcore/mma/formats.h"

enum { PAIR = 2, QUAD = 4, HALF_BITS = 16, F16_BITS = 13, BYTE_BITS = 8 };

static const struct target {
    const char *name;
    enum tc_format format;
    int count; /* f32 sources; of four, each gives 4 (e2m1) or 8 bits of the result */
} targets[] = {
    {"f16x2", TC_F16, PAIR},   {"bf16x2", TC_BF16, PAIR}, {"e4m3x4", TC_E4M3, QUAD}, {"e5m2x4", TC_E5M2, QUAD},
    {"e2m3x4", TC_E2M3, QUAD}, {"e3m2x4", TC_E3M2, QUAD}, {"e2m1x4", TC_E2M1, QUAD},
};

static uint32_t reversed16(uint32_t x) {
    uint32_t out = 0;
    for (int i = 0; i < HALF_BITS; i++) {
        out |= (x >> i & 1) << (HALF_BITS - 1 - i);
    }
    return out;
}

/* Random bits, left-aligned, for the source that becomes element `at` of the result, counted from the low end.
 * PTX ISA: with 16-bit formats each half of rbits serves one element; with narrow formats it serves a pair,
 * whose upper element uses the half's bits in reverse order (measured:B200 by FlashInfer's authors on e4m3x4;
 * the PTX ISA shows it in a figure). With e2m1 a pair uses one byte of each half; which element uses which is
 * assumed to be as for f16x2. */
static uint32_t random_of(const struct target *target, uint32_t rbits, int at) {
    uint32_t half = target->count == PAIR ? rbits >> at * HALF_BITS : rbits >> at / 2 * HALF_BITS;
    switch (target->format) {
    case TC_F16:
        return half << (32 - F16_BITS);
    case TC_BF16:
        return half << HALF_BITS;
    case TC_E2M1:
        return rbits >> (at % 2 * HALF_BITS + at / 2 * BYTE_BITS) << (32 - BYTE_BITS);
    default:
        return (at % 2 ? reversed16(half & 0xffff) : half) << HALF_BITS;
    }
}

/* op: result, sources from the highest element down, rbits. */
static enum next exec_stochastic(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct target *target = &targets[insn->convert.target];
    uint32_t *d = row(run, insn->op[0]);
    const uint32_t *rbits = row(run, insn->op[1 + target->count]);
    int bits = target->count == PAIR ? HALF_BITS : target->format == TC_E2M1 ? 4 : BYTE_BITS;
    unsigned flags = (insn->convert.relu ? TC_RELU : 0) | (insn->convert.satfinite ? TC_SATFINITE : 0);
    if (target->format == TC_E2M1) {
        (void)sim_report(
            run, SIM_REVIEW, "cvt-random-bits", -1,
            "the PTX ISA's text does not say which byte of rbits rounds which of the four values: taken "
            "as bits 24-31, 8-15, 16-23, 0-7 for the first to the last");
    }
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint32_t result = 0;
        for (int at = 0; at < target->count; at++) {
            float x = ((const float *)row(run, insn->op[target->count - at]))[lane];
            uint32_t code = tc_from_f32(target->format, x, TC_RS, flags, random_of(target, rbits[lane], at));
            result |= code << at * bits;
        }
        d[lane] = result;
    }
    return NEXT;
}

void decode_cvt_stochastic(struct decoder *d) {
    enum { TARGETS = sizeof targets / sizeof *targets };
    struct insn *insn = d->insn;
    const struct module *module = d->parser->module;
    if ((module->sm != 100 && module->sm != 103) || module->target[strlen(module->target) - 1] != 'a') {
        decode_fail(d, ".rs needs sm_100a or sm_103a");
    }
    insn->convert.relu = mod(d, "relu");
    insn->convert.satfinite = mod(d, "satfinite");
    int which = 0;
    while (which < TARGETS && !mod(d, targets[which].name)) {
        which++;
    }
    if (which == TARGETS || mod_type(d) != T_F32) {
        decode_fail(d, ".rs is not for these types");
    }
    const struct target *target = &targets[which];
    if (target->count == QUAD && !insn->convert.satfinite) {
        decode_fail(d, ".%s needs .satfinite", target->name);
    }
    insn->convert.target = (uint8_t)which;
    insn->convert.from_type = T_F32;
    insn->type = T_B32;
    bool vector = target->count == QUAD;
    need_operands(d, vector ? 3 : 4, vector ? 3 : 4);
    uint32_t count = 1;
    const struct operand_text *sources = vector ? elements(&d->op[1], &count) : &d->op[1],
                              *rbits = &d->op[d->nop - 1];
    if (count != (vector ? (uint32_t)QUAD : 1u) || rbits->kind != PO_REG) {
        decode_fail(d, "sources are %d values and a register of random bits", target->count);
    }
    emit_dst(d, &d->op[0], target->format == TC_E2M1 ? T_B16 : T_B32);
    for (int i = 0; i < target->count; i++) {
        emit(d, src(d, &sources[i], T_F32));
    }
    emit(d, src(d, rbits, T_B32));
    insn->fn = exec_stochastic;
}
