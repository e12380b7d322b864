"""Registration of the operators torch.ops.nvfp4_gemm.*, and what their Python parts share.

The library defines them itself through torch's stable C interface (submission/torch/), so that a call enters no Python
below torch.ops.

Python has the fake implementations, which torch.compile, torch.export and FakeTensor use.  Each has the library check
the call, as the call itself will be, from a description of its tensors; symbolic sizes count as the example's that they
stand for, so no check becomes a guard.

A call converts one integer faster than words, so the products take their options as the bits of one: 0 to 3 and 4 to 7
the layouts of sfa and of b's scale factors, 0 for one that is not stated; 8 to 11 the output; 12 to 19 the order of
weights; PLAIN and ENDS for the products of experts; 22 to 25 the activation (submission/torch/operands.h).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import torch
from torch.autograd import forward_ad

from . import shim
from .scale_layouts import SCALE_LAYOUTS, ScaleLayout, layout_pair, new_blocked_scales

NAMESPACE = "nvfp4_gemm"

# torch's own generated code calls this; a torch without CUDA lacks it.
_raw_queue = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def current_queue(device: int) -> int:
    """The handle of the current queue of CUDA device `device`; 0 for the CPU, whose index is -1."""
    return _raw_queue(device) if device >= 0 and _raw_queue is not None else 0


FLOAT32 = torch.float32

# Some tensors have the right metadata and the wrong memory: fake tensors, views with the negative bit, and parameters
# whose storage was shrunk.  To check all seven costs more than half as much as the rest of the shim, so a bundle checks
# only `c`, which is written, and reads such an input's memory as it is.
_Tensor = torch.Tensor
_ORDINARY = torch.Tensor.__torch_dispatch__


def have_memory(tensors: Sequence[torch.Tensor], sizes: Sequence[int]) -> bool:
    """True if each tensor's values are in memory; `sizes` are bytes.  If not, shim.examine() names the tensor."""
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


def number_like(name: str, value: torch.Tensor | float | None, like: torch.Tensor) -> torch.Tensor | None:
    """A number, or numbers of another floating-point dtype, as a float32 tensor, on the device of `like`."""
    if value is None or not isinstance(like, torch.Tensor):
        return value
    if isinstance(value, torch.Tensor):
        return value.float() if value.is_floating_point() else value
    if not hasattr(value, "__float__"):
        raise TypeError(f"{name} is a {type(value).__name__}; expected a number or a torch.Tensor")
    try:
        return torch.full((), float(value), dtype=torch.float32, device=like.device)
    except (OverflowError, RuntimeError, TypeError) as error:
        raise ValueError(f"{name} is {value}; expected a number that float32 holds") from error


class _Argument(ctypes.Structure):
    """struct described_argument of torch/torch_register.h."""

    _fields_ = (("tensor", shim.Description), ("integer", ctypes.c_int64), ("number", ctypes.c_double))


_schema_at = shim.library.custom_kernel_torch_schema
_schema_at.restype = ctypes.c_char_p


def _numbers_of_operators() -> dict[str, int]:
    """The library's operators by name, NAME or NAME.OVERLOAD."""
    found: dict[str, int] = {}
    while (schema := _schema_at(len(found))) is not None:
        found[schema.decode().partition("(")[0]] = len(found)
    return found


def _operator(name: str) -> torch._ops.OpOverload | None:
    packet, _, overload = name.partition(".")
    found = getattr(torch.ops.nvfp4_gemm, packet, None)
    return getattr(found, overload or "default", None)


_known = _numbers_of_operators()
# Those of another copy of this package, before this one registers any: torch.ops remembers what it was asked for.
_defined = {name for name in _known if _operator(name) is not None}
_library = torch.library.Library(NAMESPACE, "FRAGMENT")


def _examples(values: Sequence[object]) -> list[int | float] | None:
    """The numbers, a symbolic one as the example's; None if there is no example of one."""
    found = [value.node.hint if hasattr(value, "node") else value for value in values]
    return None if None in found else found


def _describe(value: object) -> _Argument | None:
    """An argument as C examines it; None if its numbers are not known."""
    described = _Argument()
    if isinstance(value, torch.Tensor):
        sizes, strides = _examples(value.shape), _examples(value.stride())
        if sizes is None or strides is None:
            return None
        places = {"cpu": -1, "cuda": value.device.index or 0}
        device = places.get(value.device.type, shim.DEVICE_ELSEWHERE)
        described.tensor = shim.describe("", value.dtype, sizes, strides, device, 0)
    elif value is not None:
        number = _examples([value])
        if number is None:
            return None
        setattr(described, "number" if isinstance(number[0], float) else "integer", number[0])
    return described


def _check(name: str, values: Sequence[object]) -> None:
    """Raises RuntimeError if the library would refuse a call with tensors as these.

    A call whose sizes nobody knows yet is checked when it runs.
    """
    described = [_describe(value) for value in values]
    if None not in described:
        arguments = (_Argument * len(described))(*described)
        if shim.library.custom_kernel_torch_check(_known[name], arguments) != 0:
            raise RuntimeError(f"{NAMESPACE}: {shim.message()}")


