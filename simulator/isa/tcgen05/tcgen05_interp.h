/* What the interpreter asks of tcgen05: the end of a CTA, and registers that tcgen05.ld fills. */
#ifndef SIM_ISA_TCGEN05_H
#define SIM_ISA_TCGEN05_H

#include "machine/machine.h"

void tensor_free(struct cta *cta);
/* The cluster has ended: columns still allocated are a finding. */
void tensor_at_end(struct cluster *cluster, struct cta *cta);
/* An instruction reads or writes a register that a tcgen05.ld is still to fill. */
enum next tensor_register_use(struct run *run, const struct insn *load, bool written);

#endif
