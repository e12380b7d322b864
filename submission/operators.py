"""Registration of the operators torch.ops.nvfp4_gemm.*, and what their Python parts share.

The library defines them itself through torch's stable C interface (submission/torch/), so that a call enters no Python
below torch.ops.  A torch without that interface (before 2.11) gets the same operators with implementations in Python,
which cost a call some 50 to 150 us of the host's time; the log of this module says so.

Python always has the fake implementations, which torch.compile, torch.export and FakeTensor use.

A call converts one integer faster than words, so the products take their options as the bits of one: 0 to 3 and 4 to 7
the layouts of sfa and of b's scale factors, 0 for one that is not stated; 8 to 11 the output; 12 to 19 the order of
weights; PLAIN and ENDS for the products of experts (submission/torch/operands.h).
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import torch

from . import submission
from .scale_layouts import SCALE_LAYOUTS, ScaleLayout, layout_pair

NAMESPACE = "nvfp4_gemm"

# torch's own generated code calls this; a torch without CUDA lacks it.
_raw_queue = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def current_queue(device: int) -> int:
    """The handle of the current queue of CUDA device `device`; 0 for the CPU, whose index is -1."""
    return _raw_queue(device) if device >= 0 and _raw_queue is not None else 0


def message() -> str:
    """Why the library refused this thread's last call."""
    return submission._library.custom_kernel_message().decode(errors="replace")


def raise_status(status: int) -> None:
    """Raises the exception for a call that the library refused, unless status is 0."""
    if status != 0:
        wrong = status in (submission._STATUS_NULL_POINTER, submission._STATUS_ARGUMENT)
        raise (ValueError if wrong else RuntimeError)(message())


def _schemas() -> dict[str, tuple[int, str]]:
    """The library's operators by name, NAME or NAME.OVERLOAD: number and schema."""
    try:
        schema = submission._library.custom_kernel_torch_schema
    except AttributeError:
        raise ImportError(f"{submission._library._name} is older than this package; expected ABI version 1.5") from None
    schema.restype = ctypes.c_char_p
    found = {}
    while (text := schema(len(found))) is not None:
        found[text.decode().partition("(")[0]] = (len(found), text.decode())
    return found


def _is_defined(name: str) -> bool:
    packet, _, overload = name.partition(".")
    found = getattr(torch.ops.nvfp4_gemm, packet, None)
    return found is not None and (overload or "default") in found.overloads()


_known = _schemas()
# Those of another copy of this package, before this one registers any: torch.ops remembers what it was asked for.
_defined = {name for name in _known if _is_defined(name)}
_of_c: set[str] = set()
_library = torch.library.Library(NAMESPACE, "FRAGMENT")


def register(name: str, fake: Callable[..., object], in_python: Callable[..., object] | None = None) -> bool:
    """Defines operator NAME or NAME.OVERLOAD of the library's table for CPU and CUDA tensors.

    fake: its fake implementation.  in_python: its implementation where torch lacks the stable C interface.

    Returns False if another copy of this package in this process has defined it.
    """
    if name in _defined:
        return False
    _defined.add(name)
    number, schema = _known[name]
    if submission._library.custom_kernel_torch_register(number) == 0:
        _of_c.add(name)
    else:
        logging.getLogger(__name__).warning("%s: the operator %s runs in Python", message(), name)
        _library.define(schema)
        for key in ("CPU", "CUDA"):
            _library.impl(name, in_python or _lacking(name), key)
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_library)
    return True


def register_in_python(schema: str, implementation: Callable[..., object], fake: Callable[..., object]) -> None:
    """Defines an operator that the library's table does not have, unless another copy of this package has."""
    name = schema.partition("(")[0]
    if _is_defined(name):
        return
    _library.define(schema)
    for key in ("CPU", "CUDA"):
        _library.impl(name, implementation, key)
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_library)


def _refuse_gradient(_: torch.Tensor) -> torch.Tensor:
    raise RuntimeError(
        f"{NAMESPACE}: a backward pass asks for the gradient of activations or scales, and these operators have none; "
        "expected tensors that need no gradient, as x.detach() and torch.no_grad() give"
    )


register_in_python("no_gradient(Tensor gradient) -> Tensor", _refuse_gradient, torch.empty_like)


