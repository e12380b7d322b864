/* The host side of extended calls with few rows of A: one launch, no scratch memory, any scale layout. */
#ifndef HOPPER_EXTENDED_NARROW_BACKEND_H
#define HOPPER_EXTENDED_NARROW_BACKEND_H

#include "../../core/backend.h"

/* The narrow tile for an extended call that is faster than one of `wide_ps` picoseconds; -1 if none is.  Rows
 * of A that no narrow tile holds are several tiles. */
int hopper_extended_narrow_tile(const struct problem *problem, int sms, int64_t wide_ps);

/* Runs a problem with narrow tile number `index` on the current device, which has `sms` SMs. */
int32_t hopper_run_extended_narrow(const struct problem *problem, int index, int sms);

#endif