def register(name: str, results: Callable[..., object]) -> bool:
    """Defines operator NAME or NAME.OVERLOAD of the library's table for CPU and CUDA tensors.

    results: makes new tensors of the results' form from the operator's arguments, which may be fake tensors.

    Returns False if another copy of this package in this process has defined it.  Raises ImportError if this torch has
    no stable C interface.
    """
    if name in _defined:
        return False
    if shim.library.custom_kernel_torch_register(_known[name]) != 0:
        raise ImportError(f"{NAMESPACE}: {shim.message()}")
    _defined.add(name)

    def fake(*given: object, **named: object) -> object:
        parameters = _operator(name)._schema.arguments
        others = (named.get(one.name, one.default_value) for one in parameters[len(given) :])
        values = (*given, *others)
        _check(name, values)
        return results(*values)

    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_library)
    return True


def register_in_python(schema: str, implementation: Callable[..., object], fake: Callable[..., object]) -> None:
    """Defines an operator that the library's table does not have, unless another copy of this package has."""
    name = schema.partition("(")[0]
    if _operator(name) is not None:
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


FP16, BF16, NVFP4 = OUTPUTS = ("float16", "bfloat16", "nvfp4")  # in the order of enum custom_kernel_output
DTYPES = {FP16: torch.float16, BF16: torch.bfloat16, NVFP4: torch.uint8}
APART, STACKED = "apart", "stacked"
WEIGHTS = {APART: 0, STACKED: 1, "interleaved8": 8, "interleaved32": 32, "interleaved64": 64}
PLAIN, ENDS = 1 << 20, 1 << 21
SILU = "silu"
ACTIVATIONS = (SILU, "gelu_tanh", "relu2")  # in the order of enum custom_kernel_activation, from 1 on
_LAYOUTS = (None, *SCALE_LAYOUTS)
_B_SHIFT, _OUTPUT_SHIFT, _WEIGHTS_SHIFT = 4, 8, 12
_LAYOUT_BITS, _OUTPUT_BITS, _WEIGHTS_BITS = 15, 15, 255
_ACTIVATION_SHIFT = 22
# The integer's part for the activation of gate and up, and for that of a plain product.
OF_GATE = {name: number << _ACTIVATION_SHIFT for number, name in enumerate(ACTIVATIONS, 1)}
OF_PLAIN = {None: 0, **OF_GATE}
TO_NVFP4 = OUTPUTS.index(NVFP4) << _OUTPUT_SHIFT  # among a call's options if and only if its output is NVFP4


class Options(NamedTuple):
    """What the integer says of the results' form."""

    sfb_layout: str | None
    out_dtype: str
    weights: str


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


def activation_of(activation: str | None, known: dict[str | None, int]) -> int:
    """An activation's number among `known`.  Raises ValueError if it is not there."""
    if not isinstance(activation, str | None) or activation not in known:
        other = " or None" if None in known else ""
        raise ValueError(f"activation is {activation!r}; expected one of {', '.join(ACTIVATIONS)}{other}")
    return known[activation]


def other_options(
    scale_layout: ScaleLayout,
    out_dtype: str | torch.dtype = FP16,
    weights: str = APART,
    activation: str | None = None,
    activations: dict[str | None, int] = OF_PLAIN,
) -> int:
    """The integer for arguments that OPTIONS lacks, such as a list of layouts.  Raises ValueError for wrong ones."""
    pair = layout_pair(scale_layout)
    if not isinstance(out_dtype, str | torch.dtype) or (None, out_dtype, APART) not in OPTIONS:
        shown, wanted = (
            (out_dtype, ", or the first two's dtypes") if isinstance(out_dtype, torch.dtype) else (repr(out_dtype), "")
        )
        raise ValueError(f"out_dtype is {shown}; expected one of {', '.join(OUTPUTS)}{wanted}")
    if not isinstance(weights, str) or weights not in WEIGHTS:
        raise ValueError(f"weights is {weights!r}; expected one of {', '.join(WEIGHTS)}")
    return OPTIONS[pair, out_dtype, weights] | activation_of(activation, activations)


def read_options(options: int) -> Options:
    """What the fake implementations need of the integer."""
    weights = options >> _WEIGHTS_SHIFT & _WEIGHTS_BITS
    return Options(
        _LAYOUTS[options >> _B_SHIFT & _LAYOUT_BITS],
        OUTPUTS[options >> _OUTPUT_SHIFT & _OUTPUT_BITS],
        next(name for name, value in WEIGHTS.items() if value == weights),
    )


def new_products(
    a: torch.Tensor, b: torch.Tensor, options: int, blocked: bool
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """C of the rows of a and weights b (.., rows, K/2); for NVFP4 output also its scale factors, blocked or not."""
    _, output, weights = read_options(options)
    n = b.shape[-2] if weights == APART else b.shape[-2] // 2
    rows = a.shape[:-1]
    c = torch.empty((*rows, n // 2 if output == NVFP4 else n), dtype=DTYPES[output], device=a.device)
    if output != NVFP4:
        return c
    if blocked:
        return c, new_blocked_scales(math.prod(rows), n // 16, a.device)
    return c, torch.empty((*rows, n // 16), dtype=torch.float8_e4m3fn, device=a.device)
