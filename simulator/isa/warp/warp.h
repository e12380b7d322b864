/* What this family's files call of each other. */
#ifndef SIM_ISA_WARP_H
#define SIM_ISA_WARP_H

#include "machine/machine.h"

/* Lanes have ended: whoever waits for all threads of the CTA may be complete now. */
void barriers_lost(struct cta *cta);
/* Every thread has arrived at the cluster barrier. */
void clusters_complete(struct cluster *cluster);
/* The built-in function vprintf. */
enum next exec_vprintf(struct run *run, const struct insn *insn, uint32_t mask);

#endif
