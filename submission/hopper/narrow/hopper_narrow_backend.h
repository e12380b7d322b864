/* The host side of calls with few rows of A: one launch, no scratch memory, any scale layout. */
#ifndef HOPPER_NARROW_BACKEND_H
#define HOPPER_NARROW_BACKEND_H

#include "../../core/backend.h"
#include "../hopper_kernels.h"
#include "hopper_narrow_selection.h"

/* Runs a problem with narrow tile number `index` on the current device, which has `sms` SMs. */
int32_t hopper_run_narrow(const struct problem *problem, int index, int sms);

/* Its parts, for extended calls too. */
int32_t hopper_narrow_check_limits(const struct problem *problem, const struct hopper_narrow_config *config);
struct hopper_narrow_params hopper_narrow_params_of(const struct problem *problem,
                                                    const struct hopper_narrow_layout *layout);
/* The room of a device, whose driver alone knows which SMs share a GPC: it is asked once. */
struct hopper_narrow_room hopper_narrow_find_room(int32_t device, int sms);
/* The layout of a call with tile number `index` on device number `device`. */
struct hopper_narrow_layout hopper_narrow_layout_of(int32_t device, int index,
                                                    const struct hopper_narrow_question *question, int sms);
/* n: columns that the layout was found for. */
int32_t hopper_launch_narrow(const struct problem *problem, const struct hopper_narrow_config *config,
                             const struct hopper_narrow_layout *layout, const void *kernel, int64_t n,
                             void **arguments);

#endif
