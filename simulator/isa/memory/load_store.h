/* What executes ld and st. */
#ifndef SIM_ISA_MEMORY_ACCESS_H
#define SIM_ISA_MEMORY_ACCESS_H

#include "ptx/insn.h"

/* Of a decoded space; `strong`: insn->memory.strong. */
exec_fn memory_fn(unsigned space, bool write, bool strong);

/* Between these, one thread of the host at a time: strong accesses and atomics of 128 bits are one access each
 * (PTX ISA, Memory Consistency Model: scalar data types), and the host has none so wide. */
void quad_begin(void);
void quad_end(void);

#endif
