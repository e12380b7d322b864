#include "geforce_quantize_backend.h"

#include "../../gpu/gpu_pad.h"
#include "../../gpu/gpu_quantize.h"
#include "../geforce_kernels.h"
#include "geforce_quantize_kernels.h"

int32_t geforce_run_quantize(const struct quantization *quantization) {
    return gpu_run_quantize(quantization, "geforce",
                            geforce_quantize_kernel(quantization->form, quantization->type),
                            GEFORCE_PDL_VARIABLE);
}

int32_t geforce_pad(const struct problem *problem, const struct padded_rows *rows) {
    return gpu_pad(problem, rows, geforce_pad_kernel(), GEFORCE_PDL_VARIABLE);
}
