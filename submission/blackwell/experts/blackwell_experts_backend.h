/* The host side of the products of experts (blackwell_experts_gemm.cuh). */
#ifndef BLACKWELL_EXPERTS_BACKEND_H
#define BLACKWELL_EXPERTS_BACKEND_H

#include "../../core/backend.h"

/* struct backend's `run_experts`. */
int32_t blackwell_run_experts(const struct experts *experts);

#endif
