"""NVFP4 matrix products for PyTorch, on CUDA GPUs and CPUs.

    dual_gemm       silu(a @ b1^T) * (a @ b2^T), as an operator of PyTorch
    gated_gemm      the same with scales, bf16 or NVFP4 output, other activations, weights in one tensor
    plain_gemm      a @ b^T with scales, in fp16, bf16 or NVFP4
    grouped_gated_gemm, grouped_plain_gemm  the same for a mixture of experts, whose counts are on the device
    route_logits, route_ids, combine_rows   what comes before and after these: the order of rows, the weighted sum
    Linear, GatedMLP, MoE   a model's layers as modules, which load NVFP4 checkpoints
    quantize_linear, QuantizedLinear    what the modules are made of where there is no checkpoint
    quantize_nvfp4, rms_norm_quantize_nvfp4, silu_mul_quantize_nvfp4    activations to NVFP4, alone or fused
    swizzle_scales, linear_scales, swizzle_expert_scales    convert scale factors between the two layouts
    custom_kernel, custom_kernel_grouped    the leaderboards' dual GEMM and grouped GEMM, on their own data
    custom_kernel_product                   the leaderboards' GEMM and matrix-vector product, on their own data
    backends        what the library can run here

The package is `nvfp4_gemm` when installed, and `submission` in a checkout.
"""

from . import group_submission, operators, product_submission, shim, submission
from .experts_operator import grouped_gated_gemm, grouped_plain_gemm, swizzle_expert_scales
from .extended_operator import gated_gemm, plain_gemm
from .models.gated_mlp import GatedMLP
from .models.linear import Linear
from .models.moe import MoE
from .models.weights import QuantizedLinear, quantize_linear
from .product_submission import custom_kernel as custom_kernel_product
from .quantize_operator import quantize_nvfp4, rms_norm_quantize_nvfp4, silu_mul_quantize_nvfp4
from .routing_operator import combine_rows, route_ids, route_logits
from .scale_layouts import linear_scales, swizzle_scales
from .submission import Backend, backends, custom_kernel
from .torch_operator import custom_kernel_grouped, dual_gemm

# help() and tracebacks show the name that the package gives it.
custom_kernel_product.__module__ = __name__
custom_kernel_product.__name__ = custom_kernel_product.__qualname__ = "custom_kernel_product"

__all__ = [
    "Backend",
    "GatedMLP",
    "Linear",
    "MoE",
    "QuantizedLinear",
    "backends",
    "combine_rows",
    "custom_kernel",
    "custom_kernel_grouped",
    "custom_kernel_product",
    "dual_gemm",
    "gated_gemm",
    "grouped_gated_gemm",
    "grouped_plain_gemm",
    "linear_scales",
    "plain_gemm",
    "quantize_linear",
    "quantize_nvfp4",
    "rms_norm_quantize_nvfp4",
    "route_ids",
    "route_logits",
    "silu_mul_quantize_nvfp4",
    "swizzle_expert_scales",
    "swizzle_scales",
]

_version = shim.library.custom_kernel_version()
__version__ = f"{_version >> 16}.{_version >> 8 & 0xFF}.{_version & 0xFF}"

for _shim in (submission, group_submission, product_submission):
    _shim._have_memory, _shim._current_queue = operators.have_memory, operators.current_queue


def __dir__() -> list[str]:
    """The public names, without the package's modules."""
    return sorted([*__all__, "__doc__", "__file__", "__name__", "__path__", "__version__"])
