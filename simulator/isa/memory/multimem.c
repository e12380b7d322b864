/* multimem.ld_reduce, .st, .red and the bulk copies (PTX ISA, Data Movement: multimem).  They need a multicast
 * address, which cuMulticastCreate and cuMulticastBindMem give to memory of several devices; here is one, whose
 * attribute says that it has no multicast.  So they are read, for a kernel may hold them in a branch that only
 * machines with several devices take, and end the run as incomplete where one is reached. */
#include "isa/opcodes.h"
#include "machine/machine.h"
#include "ptx/ir.h"

static enum next exec_multimem(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)insn;
    (void)mask;
    return sim_report(
        run, SIM_INCOMPLETE, "multimem", -1,
        "multimem works on a multicast object of several devices: there is one, and cuMulticastCreate "
        "is not supported");
}

void decode_multimem(struct decoder *d) {
    static const char *const operations[] = {"ld_reduce", "st", "red", "cp"};
    int operation = mod_of(d, COUNTED(operations));
    if (operation < 0 || d->nop < 2 || d->parser->module->sm < 90) {
        decode_fail(d, "multimem has .ld_reduce, .st, .red and copies, on sm_90 or later");
    }
    d->nmods = 0; /* which form is meant does not matter any more */
    d->insn->fn = exec_multimem;
}
