"""The extended GEMM on the CPU backend: every option against the reference, and the operator as torch sees it."""

from __future__ import annotations

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import extended_reference as extended
from reference.extended_reference import BF16, FP16, NVFP4, Extension
from submission import dual_gemm, gated_gemm, plain_gemm
from submission.operators import OPTIONS
from tests.submission.cpu_kit import ISAS
from tests.submission.extended.extended_kit import (
    call,
    exact_case,
    of_16_bits,
    random_case,
    with_biases,
    wrong_bits,
    wrong_values,
)

OUTPUTS = (FP16, BF16, NVFP4)
WEIGHTS = (extended.APART, extended.STACKED, *extended.INTERLEAVED)


@st.composite
def cases(draw):
    """A random case, its twin of exact sums, and whether scale factors lie in blocks."""
    plain, output = draw(st.booleans()), draw(st.sampled_from(OUTPUTS))
    weights = extended.APART if plain else draw(st.sampled_from(WEIGHTS))
    blocked = draw(st.booleans())
    m, k = draw(st.sampled_from((1, 17, 128, 130))), draw(st.sampled_from((64, 192, 256)))
    free = (not plain and weights == extended.APART) or plain
    n = 128 if weights == extended.STACKED and blocked else draw(st.sampled_from((64, 192)))
    if output != NVFP4 and free:
        n = draw(st.sampled_from((1, 23, 72, n)))

    def maybe(value):
        return value if draw(st.booleans()) else None

    extension = Extension(
        plain=plain,
        output=output,
        scale_gate=torch.tensor(0.01),
        scale_up=None if plain else maybe(torch.tensor(0.02)),
        token_scale=maybe(0.5 + torch.arange(m).float() / m),
        scale_c=maybe(torch.tensor(2.0)) if output == NVFP4 else None,
    )
    # A plain product has exact outputs of an activation only without an exponential.
    extension = extension._replace(activation=draw(st.sampled_from((None, extended.RELU2, *extended.ACTIVATIONS))))
    if not plain:
        extension = extension._replace(
            limit=draw(st.sampled_from((torch.inf, 2.0))), beta=draw(st.sampled_from((0.0, 1.0))),
            alpha=draw(st.sampled_from((1.0, 1.702))) if extension.activation in (None, extended.SILU) else 1.0,
        )  # fmt: skip
    exact = extension._replace(scale_gate=None, scale_up=None, token_scale=maybe(torch.full((m,), 0.5)))
    exact = exact._replace(limit=torch.inf, beta=0.0, scale_c=torch.tensor(0.07) if output == NVFP4 else None)
    if plain and exact.activation != extended.RELU2:
        exact = exact._replace(activation=None)
    if draw(st.booleans()):
        extension, exact = with_biases(extension, n), with_biases(exact, n, exact=True)
    seed = draw(st.integers(0, 1000))
    pair = random_case(m, n, k, extension, weights, seed), exact_case(m, n, k, exact, weights, seed)
    dtype = draw(st.sampled_from((None, torch.float16, torch.bfloat16)))
    return *(pair if dtype is None else (of_16_bits(one, dtype, seed) for one in pair)), blocked


@settings(max_examples=60, deadline=None)
@given(cases())
def test_all_options_crossed_are_the_references(drawn):
    random, exact, blocked = drawn
    assert wrong_values(random, call(random, blocked)) == ""
    assert wrong_bits(exact, call(exact, blocked)) == ""


def test_activations_are_those_of_torch_to_fp32_rounding():
    """Through a product of x and 1, against float64: every gate from -12 to 12 that 16 bits hold near it."""
    x = torch.linspace(-12, 12, 4096).half().view(-1, 1)
    a, b = torch.nn.functional.pad(x, (0, 15)), torch.full((1, 8), 2, dtype=torch.uint8)
    sfb = torch.full((1, 1), 0x38, dtype=torch.uint8)
    functional, wide = torch.nn.functional, x.double()
    want = {
        None: wide,
        "silu": functional.silu(wide),
        "gelu_tanh": functional.gelu(wide, approximate="tanh"),
        "relu2": functional.relu(wide) ** 2,
    }
    for name, value in want.items():
        found = plain_gemm(a, b, None, sfb, activation=name, scale_layout="linear").double()
        assert ((found - value).abs() <= value.abs() * (2.0**-11 + 2.0**-18) + 2.0**-25).all(), name


@pytest.mark.parametrize("activation", extended.ACTIVATIONS)
def test_infinite_gates_and_nans_pass_as_in_torch(activation):
    bias = torch.tensor([torch.inf, -torch.inf, torch.nan, -0.0])
    case = random_case(2, 4, 64, Extension(plain=True, activation=activation, bias_gate=bias))
    want = extended.function(bias, Extension(activation=activation))
    assert torch.equal(call(case, False)[0, :3].nan_to_num(7), want[:3].half().nan_to_num(7))


