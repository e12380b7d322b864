/* What the shadow record remembers of an access, and what is said of two that conflict. */
#ifndef SIM_HAZARD_CONFLICT_H
#define SIM_HAZARD_CONFLICT_H

#include "hazard/hazard.h"

#define GRANULE       16
#define WORDS         4
#define SEVERAL_LANES 0xff

struct shadow_record {
    uint32_t value, pc;
    uint16_t clock_index, bytes; /* a bit a byte of the granule */
    uint32_t lanes;              /* who touched each word, a byte each */
    uint8_t flags;
};

/* What an access touches of a granule, which is at an offset of a CTA's shared memory. */
struct touch {
    uint32_t bytes, lanes, offset;
    const struct cta *cta;
};

/* A conflicting access after a recorded one: reported unless it is ordered behind it. */
void check_conflict(struct run *run, const struct shadow_record *record, const struct touch *touch,
                    unsigned flags, const struct epoch *epoch);
/* Whether the record is the running warp's own earlier write of other values, which others may have met too. */
bool varies(const struct run *run, const struct shadow_record *record, const struct touch *touch,
            unsigned flags, const struct epoch *epoch);

#endif
