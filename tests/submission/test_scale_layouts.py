"""Layouts of scale factors in the package's operators: every place of every form, and forms that are refused.

The swizzled layouts are written here from their definitions: cuBLAS documentation, "1D Block Scaling Factors Layout",
for blocks of 128 x 4; TensorRT-LLM's layout of 8 x 4.  Padding is NaN: an operator that used it would show it.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from submission import dual_gemm, gated_gemm, linear_scales, plain_gemm, swizzle_scales
from submission.operators import OPTIONS
from tests.submission.cpu_kit import E4M3, NAN_SCALE, ONE, to_blocked

LINEAR, SWIZZLED, SWIZZLED_8X4 = "linear", "swizzled128x4", "swizzled8x4"
SIZES = list(itertools.product((1, 31, 32, 33, 127, 128, 129, 300), (4, 8, 20)))  # rows and groups
SINGLE = 2  # a byte of two e2m1 codes: 1.0 in the low half, 0 in the high half


def place_128x4(row, group, groups):
    """Byte of a scale factor in blocks of 128 rows by 4 groups."""
    block = row // 128 * (groups // 4) + group // 4
    return block * 512 + row % 32 * 16 + row % 128 // 32 * 4 + group % 4


def place_8x4(row, group, groups):
    """Byte of a scale factor in blocks of 8 rows by 4 groups."""
    return (row // 8 * (groups // 4) + group // 4) * 32 + row % 8 * 4 + group % 4


def wide(linear):
    """Groups of a row of blocks."""
    return -(-linear.shape[1] // 4) * 4


def swizzled(linear, unit, place):
    """The flat bytes of a swizzled layout."""
    rows, groups = linear.shape
    flat = torch.full((-(-rows // unit) * unit * wide(linear),), NAN_SCALE, dtype=torch.uint8)
    row, group = np.meshgrid(np.arange(rows), np.arange(groups), indexing="ij")
    flat[torch.from_numpy(place(row, group, wide(linear)))] = linear
    return flat


def view(flat, groups):
    """The five-dimensional view, by its indices: [row % 32, row % 128 // 32, row // 128, group % 4, group // 4]."""
    blocks = flat.numel() // (128 * groups)
    return torch.as_strided(flat, (32, 4, blocks, 4, groups // 4), (16, 4, 128 * groups, 1, 512))


FORMS = {
    "linear": (LINEAR, lambda x: x),
    "128x4, five dimensions": (SWIZZLED, lambda x: view(swizzled(x, 128, place_128x4), wide(x))),
    "128x4, padded rows": (SWIZZLED, lambda x: swizzled(x, 128, place_128x4).view(-1, wide(x))),
    "128x4, flat": (SWIZZLED, lambda x: swizzled(x, 128, place_128x4)),
    "8x4, padded rows": (SWIZZLED_8X4, lambda x: swizzled(x, 8, place_8x4).view(-1, wide(x))),
    "8x4, flat": (SWIZZLED_8X4, lambda x: swizzled(x, 8, place_8x4)),
}


def index_coded(rows, groups):
    """Finite scale bytes, not 0, that identify their place modulo 126."""
    return (torch.arange(rows * groups).reshape(rows, groups) % 126 + 1).to(torch.uint8)


@pytest.mark.parametrize(("rows", "groups"), SIZES)
def test_conversions_put_every_byte_in_its_place(rows, groups):
    for high in (False, True):  # both bytes of the index: together they identify the place
        index = torch.arange(rows * groups).reshape(rows, groups)
        linear = (index >> 8 if high else index).to(torch.uint8)
        found = swizzle_scales(linear)
        flat = swizzled(linear, 128, place_128x4)
        assert (flat.numpy() == to_blocked(linear.numpy()[None]).ravel()).all()
        flat[torch.from_numpy(to_blocked(np.ones((1, rows, groups), np.uint8)).ravel() == NAN_SCALE)] = 0  # padding
        assert torch.equal(found, view(flat, groups)) and found.permute(2, 4, 0, 1, 3).is_contiguous()
        for form in (found, flat.view(-1, groups), flat):
            given = {"groups": groups} if form.dim() == 1 else {}
            assert torch.equal(linear_scales(form, rows, **given), linear)
            whole = linear_scales(form, **given)
            assert whole.shape == (-(-rows // 128) * 128, groups) and (whole[rows:] == 0).all()


def test_conversions_keep_the_dtype_and_refuse_other_shapes():
    factors = torch.ones((5, 4)).to(torch.float8_e4m3fn)
    there = swizzle_scales(factors)
    assert there.dtype == linear_scales(there).dtype == torch.float8_e4m3fn
    for wrong in (factors[None], factors[0]):
        with pytest.raises(ValueError, match=r"^linear has shape"):
            swizzle_scales(wrong)
    for wrong, words in ((factors.float(), "has dtype torch.float32;"), ([1], r"is \[1\];")):
        for name, convert in (("linear", swizzle_scales), ("swizzled", linear_scales)):
            with pytest.raises(TypeError, match=f"^{name} {words} expected"):
                convert(wrong)
    flat = there.permute(2, 4, 0, 1, 3).reshape(-1)
    for wrong, options in ((flat, {}), (flat[:100], {"groups": 4}), (there, {"groups": 8}), (flat.view(64, 8), {})):
        with pytest.raises(ValueError, match=r"^swizzled has shape"):
            linear_scales(wrong, **options)
    for rows in (-1, 129):
        with pytest.raises(ValueError, match=f"^rows is {rows}; expected 0 to 128"):
            linear_scales(there, rows)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("rows", [8, 128, 130])
def test_every_scale_factor_of_every_form_reaches_its_own_row_and_group(form, side, rows):
    """Row r of one operand is 1 in one group and 0 elsewhere, and the other operand is 1: c is that scale factor."""
    groups, others = 8, 3
    layout, make = FORMS[form]
    linear = index_coded(rows, groups)
    ones = torch.full((others, groups * 8), SINGLE | SINGLE << 4, dtype=torch.uint8)
    other = torch.full((others, groups), ONE, dtype=torch.uint8)
    for shift in range(groups):
        hot = (torch.arange(rows) + shift) % groups
        codes = torch.zeros((rows, groups * 8), dtype=torch.uint8)
        codes[torch.arange(rows), hot * 8] = SINGLE
        want = torch.from_numpy(E4M3)[linear[torch.arange(rows), hot].long()].half()
        if side == "a":
            found = plain_gemm(codes, ones, make(linear), other, scale_layout=(layout, LINEAR))[:, 0]
        else:
            found = plain_gemm(ones, codes, other, make(linear), scale_layout=(LINEAR, layout))[0]
        assert torch.equal(found, want)


@pytest.fixture(scope="module")
def problem():
    """Codes and linear scale factors of A (130 rows), B1 and B2 (256 rows)."""
    generator = torch.Generator().manual_seed(3)
    codes = [torch.randint(0, 256, (rows, 64), dtype=torch.uint8, generator=generator) for rows in (130, 256, 256)]
    scales = [torch.randint(0x28, 0x40, (rows, 8), dtype=torch.uint8, generator=generator) for rows in (130, 256, 256)]
    return codes, scales


@pytest.mark.parametrize("groups", [8, 5])  # whole blocks along K, and not
@pytest.mark.parametrize(("of_a", "of_b"), list(itertools.product(FORMS, FORMS)))
def test_any_two_forms_give_the_same_bits(problem, of_a, of_b, groups):
    codes, scales = (
        [x[:, : groups * of_group].contiguous() for x in part] for part, of_group in zip(problem, (8, 1), strict=True)
    )
    a, b1, b2 = codes
    (a_layout, make_a), (b_layout, make_b) = FORMS[of_a], FORMS[of_b]
    sfa, sfb1, sfb2 = make_a(scales[0]), make_b(scales[1]), make_b(scales[2])
    pair = (a_layout, b_layout)
    want = dual_gemm(*codes, *scales, scale_layout=LINEAR)
    assert torch.equal(dual_gemm(*codes, sfa, sfb1, sfb2, scale_layout=pair), want)
    assert torch.equal(gated_gemm(*codes, sfa, sfb1, sfb2, scale_layout=pair), want)
    found, factors = plain_gemm(a, b1, sfa, sfb1, out_dtype="nvfp4", scale_layout=pair)
    expected, factors_by_rows = plain_gemm(a, b1, scales[0], scales[1], out_dtype="nvfp4", scale_layout=LINEAR)
    assert torch.equal(found, expected)
    # The output's scale factors have b's layout.
    assert factors.dim() == (5 if b_layout == SWIZZLED else 2)
    by_rows = linear_scales(factors, 130) if b_layout == SWIZZLED else factors
    assert torch.equal(by_rows.view(torch.uint8), factors_by_rows.view(torch.uint8))
    stacked = (torch.cat((b1, b2)), None, sfa, make_b(torch.cat((scales[1], scales[2]))), None)
    assert torch.equal(gated_gemm(a, *stacked, weights="stacked", scale_layout=pair), want)


def test_the_layout_is_inferred_if_only_one_fits(problem):
    (a, b1, b2), (sfa, sfb1, sfb2) = problem
    b1, b2, sfb1, sfb2 = b1[:200], b2[:200], sfb1[:200], sfb2[:200]
    want = dual_gemm(a, b1, b2, sfa, sfb1, sfb2, scale_layout=LINEAR)
    blocked = [swizzle_scales(x) for x in (sfa, sfb1, sfb2)]
    for factors in ((sfa, sfb1, sfb2), blocked, (sfa, *blocked[1:]), (blocked[0], sfb1, sfb2)):
        assert torch.equal(dual_gemm(a, b1, b2, *factors), want)


@pytest.mark.parametrize("place", range(3))
def test_ambiguous_rows_are_refused_unless_their_layout_is_stated(problem, place):
    """The tensors are real or fake, and 128 rows of scale factors come with 128 or with 72 rows of codes."""
    codes, scales = problem
    name = ("sfa", "sfb1", "sfb2")[place]
    for whole in (128, 72):  # the tensor has 128 rows in both cases
        a, b = (codes[0][:whole], codes[1:]) if place == 0 else (codes[0], [x[:whole] for x in codes[1:]])
        factors = [swizzle_scales(x[: len(y)]) for x, y in zip(scales, (a, *b), strict=True)]
        factors[place] = torch.full((128, 8), ONE, dtype=torch.uint8)
        calls = [lambda *x: dual_gemm(*x), lambda *x: gated_gemm(*x), lambda *x: dual_gemm(*x, scale_layout=None)]
        if place < 2:
            calls.append(lambda *x: plain_gemm(x[0], x[1], x[3], x[4]))
        for index, call in enumerate(calls):
            named = "sfb" if index == 3 and place else name
            text = rf"{named} has shape \(128, 8\).*scale_layout='linear' or 'swizzled128x4'"
            with pytest.raises(RuntimeError, match=text):
                call(a, *b, *factors)
            with FakeTensorMode() as mode, pytest.raises(RuntimeError, match=text):
                call(*(mode.from_tensor(x) for x in (a, *b, *factors)))
        stated = dual_gemm(a, *b, *factors, scale_layout=SWIZZLED)
        assert stated.shape == (len(a), len(b[0]))


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (LINEAR, (256, 8)),
        (LINEAR, (130 * 8,)),
        (LINEAR, (32, 4, 2, 4, 2)),
        (SWIZZLED, (130, 8)),
        (SWIZZLED, (128, 8)),
        (SWIZZLED, (128 * 8,)),
        (SWIZZLED, (32, 4, 1, 4, 2)),
        (SWIZZLED_8X4, (130, 8)),
        (SWIZZLED_8X4, (32, 4, 2, 4, 2)),
        (None, (130 * 8,)),
        (None, (2, 2, 32, 4, 4, 1)),
    ],
)
def test_a_shape_that_the_layout_does_not_have_is_named(problem, layout, shape):
    (a, b1, _), (_, sfb, _) = problem
    sfa = torch.full(shape, ONE, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match=rf"sfa has shape {re.escape(str(shape))}; expected "):
        plain_gemm(a, b1, sfa, sfb, scale_layout=(layout, LINEAR))


@pytest.mark.parametrize("wrong", ["rows", "", 3, (LINEAR,), (LINEAR, "128x4"), (LINEAR, SWIZZLED, SWIZZLED)])
@pytest.mark.parametrize("function", [dual_gemm, gated_gemm])
def test_an_unknown_layout_is_named_with_the_choices(problem, function, wrong):
    with pytest.raises(ValueError, match=r"^scale_layout is ") as error:
        function(*problem[0], *problem[1], scale_layout=wrong)
    assert repr(wrong) in str(error.value)
    assert all(repr(choice) in str(error.value) for choice in (LINEAR, SWIZZLED, SWIZZLED_8X4))


def test_the_operators_themselves_take_layouts(problem):
    codes, scales = problem
    padded = [swizzled(x, 128, place_128x4).view(-1, 8) for x in scales]
    want = dual_gemm(*codes, *scales, scale_layout=LINEAR)
    both, of_b = (OPTIONS[layout, "float16", "apart"] for layout in (SWIZZLED, (LINEAR, SWIZZLED)))
    operator = torch.ops.nvfp4_gemm.dual_gemm
    assert torch.equal(operator(*codes, *padded, both), want)
    out = torch.empty_like(want)
    operator.out(*codes, scales[0], *padded[1:], out, of_b)
    assert torch.equal(out, want)
    for options in (4, 4 << 4, 1 << 8, 1 << 20, -1):
        with pytest.raises(RuntimeError, match=r"options is 0x.*; expected layouts 0 to 3 in bits 0-3 and 4-7"):
            operator(*codes, *scales, options)
    compiled = torch.compile(lambda *x: dual_gemm(*x, scale_layout=(SWIZZLED, LINEAR)), fullgraph=True, backend="eager")
    assert torch.equal(compiled(*codes, padded[0], *scales[1:]), want)
    results = torch.library.opcheck(operator.default, (*codes, *padded, both))
    assert set(results.values()) == {"SUCCESS"}


def test_batches_take_only_the_leaderboards_layouts(problem):
    codes, scales = ([x[:130].unsqueeze(-1) for x in part] for part in problem)
    want = dual_gemm(*codes, *scales)
    assert torch.equal(dual_gemm(*codes, *scales, scale_layout=LINEAR), want)
    for layout in (SWIZZLED, SWIZZLED_8X4):
        with pytest.raises(RuntimeError, match=rf"sfa has layout '{layout}'"):
            dual_gemm(*codes, *scales, scale_layout=layout)
