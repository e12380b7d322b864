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
import re
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import torch
from torch.autograd import forward_ad

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


_LEAST = 1e-45  # the least float32 above 0


def address(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def number_like(name: str, value: torch.Tensor | float | None, like: torch.Tensor) -> torch.Tensor | None:
    """A Python number as a float32 tensor on the device of `like`."""
    if isinstance(value, (int, float)) and isinstance(like, torch.Tensor):
        try:
            return torch.full((), value, dtype=torch.float32, device=like.device)
        except (OverflowError, RuntimeError) as error:
            raise ValueError(f"{name} is {value}; expected a number that float32 holds") from error
    return value


def library_alpha(alpha: float) -> float:
    """Alpha for the library, where 0 stands for 1; so small a number gives the same sigmoid as 0."""
    return _LEAST if abs(alpha) < _LEAST else alpha


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


def _of_tensors(schema: str, implementation: Callable[..., object]) -> Callable[..., object]:
    """The implementation, which refuses None for a tensor that is not optional; torch passes it on."""
    parameters = schema.partition("(")[2].partition(") -> ")[0].split(", ")
    needed = {place: text.split()[1] for place, text in enumerate(parameters) if re.match(r"Tensor(\(a!\))? ", text)}

    def checked(*given: object, **named: object) -> object:
        for place, name in needed.items():
            if (given[place] if place < len(given) else named.get(name)) is None:
                raise RuntimeError(f"{NAMESPACE}: {name} is None; expected a tensor")
        return implementation(*given, **named)

    return checked


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
            _library.impl(name, _of_tensors(schema, in_python) if in_python else _lacking(name), key)
    torch.library.register_fake(f"{NAMESPACE}::{name}", _of_tensors(schema, fake), lib=_library)
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


# The operators have no derivatives.  torch would take them for constants: a backward pass would go on without the
# gradients after a warning, and forward-mode differentiation would give tangents of zero without a word.  So a function
# that has called an operator asks `found.requires_grad or forward_ad._current_level >= 0`, which costs a call least,
# and if so returns without_derivative(found, ...).


def _refuse_gradient(argument: torch.Tensor, gradient: torch.Tensor, name: str) -> torch.Tensor:
    raise RuntimeError(
        f"{NAMESPACE}: a backward pass asks for the gradient of {name}, and these operators have none; expected "
        "tensors that need no gradient, as x.detach() and torch.no_grad() give"
    )


# An operator, so that the backward pass of a compiled graph raises the error when it runs.  It takes the gradient of
# the result because torch would compute what needs none in the forward pass.
register_in_python(
    "no_gradient(Tensor argument, Tensor gradient, str name) -> Tensor",
    _refuse_gradient,
    lambda argument, gradient, name: torch.empty_like(argument),
)


class _WithoutGradient(torch.autograd.Function):
    """Results, whose gradients are refused, of arguments that require one."""

    @staticmethod
    def forward(names: list[str], count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(one.view_as(one) for one in tensors[:count])

    @staticmethod
    def setup_context(ctx: torch.autograd.function.FunctionCtx, inputs: tuple, _: object) -> None:
        names, count, *tensors = inputs
        ctx.names, ctx.count = names, count
        ctx.save_for_backward(*tensors[count:])

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        refused = (
            torch.ops.nvfp4_gemm.no_gradient(argument, gradients[0], name)
            for argument, name in zip(ctx.saved_tensors, ctx.names, strict=True)
        )
        return None, None, *(None,) * ctx.count, *refused


def _tensors_of(arguments: dict[str, object]) -> dict[str, torch.Tensor]:
    """Those that are tensors.  Raises RuntimeError if one has a tangent."""
    tensors = {name: one for name, one in arguments.items() if isinstance(one, torch.Tensor)}
    for name, one in tensors.items():
        if forward_ad._current_level >= 0 and forward_ad.unpack_dual(one).tangent is not None:
            raise RuntimeError(
                f"{NAMESPACE}: {name} has a tangent of forward-mode differentiation, and these operators have no "
                "derivatives; expected tensors without one"
            )
    return tensors


def without_derivative(found: torch.Tensor | tuple, **arguments: object) -> torch.Tensor | tuple:
    """What an operator returned for these arguments, with a gradient function that refuses a backward pass.

    Raises RuntimeError if an argument has a tangent.
    """
    given = {name: one for name, one in _tensors_of(arguments).items() if one.requires_grad}
    if not given:
        return found
    results = [found] if isinstance(found, torch.Tensor) else list(found)
    places = [i for i, one in enumerate(results) if one.dtype.is_floating_point]
    refusing = _WithoutGradient.apply([*given], len(places), *(results[i].detach() for i in places), *given.values())
    for i, one in zip(places, refusing, strict=True):
        results[i] = one
    return results[0] if isinstance(found, torch.Tensor) else tuple(results)


def refuse_derivative(**arguments: object) -> None:
    """For an operator that writes into an argument: RuntimeError if one has a tangent or requires a gradient."""
    for name, one in _tensors_of(arguments).items():
        if one.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                f"{NAMESPACE}: {name} requires a gradient, and out is given; expected tensors that need no gradient, "
                "as x.detach() and torch.no_grad() give"
            )


def in_c() -> bool:
    """True if this copy of the package has registered operators, and torch calls each of them in C."""
    return _of_c == _defined


def _lacking(name: str) -> Callable[..., object]:
    def refuse(*_: object, **__: object) -> object:
        raise RuntimeError(f"{NAMESPACE}::{name} needs torch's stable C interface; expected torch 2.11 or later")

    return refuse


FP16, BF16, NVFP4 = OUTPUTS = ("float16", "bfloat16", "nvfp4")  # in the order of enum custom_kernel_output
DTYPES = {FP16: torch.float16, BF16: torch.bfloat16, NVFP4: torch.uint8}
APART, STACKED = "apart", "stacked"
WEIGHTS = {APART: 0, STACKED: 1, "interleaved8": 8, "interleaved32": 32, "interleaved64": 64}
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
