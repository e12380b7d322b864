"""The NVFP4 dual GEMM for PyTorch.  Installed, this package is `nvfp4_gemm`; in a checkout it is `submission`."""

from . import memory_check, submission
from .submission import Backend, backends, custom_kernel
from .torch_operator import dual_gemm

__all__ = ["Backend", "backends", "custom_kernel", "dual_gemm"]

submission._is_plain = memory_check.is_plain
