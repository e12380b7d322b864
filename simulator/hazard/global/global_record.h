/* The shadow record of global memory: which launches have written and read each byte, as long as a later launch
 * may conflict with them. */
#ifndef SIM_HAZARD_GLOBAL_H
#define SIM_HAZARD_GLOBAL_H

#include "order.h"

#define RECORD_SHIFT 7
#define RECORD_BYTES (1u << RECORD_SHIFT) /* a line; a mask has one bit for each of its bytes */
#define RECORD_WORDS (RECORD_BYTES / 64)

struct lines;

/* The record for an allocation of so many bytes; NULL: no memory. */
struct lines *lines_make(uint64_t bytes);
void lines_free(struct lines *lines);
/* For a new allocation: reads of bytes that no launch or copy has written are reported. */
void lines_know_writes(struct lines *lines);

struct epoch;

/* Records an access of the running warp; flags: ACCESS_WRITE, ACCESS_ATOMIC, ACCESS_ASYNC.  The epoch says when
 * the access counts as done. */
void lines_touched(struct run *run, uint64_t address, uint64_t bytes, int lane, unsigned flags,
                   const struct epoch *epoch);
/* lines_touched for the lanes of a warp, each of which accesses `bytes`, in one allocation or several. */
void lines_touched_by_lanes(struct run *run, const uint64_t addresses[LANES], uint32_t mask, uint32_t bytes,
                            unsigned flags);
/* Records a copy or fill by the host or in a queue, which counts as a launch. */
void lines_copied(struct launch *launch, uint64_t address, uint64_t bytes, bool write);
/* True if the running launch has written any byte of the line. */
bool lines_written(const struct run *run, uint64_t address);

/* ---- delayed stores (hazard/global/delayed.c) ---- */

/* The launches whose stores the running warp sees; NULL: those of all launches. */
const struct known *delayed_view(const struct run *run);
/* Copies `bytes` at a global address, as this view sees them, to `room` and returns `room`. */
const uint8_t *delayed_read(const struct launch *launch, const struct known *view, uint64_t address,
                            uint64_t bytes, uint8_t *room);
/* Stores so that the stores of launches outside the view still win where both write. */
void delayed_write(const struct launch *launch, const struct known *view, uint64_t address, uint64_t bytes,
                   const uint8_t *from);

#endif
