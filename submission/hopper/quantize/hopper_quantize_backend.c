#include "hopper_quantize_backend.h"

#include "../../gpu/gpu_pad.h"
#include "../../gpu/gpu_quantize.h"
#include "../hopper_kernels.h"
#include "hopper_quantize_kernels.h"

int32_t hopper_run_quantize(const struct quantization *quantization) {
    return gpu_run_quantize(quantization, "hopper",
                            hopper_quantize_kernel(quantization->form, quantization->type),
                            HOPPER_PDL_VARIABLE);
}

int32_t hopper_pad(const struct problem *problem, const struct padded_rows *rows) {
    return gpu_pad(problem, rows, hopper_pad_kernel(), HOPPER_PDL_VARIABLE);
}
