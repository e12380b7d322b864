/* Which instructions depend on the value that a load brings. */
#ifndef SIM_PTX_DEPENDENCE_H
#define SIM_PTX_DEPENDENCE_H

#include "ir.h"

/* True if an operand of `to` may depend on the value that `from` loads: through registers, predicates, and
 * shared or local memory, in whatever order the instructions stand.  NULL for `to`: any store that other CTAs
 * can see as a signal, i.e. a strong one to global memory.  False if memory runs out. */
bool depends_on_load(const struct module *module, const struct insn *from, const struct insn *to);

#endif
