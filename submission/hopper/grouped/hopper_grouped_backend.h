/* The host side of the grouped GEMM (hopper_grouped_gemm.cuh). */
#ifndef HOPPER_GROUPED_BACKEND_H
#define HOPPER_GROUPED_BACKEND_H

#include "../../core/backend.h"

/* struct backend's `run_grouped` and `check_grouped`. */
int32_t hopper_run_grouped(const struct problem *groups, int64_t count);
int32_t hopper_check_grouped(const struct problem *groups, int64_t count);

#endif
