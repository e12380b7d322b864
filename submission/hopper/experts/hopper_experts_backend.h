/* The host side of the products of experts (hopper_experts_gemm.cuh). */
#ifndef HOPPER_EXPERTS_BACKEND_H
#define HOPPER_EXPERTS_BACKEND_H

#include "../../core/backend.h"

/* struct backend's `run_experts`. */
int32_t hopper_run_experts(const struct experts *experts);

#endif
