"""What the package asks of tensors in every call, beyond the metadata that a leaderboard's could get wrong.

Whoever writes programs has tensors that seem right and are not: fake ones, views with the negative bit, and parameters
whose storage was given back.  The questions cost more than the rest of the shim's, so a bundle does not ask them.
"""

from __future__ import annotations

import torch

_ORDINARY = torch.Tensor.__torch_dispatch__


def is_plain(tensors: tuple[torch.Tensor, ...], sizes: tuple[int, ...]) -> bool:
    """Whether each tensor's storage holds its so many bytes, as they are to be read; if not, _check tells which."""
    return all(
        type(tensor).__torch_dispatch__ is _ORDINARY
        and not tensor.is_neg()
        and tensor.untyped_storage().nbytes() - tensor.storage_offset() * tensor.itemsize >= size
        for tensor, size in zip(tensors, sizes, strict=True)
    )
