/* Turns a caller's argument struct into a valid problem, or refuses it with a message.  Internal. */
#ifndef CORE_VALIDATE_H
#define CORE_VALIDATE_H

#include "backend.h"

/* Checks every rule of custom_kernel.h that needs no device, in the order of the struct's members, then fills
 * *problem and *backend (enum custom_kernel_backend, the caller's choice).  Reads *args and never a tensor. */
int32_t validate(const struct custom_kernel_args *args, struct problem *problem, int32_t *backend);

/* The same for the grouped GEMM.  Fills one problem per group with m > 0, in the caller's order; *count may be
 * 0.  *groups is `few`, or memory that the caller frees, in any case. */
int32_t validate_grouped(const struct custom_kernel_grouped_args *args, struct problem few[GROUPS_AT_ONCE],
                         struct problem **groups, int64_t *count, int32_t *backend, int32_t *device);

/* The same for the extended GEMM.  *problem has all batches and points to *extension; if the options are those
 * of the dual GEMM, problem->extension is NULL and `run` can compute the problem. */
int32_t validate_extended(const struct custom_kernel_extended_args *args, struct problem *problem,
                          struct extension *extension, int32_t *backend);

/* Fills *one and *extension with batch number `batch` of a problem of validate_extended(), for a backend's
 * run_extended; stacked weights become two tensors. */
void extended_batch(const struct problem *all, int64_t batch, struct problem *one, struct extension *extension);

/* The same for the products of experts.  *experts points to itself, so it must not be copied. */
int32_t validate_experts(const struct custom_kernel_experts_args *args, struct experts *experts,
                         int32_t *backend);

/* The same for the quantizer. */
int32_t validate_quantize(const struct custom_kernel_quantize_args *args, struct quantization *quantization,
                          int32_t *backend);

/* The same around the products of experts (routing/validate_routing.c). */
int32_t validate_route(const struct custom_kernel_route_args *args, struct routing *routing, int32_t *backend);
int32_t validate_combine(const struct custom_kernel_combine_args *args, struct combination *combination,
                         int32_t *backend);

/* ---- the options that custom_kernel_extended() and custom_kernel_experts() share ---- */

/* Products, weights, output, the activation's parameters and reserved members. */
int32_t check_options(const struct custom_kernel_extended_args *args);

/* What n has to be a multiple of. */
int32_t check_multiples(const struct custom_kernel_extended_args *args);

/* Pointers that the other arguments leave unused must be NULL: a value there is probably a mistake. */
int32_t check_unused(const struct custom_kernel_extended_args *args);

struct extension extension_of(const struct custom_kernel_extended_args *args);

#endif
