"""Layouts of scale factors: how the operators read them, and conversions between the layouts.

    "linear"         (rows, K/16), row by row

    "swizzled128x4"  blocks of 128 rows x 4 groups, which the tensor cores of Blackwell read; the scale factor of (row,
                     group) is byte  row % 32 * 16 + row % 128 // 32 * 4 + group % 4  of block (row // 128, group // 4);
                     rows are padded to a multiple of 128 (cuBLAS documentation, "1D Block Scaling Factors Layout").
                     Shapes: (ceil(rows/128) * 128, K/16), the padded form of vLLM, FlashInfer and torchao;
                     (ceil(rows/128) * 128 * K/16,), the flat form of torch;
                     (32, 4, ceil(rows/128), 4, K/64), a view whose indices are [row % 32, row % 128 // 32, row // 128,
                     group % 4, group // 4], over memory (rows/128, K/64, 32, 4, 4)

    "swizzled8x4"    blocks of 8 rows x 4 groups, as FlashInfer and TensorRT-LLM have them for few rows; the scale
                     factor is byte  row % 8 * 4 + group % 4  of block (row // 8, group // 4); rows are padded to a
                     multiple of 8.  Shapes: (ceil(rows/8) * 8, K/16) or flat.  Every call converts it by a copy.

Where K is not a multiple of 64, blocks are padded along K too: K/64 stands for ceil(K/64), and K/16, in the forms of
swizzled tensors, for ceil(K/64) * 4.

A tensor of two dimensions with a multiple of 128 rows can be read both ways, so its layout must be stated.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

LINEAR, SWIZZLED, SWIZZLED_8X4 = SCALE_LAYOUTS = ("linear", "swizzled128x4", "swizzled8x4")
ScaleLayout = str | Sequence[str | None] | None  # one for all scale factors, or a pair for sfa and those of b

_BLOCK_ROWS = {SWIZZLED: 128, SWIZZLED_8X4: 8}
_BLOCK_GROUPS = 4
_VIEW_DIMENSIONS = 5
_TO_VIEW, _TO_MEMORY = (2, 3, 0, 4, 1), (2, 4, 0, 1, 3)  # permutations: memory (rows/128, K/64, 32, 4, 4) <-> the view


def layout_pair(scale_layout: ScaleLayout) -> tuple[str | None, str | None]:
    """The layouts of sfa and of b's scale factors.  Raises ValueError unless they are known ones, or None."""
    single = scale_layout is None or isinstance(scale_layout, str)
    pair = (scale_layout, scale_layout) if single else tuple(scale_layout) if isinstance(scale_layout, Sequence) else ()
    if len(pair) != 2 or any(one is not None and one not in SCALE_LAYOUTS for one in pair):
        raise ValueError(
            f"scale_layout is {scale_layout!r}; expected None, one of {', '.join(map(repr, SCALE_LAYOUTS))}, or a pair "
            "of these: for sfa, and for the scale factors of b"
        )
    return pair


def _padded(rows: int, layout: str) -> int:
    unit = _BLOCK_ROWS[layout]
    return (rows + unit - 1) // unit * unit


def _padded_groups(groups: int) -> int:
    return (groups + _BLOCK_GROUPS - 1) // _BLOCK_GROUPS * _BLOCK_GROUPS


