"""The arguments of custom_kernel_grouped() (custom_kernel.h), for the shims of the grouped GEMM and of the product.

struct custom_kernel_grouped_args: struct_bytes, backend, device, scale_layout; groups, group_bytes, reserved, group,
queue.  After it, in the same buffer, each struct custom_kernel_group: m, n, k, a, b, sfa, sfb, c.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import lru_cache

from .shim import library

_ARGS, _GROUP = "IiiiqIIQQ", "qqq5Q"
ARGS_BYTES, GROUP_BYTES = struct.calcsize("@" + _ARGS), struct.calcsize("@" + _GROUP)
MOST_GROUPS = 65536  # CUSTOM_KERNEL_MAX_GROUPS

call_grouped = library.custom_kernel_grouped
call_grouped.argtypes = (ctypes.c_void_p,)
call_grouped.restype = ctypes.c_int32


@lru_cache(maxsize=256)
def packing(groups: int) -> tuple[Callable[..., None], type[ctypes.Array]]:
    """The function that packs a call's structs, and the type of its buffer.  Each call makes a buffer of its own."""
    return struct.Struct("@" + _ARGS + groups * _GROUP).pack_into, ctypes.c_char * (ARGS_BYTES + groups * GROUP_BYTES)
