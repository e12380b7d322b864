/* What runs problems on the CPU. */
#ifndef CPU_BACKEND_H
#define CPU_BACKEND_H

#include "../core/backend.h"

/* Computes `count` >= 1 problems with m >= 1, all with b2 or none, and extensions of the same options or none,
 * by the instruction set for `rows` rows of A. */
int32_t cpu_run_problems(const struct problem *problems, int64_t count, int64_t rows);

/* struct backend's `run_experts`. */
int32_t cpu_run_experts(const struct experts *experts);

#endif
