/* Extended-precision arithmetic (PTX ISA: add.cc, addc, sub.cc, subc, mad.cc, madc). The carry flags are a
 * reserved predicate word of the warp, one bit per lane. */
#include "isa/opcodes.h"
#include "machine/machine.h"

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;

static uint32_t *carry(struct run *run) {
    return (uint32_t *)(void *)run->warp->preds + 2;
}

static enum next exec_add_carry(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *cc = carry(run), before = insn->integer.carry_in ? *cc : 0, after = 0;
    bool subtract = insn->integer.subtract, wide = ptx_type_bytes(insn->type) == 8;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t a = lane_u64(run, insn->op[1], lane), b = lane_u64(run, insn->op[2], lane);
        uint64_t in = before >> lane & 1;
        u128 sum = subtract ? (u128)a - b - in : (u128)a + b + in; /* CC is a borrow after sub.cc */
        after |= (uint32_t)((uint64_t)(sum >> (wide ? 64 : 32)) & 1) << lane;
        set_lane(run, insn->op[0], lane, (uint64_t)sum);
    }
    if (insn->integer.carry_out) {
        *cc = (*cc & ~mask) | after;
    }
    return NEXT;
}

static enum next exec_mad_carry(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *cc = carry(run), before = insn->integer.carry_in ? *cc : 0, after = 0;
    bool wide = ptx_type_bytes(insn->type) == 8, sign = insn->type == T_S32 || insn->type == T_S64;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t a = lane_u64(run, insn->op[1], lane), b = lane_u64(run, insn->op[2], lane);
        uint64_t c = lane_u64(run, insn->op[3], lane), in = before >> lane & 1, product;
        if (wide) {
            u128 full = sign ? (u128)((s128)(int64_t)a * (int64_t)b) : (u128)a * b;
            product = insn->integer.high_product ? (uint64_t)(full >> 64) : (uint64_t)full;
        } else {
            uint64_t full = sign ? (uint64_t)((int64_t)(int32_t)a * (int32_t)b) : a * b;
            product = insn->integer.high_product ? full >> 32 : (uint32_t)full;
        }
        u128 sum = (u128)product + c + in;
        after |= (uint32_t)((uint64_t)(sum >> (wide ? 64 : 32)) & 1) << lane;
        set_lane(run, insn->op[0], lane, (uint64_t)sum);
    }
    if (insn->integer.carry_out) {
        *cc = (*cc & ~mask) | after;
    }
    return NEXT;
}

void carry_form(struct decoder *d, bool in, bool subtract, bool set) {
    static const exec_fn fns[T_TYPES] = {[T_U32] = exec_add_carry,
                                         [T_S32] = exec_add_carry,
                                         [T_B32] = exec_add_carry,
                                         [T_U64] = exec_add_carry,
                                         [T_S64] = exec_add_carry};
    of_one_type(d, fns, mod_type(d), 2);
    d->insn->integer.carry_in = in;
    d->insn->integer.subtract = subtract;
    d->insn->integer.carry_out = set;
}

void decode_addc(struct decoder *d) {
    carry_form(d, true, named(d, "subc"), mod(d, "cc"));
}

void decode_madc(struct decoder *d) {
    static const exec_fn fns[T_TYPES] = {
        [T_U32] = exec_mad_carry, [T_S32] = exec_mad_carry, [T_U64] = exec_mad_carry, [T_S64] = exec_mad_carry};
    bool high = mod(d, "hi");
    if (!high && !mod(d, "lo")) {
        decode_fail(d, "expected .lo or .hi");
    }
    bool set = mod(d, "cc");
    of_one_type(d, fns, mod_type(d), 3);
    d->insn->integer.carry_in = d->mnemonic.text[3] == 'c';
    d->insn->integer.carry_out = set;
    d->insn->integer.high_product = high;
}
