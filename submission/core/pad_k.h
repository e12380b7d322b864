/* K in multiples of 64, the only ones that the backends' kernels take: operands of another K are copied with
 * zeros after each row, as many as make K a multiple of 64.  The codes of B, which are most of the bytes, stay
 * where they are if K is a multiple of 32 and the backend's kernels read zeros past the end of a row. Internal.
 */
#ifndef CORE_PAD_K_H
#define CORE_PAD_K_H

#include "backend.h"

/* Replaces the operands of a problem by padded ones, if its K asks for it; *memory is NULL if not.  The
 * problem's device is current. */
int32_t pad_problem(const struct backend *backend, struct problem *problem, uint8_t **memory);

/* The same for the products of experts. */
int32_t pad_experts(const struct backend *backend, struct experts *experts, uint8_t **memory);

/* Gives back the memory of either; returns `status`, the status of the call, if it is a failure, else its own.
 */
int32_t release_padded(const struct backend *backend, const struct problem *problem, uint8_t *memory,
                       int32_t status);

/* The problem with the sizes that pad_problem() gives it, and its pointers as they are. */
struct problem padded_sizes(const struct backend *backend, const struct problem *problem);

#endif
