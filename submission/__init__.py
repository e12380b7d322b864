"""The NVFP4 dual GEMM and grouped GEMM for PyTorch.

Installed, this package is `nvfp4_gemm`; in a checkout it is `submission`.
"""

from . import group_submission, memory_check, submission
from .extended_operator import gated_gemm, plain_gemm
from .group_submission import custom_kernel as custom_kernel_grouped
from .submission import Backend, backends, custom_kernel
from .torch_operator import dual_gemm

__all__ = ["Backend", "backends", "custom_kernel", "custom_kernel_grouped", "dual_gemm", "gated_gemm", "plain_gemm"]

submission._is_plain = group_submission._is_plain = memory_check.is_plain
