/* The host side of the extended GEMM (custom_kernel_extended()). */
#ifndef HOPPER_EXTENDED_BACKEND_H
#define HOPPER_EXTENDED_BACKEND_H

#include "../../core/backend.h"

/* struct backend's `run_extended`. */
int32_t hopper_run_extended(const struct problem *problem);

/* The predicted time in picoseconds of a group as a plain product; -1 if the extended GEMM lacks the tile that
 * the environment names. */
int64_t hopper_plain_product_ps(const struct problem *group, int sms);

#endif
