/* The options that custom_kernel_extended() and custom_kernel_experts() share.  Internal. */
#ifndef CORE_EXTENDED_OPTIONS_H
#define CORE_EXTENDED_OPTIONS_H

#include "backend.h"

/* Activation, weights, output, the activation's parameters and reserved members. */
int32_t check_options(const struct custom_kernel_extended_args *args);

/* What n has to be a multiple of. */
int32_t check_multiples(const struct custom_kernel_extended_args *args);

/* Pointers that the other arguments leave unused must be NULL: a value there is probably a mistake. */
int32_t check_unused(const struct custom_kernel_extended_args *args);

struct extension extension_of(const struct custom_kernel_extended_args *args);

#endif
