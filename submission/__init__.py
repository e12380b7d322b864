"""NVFP4 matrix products for PyTorch, on CUDA GPUs and CPUs.

    dual_gemm       silu(a @ b1^T) * (a @ b2^T), as an operator of PyTorch
    gated_gemm      the same with scales, bf16 or NVFP4 output, other activations, weights in one tensor
    plain_gemm      a @ b^T with scales, in fp16, bf16 or NVFP4
    custom_kernel, custom_kernel_grouped    the leaderboards' dual GEMM and grouped GEMM, on their own data
    backends        what the library can run here

The package is `nvfp4_gemm` when installed, and `submission` in a checkout.
"""

from . import group_submission, memory_check, submission
from .extended_operator import gated_gemm, plain_gemm
from .group_submission import custom_kernel as custom_kernel_grouped
from .submission import Backend, backends, custom_kernel
from .torch_operator import dual_gemm

__all__ = ["Backend", "backends", "custom_kernel", "custom_kernel_grouped", "dual_gemm", "gated_gemm", "plain_gemm"]

submission._is_plain = group_submission._is_plain = memory_check.is_plain
