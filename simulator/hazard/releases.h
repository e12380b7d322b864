/* Order between clusters through flags in global memory.
 *
 * The clock of each release of a cluster is stored, numbered from 1.  A cluster that acquires the flag appends
 * the note (releasing cluster, number) to its list.  The length of the list is one more index of the acquiring
 * cluster's clocks (cluster->heard_index): a thread whose clock has k there knows the first k notes. */
#ifndef SIM_HAZARD_RELEASES_H
#define SIM_HAZARD_RELEASES_H

#include "hazard.h"

struct races *races_make(void); /* NULL: no memory */
void races_free(struct races *races);

/* Records that the running warp has released `clock` at a global address; of_cta: with scope .cta. */
void races_released(struct run *run, uint64_t address, const struct vector_clock *clock, bool of_cta);
/* Appends notes for what was released at the address; returns the new length of the list, a value at
 * heard_index, or 0 if nothing was released.  *narrow: another cluster has released there with scope .cta. */
uint32_t races_heard(struct run *run, uint64_t address, bool *narrow);
/* True if a thread with value `heard` at heard_index comes after what another cluster did at `value` of one of
 * its clock indices.  `fenced`: true only if a fence.proxy.async preceded the release as well. */
bool heard_of(const struct run *run, uint32_t heard, uint32_t cluster, uint32_t clock_index, uint32_t value,
              bool fenced);
/* The same for what came first in time, through signals that order no memory: relaxed stores and atomics. Their
 * notes are counted in `causal` at heard_index. */
void races_signalled(struct run *run, uint64_t address);
void races_noticed(struct run *run, uint64_t address);
bool noticed_of(const struct run *run, uint32_t cluster, uint32_t clock_index, uint32_t value);
/* True if the launch has more releases than are stored: an apparent race may then be ordered. */
bool releases_lost(const struct launch *launch);
/* Forgets all notes, for the next cluster in the same place. */
void heard_reset(struct heard *heard);
void heard_free(struct heard *heard);

/* Reserves bytes for the readers of a line from the budget of the launch; false if that is spent. */
bool races_take_room(struct races *races, size_t bytes);
void races_give_room(struct races *races, size_t bytes);

#endif
