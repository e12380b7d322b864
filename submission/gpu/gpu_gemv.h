/* The host side of gemv.cuh: the groups of a grouped GEMM that all have one row of A. */
#ifndef GPU_GEMV_HOST_H
#define GPU_GEMV_HOST_H

#include <stdbool.h>

#include "gpu_backend.h"

/* True if gpu_run_gemv() is the way to compute the groups: each has one row, which fits into shared memory, and
 * the environment names no tile of the grouped GEMM. */
bool gpu_prefers_gemv(const struct problem *groups, int64_t count);

/* Computes the groups; `kernel` is the backend's gemv::kernel. */
int32_t gpu_run_gemv(const char *backend, const struct problem *groups, int64_t count, const void *kernel,
                     const char *pdl_variable);

#endif
