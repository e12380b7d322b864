/* The part of tcgen05 that the interpreter calls: a CTA's end, and registers that a tcgen05.ld still fills. */
#ifndef SIM_ISA_TCGEN05_H
#define SIM_ISA_TCGEN05_H

#include "machine/machine.h"

void tensor_free(struct cta *cta);
/* The cluster has ended: reports columns that are still allocated. */
void tensor_at_end(struct cluster *cluster, struct cta *cta);
/* An instruction reads or writes (`written`) a register that the pending tcgen05.ld `load` still fills. */
enum next tensor_register_use(struct run *run, const struct insn *load, bool written);

#endif
