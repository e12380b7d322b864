/* The host side of the extended GEMM (custom_kernel_extended()). */
#ifndef BLACKWELL_EXTENDED_BACKEND_H
#define BLACKWELL_EXTENDED_BACKEND_H

#include "../../core/backend.h"

/* struct backend's `run_extended`. */
int32_t blackwell_run_extended(const struct problem *problem);

#endif
