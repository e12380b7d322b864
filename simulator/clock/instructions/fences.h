/* GPU-scope fences: of a fence instruction, before a release at cluster scope, before a released word. */
#ifndef SIM_CLOCK_FENCES_H
#define SIM_CLOCK_FENCES_H

#include "clock/timing.h"

/* The warp's fence begins at `at`; returns when it ends, apart from the copies that it waits for.  takes: how
 * long it takes if nothing delays it; behind_copies: whether it waits for copies. */
ticks fence_begin(const struct warp *warp, ticks at, ticks takes, bool behind_copies);
/* A fence.proxy.async.shared begins at `at`; returns when it ends. */
ticks fence_stored(const struct warp *warp, ticks at);
/* Returns when the split's next instruction may issue behind the warp's fence; `ready` if there is none. */
ticks time_fenced(const struct warp *warp, const struct split *split, ticks ready);
/* Starts the fence that machine code has before a releasing arrival; returns when that may issue. */
ticks time_before(const struct warp *warp, const struct split *split, ticks ready);

#endif
