/* A recorded access of shared memory, and the check of a later one against it. */
#ifndef SIM_HAZARD_CONFLICT_H
#define SIM_HAZARD_CONFLICT_H

#include "hazard/hazard.h"

#define GRANULE       16
#define WORDS         4
#define SEVERAL_LANES 0xff

struct shadow_record {
    uint32_t value, pc;
    uint16_t clock_index, bytes; /* bytes: one bit for each byte of the granule */
    uint32_t lanes;              /* the lane that touched each word, one byte for each; SEVERAL_LANES */
    uint8_t flags;
    bool quiet; /* of a read: nothing was reported for it */
};

/* The bytes of a granule that an access touches; `offset` of the granule in the CTA's shared memory. */
struct touch {
    uint32_t bytes, lanes, offset;
    const struct cta *cta;
};

/* Reports a conflicting access after a recorded one unless it is ordered after that; true if it did. */
bool check_conflict(struct run *run, const struct shadow_record *record, const struct touch *touch,
                    unsigned flags, const struct epoch *epoch);
/* True if the record is a write of other values by the same warp at the same epoch: another warp's store of
 * equal values may then have met either. */
bool varies(const struct run *run, const struct shadow_record *record, const struct touch *touch,
            unsigned flags, const struct epoch *epoch);

#endif
