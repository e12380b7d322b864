#ifndef SIM_HAZARD_LAUNCH_REPORT_H
#define SIM_HAZARD_LAUNCH_REPORT_H

#include "order.h"

/* Two launches use a byte, at least one of them writes it, and nothing orders the two. */
struct launch_conflict {
    struct launch *launch; /* the later one */
    struct run *run;       /* NULL: the later one is a copy */
    const struct allocation *allocation;
    uint64_t offset;
    int lane;
    bool early, write; /* early: before griddepcontrol.wait */
    bool lane_alone;   /* another lane of the warp has waited, this one has not */
    uint32_t other_launch, other_pc;
    bool other_write;
};
void report_launches(const struct launch_conflict *conflict);

#endif
