/* Turns a caller's argument struct into a valid problem, or says why it cannot.  Internal. */
#ifndef CORE_VALIDATE_H
#define CORE_VALIDATE_H

#include "backend.h"

/* Checks every rule of custom_kernel.h that needs no device, in the order of the struct's fields, and fills
 * *problem and *backend (enum custom_kernel_backend, as asked for).  Reads *args and no tensor. */
int32_t validate(const struct custom_kernel_args *args, struct problem *problem, int32_t *backend);

#endif
