"""What the layers of a model share: buffers that keep their formats, and rows of an input."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import torch

from ..operators import forward_ad, without_derivative
from .weights import K_MULTIPLE

_DTYPES = {torch.float32: torch.bfloat16, torch.float16: torch.float16, torch.bfloat16: torch.bfloat16}
_ALIGNMENT_BYTES = 16  # of the library's tensors


class Errors(NamedTuple):
    """Relative errors (2-norms) of a layer's output."""

    format: float  # of quantizing activations: NVFP4 against unquantized ones, both in float64 with the same weights
    kernel: float  # of the kernels, the larger of the two products: against float64 of the same codes


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The 2-norm of the difference over that of `wanted`."""
    return ((found.double() - wanted).norm() / wanted.norm()).item()


def _align_buffers(layer: torch.nn.Module, _: object) -> None:
    """Copies what load_state_dict(assign=True) took from a file's memory: the library needs 16 bytes."""
    for name, buffer in layer.named_buffers(recurse=False):
        if type(buffer) is torch.Tensor and buffer.data_ptr() % _ALIGNMENT_BYTES:
            setattr(layer, name, buffer.clone())


class Layer(torch.nn.Module):
    """A module whose buffers keep their formats, and its checks of x."""

    def __init__(self) -> None:
        super().__init__()
        self.register_load_state_dict_post_hook(_align_buffers)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """Moves buffers and does not cast them: codes, scale factors and scales have formats of their own."""

        def move(tensor: torch.Tensor) -> torch.Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        return super()._apply(move, recurse)

    @staticmethod
    def _rows(x: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.dtype]:
        """x as rows of consecutive numbers, padded to a multiple of 64, and the products' dtype."""
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"x is {x!r:.40}; expected a torch.Tensor")
        if x.dtype not in _DTYPES:
            raise TypeError(f"x has dtype {x.dtype}; expected {' or '.join(map(str, _DTYPES))}")
        if x.dim() == 0 or x.shape[-1] != width:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected (..., {width})")
        rows = x.detach().reshape(-1, width)
        if width % K_MULTIPLE:
            rows = torch.nn.functional.pad(rows, (0, -width % K_MULTIPLE))
        apart = rows.stride(1) == 1 and rows.stride(0) >= width  # not so if x is expanded
        return rows if apart else rows.contiguous(), _DTYPES[x.dtype]

    @staticmethod
    def _with_shape_of(x: torch.Tensor, y: torch.Tensor, **others: torch.Tensor | None) -> torch.Tensor:
        """A result's rows with x's shape, but for their width.  others: what else has no derivative, by name."""
        y = y.view(*x.shape[:-1], y.shape[-1])
        wanted = x.requires_grad or any(one is not None and one.requires_grad for one in others.values())
        return without_derivative(y, x=x, **others) if wanted or forward_ad._current_level >= 0 else y
