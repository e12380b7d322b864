/* The host side of the grouped GEMM (blackwell_grouped_gemm.cuh). */
#ifndef BLACKWELL_GROUPED_BACKEND_H
#define BLACKWELL_GROUPED_BACKEND_H

#include "../../core/backend.h"

/* struct backend's `run_grouped` and `check_grouped`. */
int32_t blackwell_run_grouped(const struct problem *groups, int64_t count);
int32_t blackwell_check_grouped(const struct problem *groups, int64_t count);

#endif
