/* How clusters run. */
#ifndef SIM_INTERP_H
#define SIM_INTERP_H

#include "machine/machine.h"

/* Says why a launch is not run, as a finding too unless it ran and that is its outcome; gives `status` back. */
#define MESSAGE_BYTES 400

int launch_refuse(struct sim *sim, int status, const char *kernel, const char *why);
/* Shape, registers, frames, shared memory and parameters, against the chip's limits.  SIM_OK, or the status of
 * the refusal. */
int launch_lay_out(struct sim *sim, struct launch *launch, const struct sim_launch_attributes *attributes);
void launch_free(struct launch *launch); /* what that has allocated */
/* The next of worker->resident. */
void cluster_make(struct worker *worker);
void cluster_free(struct cluster *cluster);
/* Puts it before its kernel's first instruction, as cluster `number` of the grid. */
void cluster_start(struct cluster *cluster, uint64_t number);
/* Runs until the cluster has ended, can only poll for what another one may write, or gives way. */
enum cluster_state { CLUSTER_DONE, CLUSTER_IDLE, CLUSTER_GIVES_WAY };
enum cluster_state run_cluster(struct cluster *cluster);
/* The whole launch with simulated time, on this thread (timed_scheduler.c). */
void run_timed(struct worker *worker);
uint32_t timed_room(const struct launch *launch); /* clusters at a time, at most */
/* The lanes that the warp executes next; NULL: all wait. */
struct split *warp_next(struct warp *warp);
/* A finding whose message is the table of who waits on what; the cluster has failed. */
void report_deadlock(struct cluster *cluster);
bool cluster_live(const struct cluster *cluster);
/* Ends what is in flight, with the checks of a kernel's end. */
void cluster_finish(struct cluster *cluster);
void shrinking_free(struct shrinking *shrinking);                          /* delay_text.c */
bool run_warp(struct warp *warp, struct worker *worker, uint32_t quantum); /* whether anything was executed */
/* Whether insn touches a register that a pending wgmma or tcgen05.ld reads or writes: reports it. */
enum next pending_registers(struct run *run, const struct insn *insn);

#endif
