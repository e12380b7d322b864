/* Operations of a thread's tensor pipe. */
#ifndef SIM_ISA_TCGEN05_PIPE_H
#define SIM_ISA_TCGEN05_PIPE_H

#include "tcgen05_state.h"

/* The CTAs of an operation, the issuing one or its pair with the even one first, and how many; false after a
 * report. */
bool pipe_prepare(struct run *run, int cta_group, struct cta *ctas[2], int *count);
struct tc_cta pipe_view(struct cta *cta);
/* A trap pattern over a region of tensor memory. */
void pipe_poison(struct cta *cta, const struct tmem_region *region);
/* For the checks: chunks of shared memory that will be read, and when an operation of the warp counts as done.
 */
void pipe_reads_shared(struct run *run, struct cta *cta, const uint32_t *chunks, int count,
                       const struct epoch *epoch);
struct epoch pipe_epoch(struct run *run, const struct tensor_warp *warp);

enum next pipe_mma(struct run *run, const struct insn *insn, uint32_t mask);
enum next pipe_cp(struct run *run, const struct insn *insn, uint32_t mask);
enum next pipe_shift(struct run *run, const struct insn *insn, uint32_t mask);
enum next pipe_commit(struct run *run, const struct insn *insn, uint32_t mask);

#endif
