/* The host side of the extended GEMM (custom_kernel_extended()). */
#ifndef GEFORCE_EXTENDED_BACKEND_H
#define GEFORCE_EXTENDED_BACKEND_H

#include "../../core/backend.h"

/* struct backend's `run_extended`. */
int32_t geforce_run_extended(const struct problem *problem);

#endif
