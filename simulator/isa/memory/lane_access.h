/* One access of memory for each lane by instructions other than ld and st: wmma, st.bulk. */
#ifndef SIM_ISA_LANE_ACCESS_H
#define SIM_ISA_LANE_ACCESS_H

#include "machine/machine.h"

/* Loads or stores `bytes` (1, 2, 4 or 8) at the address of each lane, with the bounds, checks and counters of a
 * weak ld or st in that space; values are zero-extended. All lanes' generic addresses are in one space. */
enum next lane_access(struct run *run, unsigned space, const uint64_t addresses[LANES], uint32_t mask,
                      uint32_t bytes, bool write, uint64_t values[LANES]);
/* Records an access of shared memory by the lanes of a warp, each in the CTA of its place; see hazard_lanes. */
void touch_shared_lanes(struct run *run, struct cta *const ctas[LANES], const uint32_t offsets[LANES],
                        uint32_t mask, uint32_t bytes, unsigned flags);
enum next misaligned(struct run *run, int lane, uint64_t address, uint32_t bytes); /* reports it */

#endif
