// run() of the SOL-ExecBench solution: passes its tensors to custom_kernel(), on the current stream of torch.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#include "submission/custom_kernel.h"

static const void *address_of(const torch::Tensor &tensor, const char *name, int64_t rows, int64_t columns) {
    TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous(), name, " is not a contiguous tensor on a GPU");
    TORCH_CHECK(tensor.dim() == 2 && tensor.size(0) == rows && tensor.size(1) == columns &&
                    tensor.element_size() == 1,
                name, " has shape ", tensor.sizes(), "; expected (", rows, ", ", columns, ") of bytes");
    return tensor.data_ptr();
}

void run(torch::Tensor a, torch::Tensor b1, torch::Tensor b2, torch::Tensor sfa, torch::Tensor sfb1,
         torch::Tensor sfb2, torch::Tensor c) {
    TORCH_CHECK(a.dim() == 2 && c.dim() == 2 && c.scalar_type() == torch::kHalf && c.is_contiguous(),
                "a and c must have two dimensions, c must be contiguous float16");
    const int64_t m = c.size(0), n = c.size(1), half_k = a.size(1);
    struct custom_kernel_args args = {};
    args.struct_bytes = sizeof args;
    args.device = a.get_device();
    args.scale_layout = CUSTOM_KERNEL_SCALES_ROWS;
    args.m = m;
    args.n = n;
    args.k = 2 * half_k;
    args.l = 1;
    args.a = address_of(a, "a", m, half_k);
    args.b1 = address_of(b1, "b1", n, half_k);
    args.b2 = address_of(b2, "b2", n, half_k);
    args.sfa = address_of(sfa, "sfa", m, half_k / 8);
    args.sfb1 = address_of(sfb1, "sfb1", n, half_k / 8);
    args.sfb2 = address_of(sfb2, "sfb2", n, half_k / 8);
    args.c = c.data_ptr();
    args.queue = at::cuda::getCurrentCUDAStream(a.get_device()).stream();
    const int32_t status = custom_kernel(&args);
    TORCH_CHECK(status == CUSTOM_KERNEL_OK, custom_kernel_status_name(status), ": ", custom_kernel_message());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("run", &run, "silu(a b1^T) * (a b2^T) of NVFP4 operands");
}
