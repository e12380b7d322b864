"""A check of every tensor's memory, for calls through the package.

Some tensors have the right metadata and the wrong memory: fake tensors, views with the negative bit, and parameters
whose storage was shrunk.  Checking all seven tensors costs more than half as much as the rest of the shim, so a bundle
checks only `c`, which is written, and reads such an input's memory as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_Tensor = torch.Tensor
_ORDINARY = torch.Tensor.__torch_dispatch__


def is_plain(tensors: Sequence[torch.Tensor], sizes: Sequence[int]) -> bool:
    """True if each tensor's values are in memory; `sizes` are bytes.  If not, the shim's _check() names the tensor."""
    for tensor, size in zip(tensors, sizes, strict=True):
        kind = type(tensor)
        if kind is not _Tensor and kind.__torch_dispatch__ is not _ORDINARY:
            return False
        if tensor.is_neg():
            return False
        offset = tensor.storage_offset()
        if tensor.untyped_storage().nbytes() < (size + offset * tensor.itemsize if offset else size):
            return False
    return True
