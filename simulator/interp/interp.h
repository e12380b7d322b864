/* Functions that the files of interp/ share: failures, launches, clusters, warps. */
#ifndef SIM_INTERP_H
#define SIM_INTERP_H

#include "machine/machine.h"

/* Each sets what sim_status and sim_message return, and returns the status. */
int sim_fail(struct sim *sim, int status, const char *what);
int sim_no_memory(struct sim *sim);
bool sim_heap_ready(struct sim *sim); /* makes the heap of kernels; false: no memory */
#define MESSAGE_BYTES 400

/* Reports a launch that failed, and returns `status`. A launch that did not run (any status but SIM_RUN_ERROR)
 * becomes a finding too. */
int launch_refuse(struct sim *sim, int status, const char *kernel, const char *why);
/* Lays out shape, registers, frames, shared memory and parameters and checks them against the chip's limits:
 * SIM_OK, or the status of the refusal. */
int launch_lay_out(struct sim *sim, struct launch *launch, const struct sim_launch_attributes *attributes);
/* Places all that the launch's kernel uses but its dynamic shared memory.  NULL, or the reason for a refusal;
 * then *exhausted says whether it is for want of memory. */
const char *launch_place(struct launch *launch, bool *exhausted);
void launch_free(struct launch *launch); /* what the two allocated */
/* Allocates the next entry of worker->resident. */
void cluster_make(struct worker *worker);
void cluster_free(struct cluster *cluster);
/* Resets the cluster to the kernel's first instruction, as cluster `number` of the grid. */
void cluster_start(struct cluster *cluster, uint64_t number);
/* Runs the cluster until it has ended (DONE), can do nothing but poll for another cluster's write (IDLE), or
 * lets later clusters go first (GIVES_WAY). */
enum cluster_state { CLUSTER_DONE, CLUSTER_IDLE, CLUSTER_GIVES_WAY };
enum cluster_state run_cluster(struct cluster *cluster);
/* Runs the whole launch with simulated time, on this thread (timed_scheduler.c). */
void run_timed(struct worker *worker);
uint32_t timed_room(const struct launch *launch); /* most clusters resident at a time */
/* The split of the warp that executes next; NULL: all of them wait. */
struct split *warp_next(struct warp *warp);
/* Reports a deadlock with a table of what each split waits for, and marks the cluster as failed. */
void report_deadlock(struct cluster *cluster);
/* After a round of nothing but polling: false once each warp has come back to an earlier state since
 * cluster->compared was 0, so that only another cluster's write can end its loop (poll_state.c). */
bool polls_change(struct cluster *cluster);
bool cluster_live(const struct cluster *cluster);
/* Completes the operations in flight and runs the checks at a kernel's end. */
void cluster_finish(struct cluster *cluster);
bool run_warp(struct warp *warp, struct worker *worker, uint32_t quantum); /* true: it made progress */
/* Reports it if insn touches a register that a pending wgmma or tcgen05.ld still reads or writes. */
enum next pending_registers(struct run *run, const struct insn *insn);

#endif
