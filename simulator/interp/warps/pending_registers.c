/* Checks for registers that a wgmma or tcgen05.ld in flight still owns, until the program has waited for it. */
#include "interp/interp.h"
#include "isa/tcgen05/tcgen05_interp.h"
#include "isa/wgmma/warpgroup.h"

enum next pending_registers(struct run *run, const struct insn *insn) {
    for (uint32_t i = 0; i < insn->nop; i++) {
        struct operand operand = insn->op[i];
        if (operand.base != BASE_REGS) {
            continue;
        }
        uint32_t pending = *pending_row(run->warp, run->split->function, operand);
        bool written = i < insn->ndst;
        if (pending == 0 || (!written && pending < PENDING_WRITE)) {
            continue;
        }
        const struct in_flight *first = &run->warp->in_flight[0];
        if (first->group == GROUP_OF_LOAD) {
            return tensor_register_use(run, first->insn, written);
        }
        return wgmma_register_use(run, insn, first->insn, pending, written);
    }
    return NEXT;
}
