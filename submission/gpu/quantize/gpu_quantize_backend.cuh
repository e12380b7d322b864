/* The quantizer of a backend, in a file that is compiled for its chips: its kernels, and struct backend's
 * `run_quantize` and `pad`, which the backend's header declares. */
#ifndef GPU_QUANTIZE_BACKEND_CUH
#define GPU_QUANTIZE_BACKEND_CUH

#include "gpu_quantize.cuh"
#include "pad_rows.cuh"

#define GPU_QUANTIZE_BACKEND(name, pdl_variable)                                                               \
    int32_t name##_run_quantize(const struct quantization *quantization) {                                     \
        return gpu_run_quantize(quantization, #name,                                                           \
                                quantize_kernel_of(quantize_kernel_form(quantization), quantization->type),    \
                                pdl_variable);                                                                 \
    }                                                                                                          \
    int32_t name##_pad(const struct problem *problem, const struct padded_rows *rows) {                        \
        return gpu_pad(problem, rows, (const void *)pad_rows_kernel, pdl_variable);                            \
    }

#endif
