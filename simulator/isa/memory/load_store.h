/* Execution of ld and st, and the lock for 128-bit accesses. */
#ifndef SIM_ISA_MEMORY_ACCESS_H
#define SIM_ISA_MEMORY_ACCESS_H

#include "ptx/insn.h"

/* The function that executes a load or store in a state space; `strong`: insn->memory.strong. */
exec_fn memory_fn(unsigned space, bool write, bool strong);

/* Lock around strong accesses and atomics of 128 bits, which are single accesses (PTX ISA, Memory Consistency
 * Model: scalar data types) wider than the host's own. */
void quad_begin(void);
void quad_end(void);

#endif
