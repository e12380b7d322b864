/* The memory of torch's tensors in C: what an operator reads of an argument, and new tensors.  For a tensor
 * that is only described, which has no memory, each function succeeds, with NULL for an address.  Functions
 * that return int32_t return an enum custom_kernel_status, after set_message() if that is an error.  Internal.
 */
#ifndef TORCH_TORCH_MEMORY_H
#define TORCH_TORCH_MEMORY_H

#include "../core/torch_tensor.h"
#include "torch_shim.h"

struct torch_call;

/* Reads everything but the memory. */
int32_t read_tensor(const char *name, void *handle, struct torch_tensor *tensor);

/* The address of a tensor whose shape is checked; refuses one whose storage was shrunk. */
int32_t tensor_data(const struct torch_tensor *tensor, void **data);

/* A new tensor on the device of `as`, uninitialized, with the memory order of `shape`: a result of the call, in
 * the order of the schema, or one that lives until the call returns. */
int32_t new_result(struct torch_call *call, const struct torch_shape *shape, enum torch_dtype dtype,
                   const struct torch_tensor *as, void **data);
int32_t new_copy(struct torch_call *call, int64_t bytes, bool zeroed, const struct torch_tensor *as,
                 void **data);

/* Copies bytes on the device of `as`: sizes and strides of both sides, in bytes. */
int32_t copy_bytes(const struct torch_tensor *as, int dimensions, const int64_t *sizes, void *into,
                   const int64_t *into_strides, const void *from, const int64_t *from_strides);

/* `device` and `queue` of an argument struct, for a call on the tensor's device. */
int32_t device_and_queue(const struct torch_tensor *tensor, int32_t *device, void **queue);

#endif