@pytest.mark.parametrize("isa", ISAS)
def test_every_instruction_set_gives_the_same_bits(isa, monkeypatch):
    options = Extension(output=NVFP4, scale_gate=torch.tensor(0.01), activation=extended.GELU_TANH)
    case = random_case(17, 128, 192, with_biases(options, 128), 8)
    want = call(case, True)
    monkeypatch.setenv("NVFP4_CPU_ISA", isa)
    try:
        found = call(case, True)
    except RuntimeError as error:
        pytest.skip(str(error))
    assert all(torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(found, want, strict=True))


def test_the_defaults_are_the_dual_gemm_bit_by_bit():
    case = random_case(40, 72, 192, Extension(scale_gate=None))
    args = case.arguments(True)
    assert torch.equal(gated_gemm(*args), dual_gemm(*args))
    assert torch.equal(gated_gemm(*args, limit=torch.inf), dual_gemm(*args))
    assert dual_gemm(*args).abs().max() > 1
    assert gated_gemm(*args, limit=1e-50).abs().max() == 0, "a limit below float32's numbers is still one"
    halved = torch.full((), 0.5)
    assert not torch.equal(gated_gemm(*args, scale_up=halved), dual_gemm(*args))


def test_nans_pass_and_mark_their_group():
    case = random_case(3, 64, 64, Extension(output=NVFP4, limit=1.0))
    case.scales[0][1, 2] = 0x7F
    codes, scales = call(case, False)
    assert scales.view(torch.uint8).tolist()[1] == [0x7F] * 4 and codes[1].tolist() == [0x77] * 32
    assert (scales.view(torch.uint8)[::2] != 0x7F).all()
    case = case._replace(extension=case.extension._replace(output=BF16))
    assert call(case, False)[1].isnan().all() and not call(case, False)[::2].isnan().any()
    for operand in (1, 2):  # NaN in gate alone, and in up alone: a limit does not turn it into a number
        case = random_case(3, 64, 64, Extension(output=BF16, limit=1.0))
        case.scales[operand][5, 1] = 0x7F
        found = call(case, False).isnan()
        assert found[:, 5].all() and found.sum() == 3


def test_scale_factors_past_the_last_row_are_zeros():
    _, scales = call(random_case(130, 64, 64, Extension(output=NVFP4)), True)
    memory = scales.view(torch.uint8).permute(2, 1, 0, 4, 3).reshape(256, 4)  # a row for each row of codes
    assert (memory[130:] == 0).all() and (memory[:130] != 0).all()


def test_an_nvfp4_output_is_the_next_products_operand():
    """Gate-up, then down: the second product of the codes and scale factors as they are."""
    scale_c = torch.tensor(20.0)
    case = random_case(17, 128, 64, Extension(output=NVFP4, scale_gate=torch.tensor(0.02), scale_c=scale_c))
    for blocked in (False, True):
        codes, scales = call(case, blocked)
        down = random_case(17, 40, 128, Extension(plain=True))
        b, sfb = down.codes[1], down.arguments(blocked)[4]
        layout = "swizzled128x4" if blocked else "linear"
        found = plain_gemm(codes, b, scales, sfb, scale=1 / scale_c, out_dtype="bfloat16", scale_layout=layout)
        kept = extended.dequantize(extended.reference(case.codes, case.scales, case.extension), scale_c)
        want = kept @ extended.nvfp4.decode(b, down.scales[1]).double().t()
        assert torch.allclose(found.double(), want, rtol=1e-2, atol=2e-2 * want.abs().max())