def new_blocked_scales(rows: int, groups: int, device: torch.device) -> torch.Tensor:
    """The five-dimensional view of "swizzled128x4", over new memory."""
    memory = (_padded(rows, SWIZZLED) // 128, _padded_groups(groups) // _BLOCK_GROUPS, 32, 4, 4)
    return torch.empty(memory, dtype=torch.float8_e4m3fn, device=device).permute(_TO_VIEW)


def _view(swizzled: torch.Tensor, groups: int) -> torch.Tensor:
    """Any form of "swizzled128x4" as its five-dimensional view, without a copy."""
    if swizzled.dim() == _VIEW_DIMENSIONS:
        return swizzled
    wide = _padded_groups(groups)
    blocks = swizzled.numel() // (_BLOCK_ROWS[SWIZZLED] * wide)
    return swizzled.view(blocks, wide // _BLOCK_GROUPS, 32, 4, 4).permute(_TO_VIEW)


def _unswizzled(swizzled: torch.Tensor, rows: int, groups: int) -> torch.Tensor:
    wide = _padded_groups(groups)
    memory = _view(swizzled, groups).permute(_TO_MEMORY).view(torch.uint8)
    by_rows = memory.permute(0, 3, 2, 1, 4)  # (rows/128, 4, 32, K/64, 4)
    return by_rows.reshape(-1, wide)[:rows, :groups].contiguous().view(swizzled.dtype)


def check_bytes(name: str, factors: object) -> None:
    """Raises TypeError unless these are scale factors, of one byte each."""
    if not isinstance(factors, torch.Tensor):
        raise TypeError(f"{name} is {factors!r:.40}; expected a torch.Tensor")
    if factors.dtype not in (torch.float8_e4m3fn, torch.uint8):
        raise TypeError(f"{name} has dtype {factors.dtype}; expected torch.float8_e4m3fn or torch.uint8")


def swizzle_scales(linear: torch.Tensor) -> torch.Tensor:
    """Scale factors (rows, K/16) in layout "linear" -> "swizzled128x4", padded with zeros.

    Returns the view (32, 4, ceil(rows/128), 4, ceil(K/64)) over new memory (rows/128, K/64, 32, 4, 4), which every
    operator of this package takes without a stated layout.  For the form (ceil(rows/128) * 128, ceil(K/64) * 4) of
    other libraries: `view.permute(2, 4, 0, 1, 3).reshape(-1, 4 * view.shape[4])`.

    Raises ValueError for another shape and TypeError for another dtype than float8_e4m3fn and uint8.
    """
    check_bytes("linear", linear)
    if linear.dim() != 2:
        raise ValueError(f"linear has shape {tuple(linear.shape)}; expected (rows, K/16)")
    rows, groups = linear.shape
    more = (0, _padded_groups(groups) - groups, 0, _padded(rows, SWIZZLED) - rows)
    padded = torch.nn.functional.pad(linear.view(torch.uint8), more)
    blocks = padded.view(padded.shape[0] // 128, 4, 32, padded.shape[1] // _BLOCK_GROUPS, _BLOCK_GROUPS)
    return blocks.permute(0, 3, 2, 1, 4).contiguous().view(linear.dtype).permute(_TO_VIEW)


def linear_scales(swizzled: torch.Tensor, rows: int | None = None, groups: int | None = None) -> torch.Tensor:
    """Scale factors in any form of layout "swizzled128x4" -> "linear", (rows, K/16) in new memory.

    swizzled: (multiple of 128, K/16), its flat form, or the view of five dimensions.  rows: the operand's rows; by
    default all, padding included.  groups: K/16, likewise; needed for the flat form.

    Raises ValueError if the shape, with these sizes, is not a form of the layout, and TypeError for another dtype than
    float8_e4m3fn and uint8.
    """
    check_bytes("swizzled", swizzled)
    forms = {2: lambda: swizzled.shape[1], _VIEW_DIMENSIONS: lambda: swizzled.shape[4] * _BLOCK_GROUPS}
    flat = _padded_groups(groups) if swizzled.dim() == 1 and groups is not None else None
    count = forms[swizzled.dim()]() if swizzled.dim() in forms else flat
    whole = count is not None and count > 0 and count % _BLOCK_GROUPS == 0 and swizzled.numel() % (128 * count) == 0
    if not whole or (groups is not None and _padded_groups(groups) != count):
        raise ValueError(
            f"swizzled has shape {tuple(swizzled.shape)} with groups {groups}; expected (multiple of 128, K/16), its "
            "flat form with groups = K/16, or (32, 4, rows/128, 4, K/64)"
        )
    held = swizzled.numel() // count
    if rows is not None and not 0 <= rows <= held:
        raise ValueError(f"rows is {rows}; expected 0 to {held}, the rows of swizzled")
    return _unswizzled(swizzled, held if rows is None else rows, count if groups is None else groups)
