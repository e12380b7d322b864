"""The options of the products as operators take them: one integer, which a call converts faster than words.

Bits 0 to 3 and 4 to 7 hold the layouts of sfa and of b's scale factors, 0 for one that is not stated; bits 8 to 11 the
output; bits 12 to 19 the order of weights; PLAIN and ENDS are for the products of experts
(submission/torch/operands.h).
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import torch

from .scale_layouts import SCALE_LAYOUTS, ScaleLayout, layout_pair

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


def _known() -> dict[tuple[ScaleLayout, str | torch.dtype, str], int]:
    pairs = {(of_a, of_b): (of_a, of_b) for of_a, of_b in product(_LAYOUTS, _LAYOUTS)}
    layouts = pairs | {one: (one, one) for one in _LAYOUTS}
    outputs = {name: name for name in OUTPUTS} | {DTYPES[name]: name for name in (FP16, BF16)}
    return {
        (given, output, weights): _of(*pair, name, weights)
        for (given, pair), (output, name), weights in product(layouts.items(), outputs.items(), WEIGHTS)
    }


# The integer by scale_layout, out_dtype and weights, as a caller gives them.
OPTIONS = _known()


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
