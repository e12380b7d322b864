/* The shadow record of global memory: which launch has written and read each byte, as far as a later launch may
 * conflict with it. */
#ifndef SIM_HAZARD_GLOBAL_H
#define SIM_HAZARD_GLOBAL_H

#include "order.h"

#define RECORD_SHIFT 7
#define RECORD_BYTES                                                                                           \
    (1u << RECORD_SHIFT) /* memory is recorded by lines, bytes of a line by the bits of a mask */
#define RECORD_WORDS (RECORD_BYTES / 64)

struct lines;

/* Of an allocation; NULL: no memory. */
struct lines *lines_make(uint64_t bytes);
void lines_free(struct lines *lines);

struct epoch;

/* What the running warp does to global memory; flags: ACCESS_WRITE, ACCESS_ATOMIC, ACCESS_ASYNC.  The epoch
 * says when it counts as done. */
void lines_touched(struct run *run, uint64_t address, uint64_t bytes, int lane, unsigned flags,
                   const struct epoch *epoch);
/* The same for lanes of a warp that access `bytes` each, of one allocation or more. */
void lines_touched_by_lanes(struct run *run, const uint64_t addresses[LANES], uint32_t mask, uint32_t bytes,
                            unsigned flags);
/* A copy or fill by the host or a queue, which is a launch of its own. */
void lines_copied(struct launch *launch, uint64_t address, uint64_t bytes, bool write);
/* Whether the running launch has written any byte of the line. */
bool lines_written(const struct run *run, uint64_t address);

/* ---- stores that are held back, as long as they may be (hazard/global/delayed.c) ---- */

/* What the running warp has to know of earlier launches to see their stores; NULL: it sees all. */
const struct known *delayed_view(const struct run *run);
/* `bytes` at a global address as the view sees them, put into `room`, which is returned. */
const uint8_t *delayed_read(const struct launch *launch, const struct known *view, uint64_t address,
                            uint64_t bytes, uint8_t *room);
/* Stores that come before the stores that the view does not know: where both write, those stay. */
void delayed_write(const struct launch *launch, const struct known *view, uint64_t address, uint64_t bytes,
                   const uint8_t *from);

#endif
