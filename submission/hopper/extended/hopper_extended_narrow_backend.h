/* The host side of extended calls with few rows of A: one launch, no scratch memory, any scale layout. */
#ifndef HOPPER_EXTENDED_NARROW_BACKEND_H
#define HOPPER_EXTENDED_NARROW_BACKEND_H

#include "../../core/backend.h"

/* Runs a problem with narrow tile number `index` on the current device, which has `sms` SMs. */
int32_t hopper_run_extended_narrow(const struct problem *problem, int index, int sms);

#endif