def test_torchs_own_checks_and_fake_tensors_know_the_operator():
    case = random_case(5, 64, 64, Extension(output=NVFP4))  # as bytes: torch cannot copy e2m1 and e4m3 as it does here
    args = tuple(None if one is None else one.view(torch.uint8) for one in case.arguments(True))
    gated, plain = torch.ops.nvfp4_gemm.gated_gemm, torch.ops.nvfp4_gemm.plain_gemm
    of_plain, half = (args[0], args[1], args[3], args[4]), torch.tensor(0.5)
    for operator, arguments in (
        (gated.nvfp4, (*args, OPTIONS[None, NVFP4, "apart"], None, None, None, torch.tensor(2.0))),
        (gated.default, (*args, OPTIONS[None, BF16, "apart"], half, None, torch.ones(5), 1.0, 1.5, 1.0)),
        (plain.nvfp4, (*of_plain, OPTIONS[None, NVFP4, "apart"], half)),
        (plain.default, of_plain),
    ):
        assert set(torch.library.opcheck(operator, arguments).values()) == {"SUCCESS"}
    compiled = torch.compile(functools.partial(gated_gemm, out_dtype=NVFP4), backend="eager", fullgraph=True)
    assert torch.equal(compiled(*args)[0], call(case, True)[0])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"out_dtype": "float8"}, "out_dtype is 'float8'"),
        ({"weights": "interleaved16"}, "weights is 'interleaved16'"),
        ({"weights": "stacked"}, "b2 is given"),
        ({"token_scale": torch.ones(4)}, "token_scale has 4 numbers; expected 5"),
        ({"scale_gate": torch.ones(2)}, "scale_gate has 2 numbers; expected 1"),
        ({"scale_up": torch.ones(1, dtype=torch.int32)}, "scale_up has dtype torch.int32"),
        ({"scale_c": torch.ones(1)}, "scale_c is "),
        ({"limit": -1.0}, "limit is -1"),
        ({"limit": -1e-50}, "limit is -"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"beta": float("inf")}, "beta is inf"),
        ({"activation": "gelu"}, "activation is 'gelu'; expected one of silu, gelu_tanh, relu2"),
        ({"activation": None}, "activation is None"),
        ({"activation": "relu2", "alpha": 1.702}, "alpha is 1.702; expected 0 or 1 for an activation other than SiLU"),
        ({"bias_gate": torch.ones(65)}, "bias_gate has 65 numbers; expected 64"),
        ({"bias_up": torch.ones(64, dtype=torch.half)}, "bias_up has dtype torch.float16"),
        ({"bias_up": torch.ones(64, 2)[:, 0]}, "bias_up has strides"),
    ],
)
def test_a_wrong_option_is_named(change, text):
    args = random_case(5, 64, 64, Extension()).arguments(False)
    with pytest.raises((RuntimeError, ValueError), match=text.replace("(", "\\(")):
        gated_gemm(*args, **change)


def test_a_plain_products_wrong_option_is_named():
    a, b, _, sfa, sfb, _ = random_case(5, 64, 64, Extension(plain=True)).arguments(False)
    for change, text in (({"activation": "tanh"}, "'tanh'.* or None"), ({"bias": torch.ones(5)}, "bias has 5 numbers")):
        with pytest.raises((RuntimeError, ValueError), match=text):
            plain_gemm(a, b, sfa, sfb, **change)


def test_an_a_of_16_bits_has_no_scale_factors_and_codes_have_some():
    args = random_case(5, 64, 64, Extension()).arguments(False)
    halves = torch.ones(5, 64, dtype=torch.bfloat16)
    assert gated_gemm(halves, *args[1:3], None, *args[4:]).shape == (5, 64)
    for a, sfa in ((halves, args[3]), (args[0], None)):
        with pytest.raises((RuntimeError, ValueError), match="sfa is "):
            gated_gemm(a, *args[1:3], sfa, *args[4:])
    with pytest.raises((RuntimeError, ValueError), match="b1 has"):
        gated_gemm(halves[:, :32].repeat(1, 4), *args[1:3], None, *args[4:])


def test_a_rows_bits_do_not_depend_on_the_other_rows(monkeypatch):
    """At a model's K, for each type of A; AMX, which takes over at eight rows, adds in an order of its own."""
    monkeypatch.setenv("NVFP4_CPU_ISA", "portable")
    for dtype in (None, torch.float16, torch.bfloat16):
        case = random_case(70, 64, 7168, Extension(output=BF16, scale_gate=torch.tensor(0.001)))
        case = case if dtype is None else of_16_bits(case, dtype)
        want = call(case, False)
        for rows in (1, 5, 33):
            first = case._replace(
                codes=(case.codes[0][:rows].contiguous(), *case.codes[1:]),
                scales=(None if dtype else case.scales[0][:rows].contiguous(), *case.scales[1:]),
            )
            assert torch.equal(call(first, False), want[:rows])


def test_a_wrong_tensor_is_named():
    args = list(random_case(5, 64, 64, Extension()).arguments(False))
    for place, name in enumerate(("a", "b1", "b2", "sfa", "sfb1", "sfb2")):
        for spoiled in (args[place].float(), args[place][:, :1], args[place].t().contiguous().t()):
            wrong = [*args[:place], spoiled, *args[place + 1 :]]
            with pytest.raises((RuntimeError, ValueError), match=rf"{name} has |K is "):
                gated_gemm(*wrong)
    for place, name in ((2, "b2"), (5, "sfb2")):
        with pytest.raises(RuntimeError, match=rf": {name} is None; expected it beside b1"):
            gated_gemm(*args[:place], None, *args[place + 1 :])
    stacked = random_case(5, 64, 64, Extension(), weights=1).arguments(False)
    for place, name in ((2, "b2"), (5, "sfb2")):
        assert stacked[place] is None
        given = [*stacked[:place], stacked[place - 1], *stacked[place + 1 :]]
        with pytest.raises(RuntimeError, match=rf": {name} is given; expected it only where gate and up lie apart"):
            gated_gemm(*given, weights="stacked")
