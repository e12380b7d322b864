/* Functions that the files of isa/warp/ share. */
#ifndef SIM_ISA_WARP_H
#define SIM_ISA_WARP_H

#include "machine/machine.h"

/* Lanes of a warp of the CTA have exited: completes barriers that now have all that they wait for. */
void barriers_lost(struct cta *cta, const struct warp *of);
/* Reports a setmaxnreg that only some warps of a warpgroup have executed. */
void registers_at_end(struct cluster *cluster, struct cta *cta);
/* Completes the cluster barrier: every thread has arrived. */
void clusters_complete(struct cluster *cluster);
/* ret from a function that was called. */
enum next call_return(struct run *run, uint32_t mask);
/* A call of the built-in vprintf. */
exec_function exec_vprintf;

#endif
