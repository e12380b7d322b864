/* Which instructions depend on the value that a load brings. */
#ifndef SIM_PTX_DEPENDENCE_H
#define SIM_PTX_DEPENDENCE_H

#include "ir.h"

/* True if an operand of `to` may depend on the value that `from` loads: through registers, predicates, and
 * shared or local memory, in whatever order the instructions stand.  NULL for `to`: any store that other CTAs
 * can see as a signal, i.e. a strong one to global memory.  False if memory runs out. */
bool depends_on_load(const struct module *module, const struct insn *from, const struct insn *to);
/* True if no chip issues `to` before the value that `from` loads has come, since none speculates: each way from
 * one to the other passes a branch that depends on the value.  If `from` is not on the way to `to`, which
 * another warp executes after a barrier: each way from `from` to a barrier does.  False if memory runs out. */
bool waits_for_load(const struct module *module, const struct insn *from, const struct insn *to);

#endif
