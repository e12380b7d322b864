#include "blackwell_quantize_backend.h"

#include "../../gpu/gpu_pad.h"
#include "../../gpu/gpu_quantize.h"
#include "../blackwell_kernels.h"
#include "blackwell_quantize_kernels.h"

int32_t blackwell_run_quantize(const struct quantization *quantization) {
    return gpu_run_quantize(quantization, "blackwell",
                            blackwell_quantize_kernel(quantization->form, quantization->type),
                            BLACKWELL_PDL_VARIABLE);
}

int32_t blackwell_pad(const struct problem *problem, const struct padded_rows *rows) {
    return gpu_pad(problem, rows, blackwell_pad_kernel(), BLACKWELL_PDL_VARIABLE);
}
