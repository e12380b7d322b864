"""The products of experts on the CPU backend: every option against the oracle, and the operator as torch sees it."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import extended_reference as extended
from reference import nvfp4
from reference.extended_reference import BF16, FP16, NVFP4, Extension
from submission import grouped_gated_gemm, grouped_plain_gemm, plain_gemm, quantize_nvfp4
from submission.operators import OPTIONS, PLAIN
from tests.submission.experts import experts_kit as kit
from tests.submission.experts.experts_kit import arguments, call, random_problem, wrong
from tests.submission.experts.halves import wrong_on as wrong_halves_on
from tests.submission.extended.extended_kit import exact_case, with_biases


@st.composite
def problems(draw):
    """A random problem, and its twin of exact sums."""
    plain, output = draw(st.booleans()), draw(st.sampled_from((FP16, BF16, NVFP4)))
    weights = extended.APART if plain else draw(st.sampled_from(tuple(kit.WEIGHT_NAMES)))
    blocked = draw(st.booleans()), draw(st.booleans())
    k = draw(st.sampled_from((64, 80, 192, 256)))
    n = 128 if weights == extended.STACKED and blocked[1] else draw(st.sampled_from((64, 192)))
    if output != NVFP4 and weights == extended.APART:
        n = draw(st.sampled_from((1, 23, 72, n)))
    counts = draw(st.lists(st.sampled_from((0, 0, 1, 2, 5, 40, 130)), min_size=1, max_size=5))
    how = {
        "tokens": draw(st.sampled_from((kit.COUNTS, kit.OFFSETS, kit.ENDS, kit.PADDED))),
        "spare": draw(st.sampled_from((0, 3))),
        "blocked": blocked,
        "weights": weights,
    }

    def maybe(value):
        return value if draw(st.booleans()) else None

    extension = Extension(
        plain=plain,
        output=output,
        scale_gate=torch.tensor(0.01),
        scale_up=None if plain else maybe(torch.tensor(0.02)),
        token_scale=maybe(0.5 + torch.arange(7).float() / 7),
        scale_c=maybe(torch.tensor(2.0)) if output == NVFP4 else None,
    )
    extension = extension._replace(activation=draw(st.sampled_from((None, extended.RELU2, extended.GELU_TANH))))
    if not plain:
        extension = extension._replace(
            limit=draw(st.sampled_from((torch.inf, 2.0))), beta=draw(st.sampled_from((0.0, 1.0))),
            alpha=draw(st.sampled_from((1.0, 1.702))) if extension.activation is None else 1.0,
        )  # fmt: skip
    exact = extension._replace(scale_gate=None, scale_up=None, token_scale=maybe(torch.full((1,), 0.5)))
    exact = exact._replace(limit=torch.inf, beta=0.0, scale_c=torch.tensor(0.07) if output == NVFP4 else None)
    if plain and exact.activation == extended.GELU_TANH:
        exact = exact._replace(activation=None)
    if draw(st.booleans()):
        extension, exact = with_biases(extension, n), with_biases(exact, n, exact=True)
    return random_problem(counts, n, k, extension, **how), random_problem(counts, n, k, exact, make=exact_case, **how)


@settings(max_examples=25, deadline=None)
@given(problems())
def test_all_options_crossed_are_the_references(drawn):
    random, exact = drawn
    assert wrong(random, call(random)) == ""
    assert wrong(exact, call(exact), exactly=True) == ""


@pytest.mark.parametrize("blocked", [True, False])
def test_a_padded_form_without_room_gives_no_rows(blocked):
    problem = random_problem([0, 0], 64, 64, Extension(plain=True), tokens=kit.PADDED, blocked=(blocked, False))
    assert call(problem)[0].shape == (0, 64)


@pytest.mark.parametrize("spread", [True, False])
def test_a_thousand_experts_and_one_that_has_all_tokens(spread):
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randint(0, 256, (1024, *rows, 32), dtype=torch.uint8, generator=generator) for rows in ((), (8,)))
    sfa, sfb = (torch.full((1024, *rows, 4), 0x38, dtype=torch.uint8) for rows in ((), (8,)))  # e4m3 of 1
    counts = torch.full((1024,), int(spread), dtype=torch.int32)
    experts = torch.arange(1024) if spread else torch.full((1024,), 777)
    counts[777] = 1 if spread else 1024
    found = grouped_plain_gemm(a, b, sfa, sfb, counts=counts, scale_layout="linear")
    weights = nvfp4.decode(b.flatten(0, 1), sfb.flatten(0, 1)).double().unflatten(0, (1024, 8))
    want = torch.bmm(weights[experts], nvfp4.decode(a, sfa).double().unsqueeze(-1)).squeeze(-1)
    assert torch.equal(found, want.half())  # sums of quarters below 2^13: exact


def test_no_tokens_give_an_empty_output():
    problem = random_problem((0, 0, 0), 64, 64, Extension(output=BF16))
    assert call(problem)[0].shape == (0, 64)
    for tokens, shape in ((kit.COUNTS, (5, 64)), (kit.PADDED, (15, 64))):
        assert call(problem._replace(tokens=tokens, spare=5))[0].shape == shape
    codes, scales = call(random_problem((0,), 64, 64, Extension(output=NVFP4)))
    assert codes.shape == (0, 32) and scales.shape == (0, 4)


@pytest.mark.parametrize(
    ("counts", "rows"),
    [
        ([-5, 3, 0, 4], [(1, 0, 3), (3, 3, 7)]),
        ([6, 2**31 - 1, 9, 1], [(0, 0, 6), (1, 6, 10)]),
        ([-(2**31)] * 4, []),
        ([2**31 - 1] * 4, [(0, 0, 10)]),
    ],
)
def test_malformed_counts_stay_inside_the_tensors(counts, rows):
    """`rows`: which expert then has which rows of the 10."""
    whole = random_problem((10, 0, 0, 0), 24, 64, Extension(plain=True))
    (a, b, sfa, sfb), options = arguments(whole)
    c = grouped_plain_gemm(a, b, sfa, sfb, **options | {"counts": torch.tensor(counts, dtype=torch.int32)})
    for expert, first, end in rows:
        own = (a[first:end].clone(), b[expert].clone(), sfa[first:end].clone(), sfb[expert].clone())
        want = plain_gemm(*own, scale_layout="linear")
        assert torch.equal(c[first:end], want)


@pytest.mark.parametrize(
    ("ends", "rows"),
    [([3, 1, 7, 7], [(0, 0, 3), (2, 3, 7)]), ([-4, 12, 5, 20], [(1, 0, 10)]), ([0, 0, -1, 10], [(3, 0, 10)])],
)
def test_malformed_offsets_stay_inside_the_tensors(ends, rows):
    whole = random_problem((10, 0, 0, 0), 24, 64, Extension(plain=True), tokens=kit.ENDS)
    (a, b, sfa, sfb), options = arguments(whole)
    c = grouped_plain_gemm(a, b, sfa, sfb, **options | {"offsets": torch.tensor(ends, dtype=torch.int32)})
    for expert, first, end in rows:
        own = (a[first:end].clone(), b[expert].clone(), sfa[first:end].clone(), sfb[expert].clone())
        want = plain_gemm(*own, scale_layout="linear")
        assert torch.equal(c[first:end], want)


def test_padded_counts_are_at_most_the_capacity():
    whole = random_problem((3, 3), 24, 64, Extension(plain=True), tokens=kit.PADDED)
    tensors, options = arguments(whole)
    too_large = grouped_plain_gemm(*tensors, **options | {"counts": torch.tensor([1000, 2**31 - 1], dtype=torch.int32)})
    assert torch.equal(too_large.flatten(0, 1), call(whole)[0])


def test_a_rows_bits_do_not_depend_on_other_rows():
    """Among 1 to 600 rows of its expert, and with or without other experts."""
    for plain in (False, True):
        many = random_problem((600, 3), 136, 256, Extension(plain=plain, scale_gate=torch.tensor(0.01)))
        want = call(many)[0]
        tensors, options = arguments(many)
        operator = grouped_plain_gemm if plain else grouped_gated_gemm
        for count in (1, 2, 7, 16, 33, 130, 257):
            fewer = torch.tensor([count, 0], dtype=torch.int32)
            assert torch.equal(operator(*tensors, **options | {"counts": fewer})[:count], want[:count]), count


def test_numbers_for_all_experts_may_be_one():
    problem = random_problem((2, 1, 3), 64, 64, Extension(output=NVFP4))
    tensors, options = arguments(problem)
    scales = {"scale_gate": 0.5, "scale_up": 0.25, "scale_c": 3.0}
    want = grouped_gated_gemm(*tensors, **options | {name: torch.full((3,), x) for name, x in scales.items()})
    for numbers in (scales, *({name: torch.full(of, x) for name, x in scales.items()} for of in ((), (1,), (1, 1)))):
        found = grouped_gated_gemm(*tensors, **options | numbers)
        assert all(torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(found, want, strict=True))


def test_plain_factors_at_any_row_of_a_larger_tensor_are_taken():
    for tokens in (kit.COUNTS, kit.PADDED):
        tensors, options = arguments(random_problem((2, 2), 64, 80, Extension(), tokens=tokens))
        want = grouped_gated_gemm(*tensors, **options)
        for place in (3, 4):
            room = torch.zeros(tensors[place].numel() + 5, dtype=torch.uint8)
            room[5:] = tensors[place].flatten()
            moved = [*tensors[:place], room[5:].view(tensors[place].shape), *tensors[place + 1 :]]
            assert torch.equal(grouped_gated_gemm(*moved, **options), want)


def test_torchs_own_checks_and_fake_tensors_know_the_operator():
    problem = random_problem((2, 0, 3), 64, 64, Extension(output=NVFP4))
    (a, b1, b2, sfa, sfb1, sfb2), options = arguments(problem)
    options = {name: option for name, option in options.items() if option is not None}
    numbers = (torch.ones(3), None, torch.ones(5))
    experts, tensors = torch.ops.nvfp4_gemm.experts, (a, b1, b2, sfa, sfb1, sfb2, options["counts"])
    for operator, others in (
        (experts.nvfp4, (OPTIONS["linear", NVFP4, "apart"], *numbers, torch.full((3,), 2.0), 1.0, 1.5, 1.0)),
        (experts.default, (OPTIONS["linear", BF16, "apart"], *numbers)),
    ):
        assert set(torch.library.opcheck(operator, (*tensors, *others)).values()) == {"SUCCESS"}
    compiled = torch.compile(functools.partial(grouped_gated_gemm, **options), backend="eager", fullgraph=True)
    assert torch.equal(compiled(a, b1, b2, sfa, sfb1, sfb2)[0], call(problem)[0])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"counts": None}, "counts and offsets are both None"),
        ({"offsets": torch.zeros(3, dtype=torch.int32)}, "counts and offsets are both given"),
        ({"counts": torch.zeros(3)}, "counts has dtype torch.float32; expected torch.int32"),
        ({"counts": torch.zeros(4, dtype=torch.int32)}, r"counts has shape (4,); expected (3,)"),
        ({"scale_gate": torch.ones(2)}, r"scale_gate has shape (2,); expected (3,)"),
        ({"scale_up": torch.ones(3, dtype=torch.int32)}, "scale_up has dtype torch.int32"),
        ({"token_scale": torch.ones(4)}, r"token_scale has shape (4,); expected (5,)"),
        ({"scale_c": torch.ones(3)}, "scale_c is "),
        ({"out_dtype": "float8"}, "out_dtype is 'float8'"),
        ({"weights": "stacked"}, "b2 is given"),
        ({"scale_layout": "swizzled8x4"}, "sfa has layout 'swizzled8x4'"),
        ({"limit": -1.0}, "limit is -1"),
    ],
)
def test_a_wrong_option_is_named(change, text):
    tensors, options = arguments(random_problem((2, 0, 3), 64, 64, Extension()))
    with pytest.raises((RuntimeError, ValueError), match=text.replace("(", "\\(").replace(")", "\\)")):
        grouped_gated_gemm(*tensors, **options | change)


def test_a_wrong_tensor_is_named():
    tensors, options = arguments(random_problem((2, 0, 3), 64, 64, Extension()))
    for place, name in enumerate(("a", "b1", "b2", "sfa", "sfb1", "sfb2")):
        one = tensors[place]
        for spoiled in (one.float(), one[..., :1], one.mT.contiguous().mT, one[None]):
            with pytest.raises((RuntimeError, ValueError), match=rf"{name} has "):
                grouped_gated_gemm(*tensors[:place], spoiled, *tensors[place + 1 :], **options)


def test_scale_factors_that_can_be_read_two_ways_are_refused():
    tensors, options = arguments(random_problem((2, 1), 128, 64, Extension()))
    with pytest.raises(RuntimeError, match=r"sfb1 has shape .* which can be read row by row or as blocks"):
        grouped_gated_gemm(*tensors, **options | {"scale_layout": ("linear", None)})


def test_rows_of_16_bits_are_multiplied_as_they_are():
    """Whole or named by an index, sorted or padded, K of any multiple of 16; each row has the plain product's bits."""
    assert wrong_halves_on("cpu") == []
    a, rows = torch.randn(3, 64).bfloat16(), torch.tensor([2, 0, 1, 5], dtype=torch.int32)
    b, sfb = quantize_nvfp4(torch.randn(2 * 8, 64))
    options = {"counts": torch.tensor([1, 2], dtype=torch.int32), "scale_layout": "linear", "out_dtype": "bfloat16"}
    experts = b.view(2, 8, 32), None, sfb.view(2, 8, 4)
    found = grouped_plain_gemm(a, *experts, rows=rows, **options)
    assert found.shape == (4, 8)
    for row, expert in ((0, 0), (1, 1), (2, 1)):
        one = plain_gemm(a[rows[row]][None], experts[0][expert], None, experts[2][expert], out_dtype="bfloat16")
        assert torch.equal(found[row], one[0])
    operator = torch.ops.nvfp4_gemm.experts.default
    given = (
        a,
        experts[0],
        None,
        None,
        experts[2].view(torch.uint8),
        None,
        options["counts"],
        OPTIONS["linear", "bfloat16", "apart"],
    )
    named = {"rows": rows[:3].contiguous()}  # all that counts has: what it leaves out is not written
    assert set(torch.library.opcheck(operator, (*given[:7], given[7] | PLAIN), named).values()) == {"SUCCESS"}
    assert grouped_plain_gemm(a, *experts, rows=rows[:0], **options).shape == (0, experts[0].shape[1])
    codes, sfa = quantize_nvfp4(a)
    for given, more, words in (
        ((codes, *experts), {}, "a has dtype torch.uint8; expected torch.float16 or torch.bfloat16, as sfa is None"),
        ((a, experts[0], sfa, experts[2]), {}, "a has dtype torch.bfloat16; expected torch.float4_e2m1fn_x2 or"),
        ((codes, experts[0], sfa, experts[2]), {"rows": rows}, "rows is given and a has shape .* expected 16-bit a"),
        ((a[:0], *experts), {"rows": rows}, "a has no rows; expected some beside rows"),
        ((a, *experts), {"rows": rows.long()}, "rows has dtype torch.int64; expected torch.int32"),
    ):
        with pytest.raises(RuntimeError, match=words):
            grouped_plain_gemm(*given, **options, **more)
