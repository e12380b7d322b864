/* How clusters run. */
#ifndef SIM_INTERP_H
#define SIM_INTERP_H

#include "machine/machine.h"

/* The next of worker->resident. */
void cluster_make(struct worker *worker);
void cluster_free(struct cluster *cluster);
/* Puts it before its kernel's first instruction, as cluster `number` of the grid. */
void cluster_start(struct cluster *cluster, uint64_t number);
/* Runs until the cluster has ended, or can only poll for what another one may write. */
enum cluster_state { CLUSTER_DONE, CLUSTER_IDLE };
enum cluster_state run_cluster(struct cluster *cluster);
bool run_warp(struct warp *warp, struct worker *worker, uint32_t quantum); /* whether anything was executed */
/* Whether insn touches a register that a pending wgmma or tcgen05.ld reads or writes: reports it. */
enum next pending_registers(struct run *run, const struct insn *insn);

#endif
