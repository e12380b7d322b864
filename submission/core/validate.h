/* Turns a caller's argument structs into valid problems, or says why it cannot.  Internal. */
#ifndef CORE_VALIDATE_H
#define CORE_VALIDATE_H

#include "backend.h"

/* Checks every rule of custom_kernel.h that needs no device, in the order of the struct's fields, and fills
 * *problem and *backend (enum custom_kernel_backend, as asked for).  Reads *args and no tensor. */
int32_t validate(const struct custom_kernel_args *args, struct problem *problem, int32_t *backend);

/* The same for the grouped GEMM: *count groups that have rows, in the caller's order; maybe none. */
int32_t validate_grouped(const struct custom_kernel_grouped_args *args,
                         struct problem groups[CUSTOM_KERNEL_MAX_GROUPS], int64_t *count, int32_t *backend,
                         int32_t *device);

/* The same for the extended call.  Stacked weights become two tensors.  `extension` is what the problem points
 * to, or where the call has nothing beyond the dual GEMM, *problem is of all batches and points to none. */
int32_t validate_extended(const struct custom_kernel_extended_args *args, struct problem *problem,
                          struct extension *extension, int32_t *backend);

/* Batch number `batch` of a problem that validate_extended() made. */
void extended_batch(const struct problem *all, int64_t batch, struct problem *one, struct extension *extension);

#endif
