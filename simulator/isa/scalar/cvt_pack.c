/* cvt.pack: saturates two integers and packs them into a register (PTX ISA, Data Movement and Conversion). */
#include "isa/opcodes.h"
#include "machine/machine.h"

static const struct packed {
    const char *name;
    uint8_t bits;
    bool is_signed;
} packed[] = {{"s16", 16, true}, {"u16", 16, false}, {"s8", 8, true}, {"u8", 8, false},
              {"s4", 4, true},   {"u4", 4, false},   {"s2", 2, true}, {"u2", 2, false}};

static uint32_t saturated(const struct packed *to, int32_t value) {
    int32_t most = (int32_t)((1u << (to->bits - to->is_signed)) - 1), least = to->is_signed ? -most - 1 : 0;
    value = value > most ? most : value < least ? least : value;
    return (uint32_t)value & ((1u << to->bits) - 1);
}

/* op: d, a, b and, below 16 bits, c, whose low bits become the upper bits of d. */
static enum next exec_pack(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct packed *to = &packed[insn->convert.packed];
    uint32_t *d = row(run, insn->op[0]);
    const int32_t *a = row(run, insn->op[1]), *b = row(run, insn->op[2]);
    const uint32_t *c = to->bits < 16 ? row(run, insn->op[3]) : NULL;
    FOR_LANES(rest, mask) {
        int l = LANE(rest);
        uint32_t above = c == NULL ? 0 : c[l] << 2 * to->bits;
        d[l] = above | saturated(to, a[l]) << to->bits | saturated(to, b[l]);
    }
    return NEXT;
}

/* cvt.pack; .pack and .sat have been taken. */
void decode_cvt_pack(struct decoder *d) {
    size_t kind = 0;
    while (kind < sizeof packed / sizeof *packed && !mod(d, packed[kind].name)) {
        kind++;
    }
    if (kind == sizeof packed / sizeof *packed || !d->insn->convert.sat || !mod(d, "s32")) {
        decode_fail(d, "expected cvt.pack.sat from .s32");
    }
    bool three = packed[kind].bits < 16;
    if (three && !mod(d, "b32")) {
        decode_fail(d, "expected type .b32 for the bits above");
    }
    d->insn->convert.packed = (uint8_t)kind;
    d->insn->type = T_B32;
    d->insn->fn = exec_pack;
    const unsigned types[] = {T_B32, T_B32, T_B32, T_B32};
    emit_operands(d, types, three ? 4 : 3);
}
