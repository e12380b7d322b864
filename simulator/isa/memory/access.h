/* What executes ld and st. */
#ifndef SIM_ISA_MEMORY_ACCESS_H
#define SIM_ISA_MEMORY_ACCESS_H

#include "ptx/insn.h"

/* Of a decoded space; `strong`: insn->memory.strong. */
exec_fn memory_fn(unsigned space, bool write, bool strong);

#endif
