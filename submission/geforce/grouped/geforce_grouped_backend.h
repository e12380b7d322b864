/* The host side of the grouped GEMM (geforce_grouped_gemm.cuh). */
#ifndef GEFORCE_GROUPED_BACKEND_H
#define GEFORCE_GROUPED_BACKEND_H

#include "../../core/backend.h"

/* struct backend's `run_grouped` and `check_grouped`. */
int32_t geforce_run_grouped(const struct problem *groups, int64_t count);
int32_t geforce_check_grouped(const struct problem *groups, int64_t count);

#endif