class _WithoutGradient(torch.autograd.Function):
    """The same tensor.  torch alone would warn in a backward pass and go on without the gradient."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(*_: object) -> None:
        pass

    @staticmethod
    def backward(_: object, gradient: torch.Tensor) -> torch.Tensor:
        return torch.ops.nvfp4_gemm.no_gradient(gradient)


def without_gradient(name: str, x: torch.Tensor) -> torch.Tensor:
    """For an argument that requires a gradient; refuses one that is no tensor.

    Called where getattr(x, "requires_grad", True), which costs other calls least.
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is {x!r:.40}; expected a torch.Tensor")
    return _WithoutGradient.apply(x)


def in_c() -> bool:
    """True if this copy of the package has registered operators, and torch calls each of them in C."""
    return _of_c == _defined


def _lacking(name: str) -> Callable[..., object]:
    def refuse(*_: object, **__: object) -> object:
        raise RuntimeError(f"{NAMESPACE}::{name} needs torch's stable C interface; expected torch 2.11 or later")

    return refuse


FP16, BF16, NVFP4 = OUTPUTS = ("float16", "bfloat16", "nvfp4")  # in the order of enum custom_kernel_output
DTYPES = {FP16: torch.float16, BF16: torch.bfloat16, NVFP4: torch.uint8}
APART = "apart"
WEIGHTS = {APART: 0, "stacked": 1, "interleaved8": 8, "interleaved32": 32, "interleaved64": 64}
PLAIN, ENDS = 1 << 20, 1 << 21
_LAYOUTS = (None, *SCALE_LAYOUTS)
_B_SHIFT, _OUTPUT_SHIFT, _WEIGHTS_SHIFT = 4, 8, 12
_LAYOUT_BITS, _OUTPUT_BITS, _WEIGHTS_BITS = 15, 15, 255
TO_NVFP4 = OUTPUTS.index(NVFP4) << _OUTPUT_SHIFT  # among a call's options if and only if its output is NVFP4


class Options(NamedTuple):
    """What the integer says."""

    sfa_layout: str | None
    sfb_layout: str | None
    out_dtype: str
    weights: str
    plain: bool
    ends: bool


def _of(of_a: str | None, of_b: str | None, out_dtype: str, weights: str) -> int:
    layouts = _LAYOUTS.index(of_a) | _LAYOUTS.index(of_b) << _B_SHIFT
    return layouts | OUTPUTS.index(out_dtype) << _OUTPUT_SHIFT | WEIGHTS[weights] << _WEIGHTS_SHIFT


def _all_options() -> dict[tuple[ScaleLayout, str | torch.dtype, str], int]:
    pairs = {(of_a, of_b): (of_a, of_b) for of_a, of_b in product(_LAYOUTS, _LAYOUTS)}
    layouts = pairs | {one: (one, one) for one in _LAYOUTS}
    outputs = {name: name for name in OUTPUTS} | {DTYPES[name]: name for name in (FP16, BF16)}
    return {
        (given, output, weights): _of(*pair, name, weights)
        for (given, pair), (output, name), weights in product(layouts.items(), outputs.items(), WEIGHTS)
    }


# The integer by scale_layout, out_dtype and weights, as a caller gives them.
OPTIONS = _all_options()


def other_options(scale_layout: ScaleLayout, out_dtype: str | torch.dtype = FP16, weights: str = APART) -> int:
    """The integer for arguments that OPTIONS lacks, such as a list of layouts.  Raises ValueError for wrong ones."""
    pair = layout_pair(scale_layout)
    if (None, out_dtype, APART) not in OPTIONS:
        shown, wanted = (
            (out_dtype, ", or the first two's dtypes") if isinstance(out_dtype, torch.dtype) else (repr(out_dtype), "")
        )
        raise ValueError(f"out_dtype is {shown}; expected one of {', '.join(OUTPUTS)}{wanted}")
    if weights not in WEIGHTS:
        raise ValueError(f"weights is {weights!r}; expected one of {', '.join(WEIGHTS)}")
    return OPTIONS[pair, out_dtype, weights]


def read_options(options: int) -> Options:
    """The inverse, for the operators' Python parts."""
    weights = options >> _WEIGHTS_SHIFT & _WEIGHTS_BITS
    return Options(
        _LAYOUTS[options & _LAYOUT_BITS],
        _LAYOUTS[options >> _B_SHIFT & _LAYOUT_BITS],
        OUTPUTS[options >> _OUTPUT_SHIFT & _OUTPUT_BITS],
        next(name for name, value in WEIGHTS.items() if value == weights),
        bool(options & PLAIN),
        bool(options & ENDS),
    )
