/* Selection of bytes (PTX ISA: prmt). */
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
