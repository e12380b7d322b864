"""Checks of tensors in Python, for fake tensors, whose sizes may be symbolic, and where operators run in Python.

Real tensors are checked in C (submission/torch/), in the same order and with the same words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from .operators import NAMESPACE, NVFP4, STACKED, WEIGHTS, Options
from .scale_layouts import LINEAR, SWIZZLED, Factors, resolve

GROUP = 16  # elements of K that share a scale factor
K_MULTIPLE = 16
ALIGNMENT_BYTES = 16
MOST_DIMENSIONS = 8
CODE_DTYPES = (torch.float4_e2m1fn_x2, torch.uint8)
SCALE_DTYPES = (torch.float8_e4m3fn, torch.uint8)
# Permutations to the order of memory: rows after rows, blocks of scale factors; with a last dimension L, both in turn.
_FLAT, _BLOCKS = (0, 1), (2, 4, 0, 1, 3)
_MEMORY_ORDER = {1: (0,), 2: _FLAT, 3: (2, *_FLAT), 5: _BLOCKS, 6: (5, *_BLOCKS)}


def require(condition: object, text: Callable[[], str]) -> None:
    """Raises RuntimeError with the text unless the condition, which may be symbolic, holds."""
    if condition is not True:
        torch._check(condition, lambda: f"{NAMESPACE}: {text()}")


def check_tensor(
    name: str,
    tensor: torch.Tensor,
    dtypes: tuple[torch.dtype, ...],
    shape: tuple[int, ...],
    device: torch.device,
    order: tuple[int, ...] = (),
    *,
    like: str = "a",
) -> None:
    """Requires one of the dtypes, this shape and device, and memory without gaps; the tensor may be a fake one.

    order: the dimensions from the outermost in memory to the innermost.  By default those of one problem; three and six
    dimensions end with L, which is the outermost.  like: the argument whose device it is.
    """
    order = order or _MEMORY_ORDER[len(shape)]
    require(
        tensor.dtype in dtypes, lambda: f"{name} has dtype {tensor.dtype}; expected {' or '.join(map(str, dtypes))}"
    )
    require(
        tensor.dim() == len(shape),
        lambda: f"{name} has shape {tuple(tensor.shape)}; expected {tuple(shape)}",
    )
    for found, want in zip(tensor.shape, shape, strict=True):
        require(found == want, lambda: f"{name} has shape {tuple(tensor.shape)}; expected {tuple(shape)}")
    if not tensor.permute(order).is_contiguous():
        strides, distance = [0] * len(shape), 1
        for place in reversed(order):
            strides[place] = distance
            distance *= max(1, shape[place])
        require(False, lambda: f"{name} has strides {tensor.stride()}; expected {tuple(strides)}")
    require(tensor.device == device, lambda: f"{name} is on {tensor.device}; expected {device}, as {like}")


def check_number(
    name: str,
    number: torch.Tensor | None,
    count: int,
    device: torch.device,
    *,
    dtype: torch.dtype = torch.float32,
    like: str = "a",
) -> None:
    """Requires `count` numbers without gaps, if any are given."""
    if number is None:
        return
    require(number.dtype == dtype, lambda: f"{name} has dtype {number.dtype}; expected {dtype}")
    require(number.numel() == count, lambda: f"{name} has {number.numel()} numbers; expected {count}")
    require(number.is_contiguous(), lambda: f"{name} has strides {number.stride()}; expected numbers without gaps")
    require(number.device == device, lambda: f"{name} is on {number.device}; expected {device}, as {like}")


def check_given(name: str, tensor: torch.Tensor | None, alone: bool) -> None:
    """Requires b2 or sfb2 to be there, or, if b1 holds all weights, not to be there."""
    wanted = "only where gate and up lie apart" if alone else "beside b1"
    require((tensor is None) == alone, lambda: f"{name} is {'given' if alone else 'None'}; expected it {wanted}")


class Rows(NamedTuple):
    """Activations of any number of dimensions as a matrix: codes (M, K/2), their scale factors, and what M was."""

    a: torch.Tensor
    sfa: torch.Tensor | None
    leading: tuple[int, ...]

    def restored(self, tensor: torch.Tensor) -> torch.Tensor:
        """A result (M, ...) with the dimensions that M was."""
        return tensor if len(self.leading) == 1 else tensor.view(*self.leading, *tensor.shape[1:])


def by_rows(a: torch.Tensor, sfa: torch.Tensor | None, sfa_layout: str | None) -> Rows:
    """Flattens the leading dimensions of a, and those of sfa if it has the same."""
    require(2 <= a.dim() < MOST_DIMENSIONS, lambda: f"a has shape {tuple(a.shape)}; expected (M, K/2)")
    leading = tuple(a.shape[:-1])
    if len(leading) == 1:
        return Rows(a, sfa, leading)
    require(a.is_contiguous(), lambda: f"a has strides {a.stride()}; expected a tensor without gaps")
    if (
        sfa is not None
        and sfa.dim() == a.dim()
        and sfa.shape == (*leading, a.shape[-1] * 2 // GROUP)
        and sfa_layout in (None, LINEAR)
    ):
        require(sfa.is_contiguous(), lambda: f"sfa has strides {sfa.stride()}; expected a tensor without gaps")
        sfa = sfa.flatten(0, -2)
    return Rows(a.flatten(0, -2), sfa, leading)


def check_k(a: torch.Tensor) -> None:
    """Requires K, twice the second size of a, to be a multiple of 16."""
    require(
        a.shape[1] * 2 % K_MULTIPLE == 0, lambda: f"a has K = {2 * a.shape[1]}; expected a multiple of {K_MULTIPLE}"
    )


def _check_multiple(n: int, multiple: int, reason: str) -> None:
    require(n % multiple == 0, lambda: f"n is {n}; expected a multiple of {multiple}, for {reason}")


def check_sizes(n: int, k: int, options: Options, blocked: bool) -> None:
    """The library's rules for N and K.  blocked: the weights' scale factors are "swizzled128x4"."""
    require(n >= 1, lambda: f"n is {n}; expected at least 1")
    require(k >= 1, lambda: f"k is {k}; expected at least 1")
    weights = WEIGHTS[options.weights]
    if weights > WEIGHTS[STACKED]:
        _check_multiple(n, weights, "interleaved weights")
    if weights == WEIGHTS[STACKED] and blocked:
        _check_multiple(n, 128, "stacked weights with blocked scale factors")
    if options.out_dtype == NVFP4:
        _check_multiple(n, 64, "NVFP4 output, which is a product's A with K = n")


def resolved(factors: list[Factors], device: torch.device) -> list[tuple[Factors, str]]:
    """Checks scale factors; returns each with its layout."""
    found = []
    for one in factors:
        layout, shape = resolve(require, one)
        check_tensor(one.name, one.tensor, SCALE_DTYPES, shape, device)
        found.append((one, layout))
    return found


def aligned(scales: list[torch.Tensor]) -> list[torch.Tensor]:
    """Copies those plain scale factors that lie at an odd row of a tensor with short rows."""
    return [scale.clone() if scale.dim() <= 3 and scale.data_ptr() % ALIGNMENT_BYTES else scale for scale in scales]


def layout_of_batches(sfa: torch.Tensor) -> tuple[str, bool]:
    """The layout of scale factors with a last dimension L, which their number of dimensions says; if it is blocked."""
    blocked = sfa.dim() == len(_MEMORY_ORDER[6])
    return (SWIZZLED if blocked else LINEAR), blocked
