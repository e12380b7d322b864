/* Flags in global memory, by which clusters order what they do: what a cluster releases there for the n-th time
 * is kept as a clock, and a cluster that acquires it notes (cluster, n) in a list, whose length is one more
 * entry of its own clocks (cluster->heard_index).  Who has reached place k of the list knows the first k notes.
 */
#ifndef SIM_HAZARD_RELEASES_H
#define SIM_HAZARD_RELEASES_H

#include "hazard.h"

struct races *races_make(void); /* NULL: no memory */
void races_free(struct races *races);

/* The running warp has released `clock` at a global address. */
void races_released(struct run *run, uint64_t address, const struct clockv *clock, bool of_cta);
/* What the running cluster has heard of, with what was released at the address: a value of heard_index.
 * *narrow: another cluster has released there with scope .cta. */
uint32_t races_heard(struct run *run, uint64_t address, bool *narrow);
/* Whether a thread that has reached place `heard` of its cluster's notes comes after what was done at `value`
 * of a clock index of another cluster; `fenced`: after a fence.proxy.async, too, that came before the release.
 */
bool heard_of(const struct run *run, uint32_t heard, uint32_t cluster, uint32_t clock_index, uint32_t value,
              bool fenced);
/* Whether there were more releases than are followed, so that what seems a race may be ordered. */
bool releases_lost(const struct launch *launch);
/* The cluster starts anew. */
void heard_reset(struct heard *heard);
void heard_free(struct heard *heard);

/* Room for more readers of lines, from what a launch has for them; false: it has no more. */
bool races_take_room(struct races *races, size_t bytes);
void races_give_room(struct races *races, size_t bytes);

#endif
