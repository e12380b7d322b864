"""What the package asks of tensors in every call, beyond the metadata that a leaderboard's could get wrong.

Whoever writes programs has tensors that seem right and are not: fake ones, views with the negative bit, and parameters
whose storage was given back.  Asked of all seven they cost more than half of the rest of the shim, so a bundle asks
only `c`, which is written; of inputs that are made so it reads what lies in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_Tensor = torch.Tensor
_ORDINARY = torch.Tensor.__torch_dispatch__


def is_plain(tensors: Sequence[torch.Tensor], sizes: Sequence[int]) -> bool:
    """Whether each tensor's storage holds its so many bytes, as they are to be read; if not, _check tells which."""
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
