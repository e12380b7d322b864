/* Races on global memory inside one launch: two warps use the same bytes without an order, and at least one of
 * them writes.  Vector clocks give the order inside a cluster, flags (releases.h) that between clusters. */
#ifndef SIM_HAZARD_RACES_H
#define SIM_HAZARD_RACES_H

#include "global_record.h"
#include "hazard/hazard.h"

/* When an access was done: at this value of a clock index of a cluster. */
struct line_time {
    uint32_t cluster, value;
    uint16_t clock_index;
};

/* Which lanes use a line: from byte `first` on, each lane from `lane` on has `bytes`. */
struct lane_pattern {
    uint8_t lane, first, bytes; /* bytes 0: in no such order */
};

/* The use of a line by a warp; flags: enum access_flags. */
struct line_use {
    uint64_t mask[RECORD_WORDS];
    struct line_time time;
    uint32_t pc;
    uint16_t warp; /* of the cluster */
    uint8_t flags;
    struct lane_pattern lanes;
    struct line_time other; /* the last write of other values that it covers and comes after; value 0: none */
};

/* The uses of a line in one launch; all zeros: none.  Most lines have one user. */
struct more_uses;
struct line_uses {
    struct line_use first;
    struct more_uses *more; /* the other uses; NULL: none */
    uint32_t launch, count; /* count: elements of the list, which starts with `first` and goes on in `more` */
    uint32_t fetched; /* 1 + the cluster whose ordinary loads have brought the line to an L1, MANY: several */
    bool stale;       /* another cluster may have stored after that, so that this L1 has old bytes */
};
/* An access of the running warp to the line at offset `start` of an allocation. */
struct line_access {
    struct run *run;
    const struct allocation *allocation;
    uint64_t start;
    const uint64_t *mask; /* the bytes: RECORD_WORDS words */
    const struct epoch *epoch;
    unsigned flags;
    int lane;
    struct lane_pattern lanes;
    bool stale; /* it may find old bytes in an L1; filled by races_meet */
};
/* Checks the access against the earlier uses and records it.  False: no memory. */
bool races_meet(struct line_access *access, struct line_uses *uses);
void uses_free(struct line_uses *uses);

#endif
