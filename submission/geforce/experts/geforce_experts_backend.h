/* The host side of the products of experts (geforce_experts_gemm.cuh). */
#ifndef GEFORCE_EXPERTS_BACKEND_H
#define GEFORCE_EXPERTS_BACKEND_H

#include "../../core/backend.h"

/* struct backend's `run_experts`. */
int32_t geforce_run_experts(const struct experts *experts);

#endif
