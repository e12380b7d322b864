/* Races on global memory inside one launch: two warps use the same bytes, one of them writing, in no order.
 *
 * Inside a cluster the order is that of its vector clocks, between clusters that of flags (releases.h). */
#ifndef SIM_HAZARD_RACES_H
#define SIM_HAZARD_RACES_H

#include "global_record.h"
#include "hazard/hazard.h"

/* What a warp did to a line of memory; flags: enum access_flags. */
struct line_use {
    uint64_t mask[RECORD_WORDS];
    uint32_t cluster, value, pc;
    uint16_t clock_index, warp; /* warp: of the cluster */
    uint8_t flags;
};

/* Who has used a line in this launch; zeros: none.  Most lines have one user. */
struct more_uses;
struct line_uses {
    struct line_use first;
    struct more_uses *more; /* the others; NULL: there are none */
    uint32_t launch, count; /* count: in the list, which is `first` and the first of `more` */
};
/* An access of the running warp to a line that begins `start` bytes into the allocation. */
struct line_access {
    struct run *run;
    const struct allocation *allocation;
    uint64_t start;
    const uint64_t *mask; /* RECORD_WORDS: the bytes */
    const struct epoch *epoch;
    unsigned flags;
    int lane;
};
/* Checks it, and remembers it.  False: no memory. */
bool races_meet(const struct line_access *access, struct line_uses *uses);
void uses_free(struct line_uses *uses);

#endif
