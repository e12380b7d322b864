/* Registers the operators with the torch that the process has loaded, for the Python package alone.  The
 * library links with no torch.  Neither function may run in two threads at once. */
#ifndef TORCH_TORCH_REGISTER_H
#define TORCH_TORCH_REGISTER_H

#include "../core/board_tensors.h"

/* The schema of operator number `index`, counted from 0, as torch writes it; NULL past the last one. */
CUSTOM_KERNEL_API const char *custom_kernel_torch_schema(int32_t index);

/* Defines operator number `index` in torch's namespace nvfp4_gemm, for tensors on CPUs and CUDA devices.
 * Returns CUSTOM_KERNEL_ERROR_UNAVAILABLE, and defines nothing, if the loaded torch lacks a function that
 * operators need; custom_kernel_message() names it. */
CUSTOM_KERNEL_API int32_t custom_kernel_torch_register(int32_t index);

/* One argument of an operator, as Python describes it. */
struct described_argument {
    struct tensor_description tensor;
    int64_t integer;
    double number;
};

/* Checks a call of operator number `index`, which is registered, as the call itself would: without memory, for
 * the fake tensors of a compiler.  Nothing is computed. */
CUSTOM_KERNEL_API int32_t custom_kernel_torch_check(int32_t index, const struct described_argument *arguments);

#endif
