/* Operations that one thread issues to the tensor pipe: mma, cp, shift, commit. */
#ifndef SIM_ISA_TCGEN05_PIPE_H
#define SIM_ISA_TCGEN05_PIPE_H

#include "tcgen05_state.h"

/* Sets the CTAs of an operation and their count: the issuing CTA, or its pair with the even one first. False
 * after a report. */
bool pipe_prepare(struct run *run, int cta_group, struct cta *ctas[2], int *count);
struct tc_cta pipe_view(struct cta *cta);
/* Fills a region of tensor memory with a trap pattern. */
void pipe_poison(struct cta *cta, const struct tmem_region *region);
/* For the checks: records the chunks of shared memory that an operation will read, until `epoch`. */
void pipe_reads_shared(struct run *run, struct cta *cta, const uint32_t *chunks, int count,
                       const struct epoch *epoch);
/* Epoch of an operation that the running warp issues now: over once a commit after it is waited for. */
struct epoch pipe_epoch(struct run *run, const struct tensor_warp *warp);

#endif
