/* Races on global memory inside one launch: two warps use the same bytes, one of them writing, in no order.
 *
 * Inside a cluster the order is that of its vector clocks.  Between clusters it comes from flags in global
 * memory: what a cluster releases there for the n-th time is kept as a clock, and a cluster that acquires it
 * notes (cluster, n) in a list, whose length is one more entry of its own clocks (cluster->heard_index).  Who
 * has reached place k of the list knows the first k notes. */
#ifndef SIM_HAZARD_RACES_H
#define SIM_HAZARD_RACES_H

#include "global.h"
#include "hazard.h"

/* ---- flags between clusters (hazard/releases.c) ---- */

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

/* ---- lines of memory (hazard/races.c) ---- */

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

/* Room for more readers of lines, from what a launch has for them; false: it has no more. */
bool races_take_room(struct races *races, size_t bytes);
void races_give_room(struct races *races, size_t bytes);

#endif
