/* Operations on the bytes and halves of a word (PTX ISA: prmt, dp4a, dp2a). */
#include "isa/opcodes.h"
#include "machine/machine.h"

enum { PRMT_DEFAULT, PRMT_F4E, PRMT_B4E, PRMT_RC8, PRMT_ECL, PRMT_ECR, PRMT_RC16 };

/* Equivalent selectors of the special modes, by the two low bits of the operand c. */
static const uint16_t prmt_selectors[7][4] = {
    [PRMT_F4E] = {0x3210, 0x4321, 0x5432, 0x6543}, [PRMT_B4E] = {0x5670, 0x6701, 0x7012, 0x0123},
    [PRMT_RC8] = {0x0000, 0x1111, 0x2222, 0x3333}, [PRMT_ECL] = {0x3210, 0x3211, 0x3222, 0x3333},
    [PRMT_ECR] = {0x0000, 0x1110, 0x2210, 0x3210}, [PRMT_RC16] = {0x1010, 0x3232, 0x1010, 0x3232},
};

static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t nibble = selector >> (4 * i);
        uint32_t byte = (uint32_t)(bytes >> (nibble & 7) * 8) & 0xff;
        byte = nibble & 8 ? (byte & 0x80 ? 0xff : 0) : byte; /* replicate the sign */
        result |= byte << (8 * i);
    }
    return result;
}

static enum next exec_prmt(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    const uint32_t *a = row(run, insn->op[1]), *b = row(run, insn->op[2]), *c = row(run, insn->op[3]);
    LANEWISE(mask, d[l] = permute(a[l], b[l], c[l]));
    return NEXT;
}

static enum next exec_prmt_mode(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    const uint32_t *a = row(run, insn->op[1]), *b = row(run, insn->op[2]), *c = row(run, insn->op[3]);
    LANEWISE(mask, d[l] = permute(a[l], b[l], prmt_selectors[insn->integer.byte_order][c[l] & 3]));
    return NEXT;
}

void decode_prmt(struct decoder *d) {
    static const char *const modes[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
    static const exec_fn fns[2][T_TYPES] = {{[T_B32] = exec_prmt}, {[T_B32] = exec_prmt_mode}};
    unsigned type = mod_type(d);
    d->insn->integer.byte_order = (uint8_t)(mod_of(d, COUNTED(modes)) + 1);
    of_one_type(d, fns[d->insn->integer.byte_order != PRMT_DEFAULT], type, 3);
}

static int32_t byte_of(uint32_t word, int index, bool sign) {
    uint32_t byte = word >> (8 * index) & 0xff;
    return sign ? (int8_t)(uint8_t)byte : (int32_t)byte;
}

static int32_t half_of(uint32_t word, int index, bool sign) {
    uint32_t half = word >> (16 * index) & 0xffff;
    return sign ? (int16_t)(uint16_t)half : (int32_t)half;
}

/* Sums the products of each byte of b, or of two bytes, with a byte or half of a. */
static inline enum next dot(struct run *run, const struct insn *insn, uint32_t mask, bool of_halves) {
    uint32_t *d = row(run, insn->op[0]);
    const uint32_t *pa = row(run, insn->op[1]), *pb = row(run, insn->op[2]), *pc = row(run, insn->op[3]);
    const bool sign_a = insn->type == T_S32, sign_b = insn->integer.b_type == T_S32;
    const int count = of_halves ? 2 : 4, skip = insn->integer.upper_bytes ? 2 : 0;
    FOR_LANES(rest, mask) {
        int l = LANE(rest);
        uint32_t sum = pc[l];
        for (int i = 0; i < count; i++) {
            int32_t a = of_halves ? half_of(pa[l], i, sign_a) : byte_of(pa[l], i, sign_a);
            sum += (uint32_t)(a * byte_of(pb[l], i + skip, sign_b));
        }
        d[l] = sum;
    }
    return NEXT;
}

static enum next exec_dp4a(struct run *run, const struct insn *insn, uint32_t mask) {
    return dot(run, insn, mask, false);
}

static enum next exec_dp2a(struct run *run, const struct insn *insn, uint32_t mask) {
    return dot(run, insn, mask, true);
}

static void two_types(struct decoder *d, exec_fn fn) {
    unsigned type = mod_type(d), second = mod_type(d);
    if ((type != T_U32 && type != T_S32) || (second != T_U32 && second != T_S32)) {
        decode_fail(d, "there is no form for these types");
    }
    d->insn->fn = fn;
    d->insn->type = (uint8_t)type;
    d->insn->integer.b_type = (uint8_t)second;
    EMIT_OPERANDS(d, T_B32, T_B32, T_B32, T_B32);
}

void decode_dp4a(struct decoder *d) {
    two_types(d, exec_dp4a);
}

void decode_dp2a(struct decoder *d) {
    d->insn->integer.upper_bytes = mod(d, "hi");
    if (!d->insn->integer.upper_bytes && !mod(d, "lo")) {
        decode_fail(d, "expected .lo or .hi");
    }
    two_types(d, exec_dp2a);
}
