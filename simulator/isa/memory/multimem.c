/* multimem.ld_reduce, .st, .red and bulk copies (PTX ISA, Data Movement: multimem). They need a multicast
 * address of several devices (cuMulticastCreate, cuMulticastBindMem); the simulator has one device, without
 * multicast. They are parsed, because a kernel may contain them in a branch for several devices, and end the
 * run as incomplete if executed. */
#include "isa/opcodes.h"
#include "machine/machine.h"
#include "ptx/ir.h"

static enum next exec_multimem(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)insn;
    (void)mask;
    return sim_report(
        run, SIM_INCOMPLETE, "multimem", -1,
        "multimem needs a multicast object of several devices (cuMulticastCreate), which is not modelled");
}

void decode_multimem(struct decoder *d) {
    static const char *const operations[] = {"ld_reduce", "st", "red", "cp"};
    int operation = mod_of(d, COUNTED(operations));
    if (operation < 0 || d->nop < 2 || d->parser->module->sm < 90) {
        decode_fail(d, "multimem has .ld_reduce, .st, .red and copies, on sm_90 or later");
    }
    d->nmods = 0; /* the rest of the form does not matter: it is never executed */
    d->insn->fn = exec_multimem;
}
