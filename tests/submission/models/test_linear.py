"""Linear against float64, from both conventions of names and from torch.nn.Linear, stored, compiled and exported."""

from __future__ import annotations

import copy

import pytest
import torch
from safetensors.torch import load_file, load_model, save_file, save_model

from reference import extended_reference as extended
from submission import Linear, quantize_linear
from tests.submission.models.layer_kit import OF_KERNELS, OF_QUANTIZATION, relative

IN, OUT = 96, 40
NAME = "model.layers.1.self_attn.q_proj"
VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)


def random_weight(n, k, seed=0):
    """Codes, factors and scale of a random layer, and its weight in float64."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(0, 16, (n, k), generator=generator)
    factors = (torch.rand(n, k // 16, generator=generator) + 0.5).to(torch.float8_e4m3fn)
    values = torch.where(numbers < 8, 1.0, -1.0) * VALUES[numbers % 8] * factors.double().repeat_interleave(16, 1) / 64
    codes = (numbers[:, 0::2] | numbers[:, 1::2] << 4).to(torch.uint8)
    return (codes, factors, 1 / 64), values


def checkpoint(layer, convention, bias=None, largest=6.0, name=NAME):
    codes, factors, scale = layer
    of_input = largest / (6 * 448)
    if convention == "modelopt":
        found = {
            "weight": codes,
            "weight_scale_2": torch.tensor(scale),
            "input_scale": torch.tensor(of_input),
        }
    else:
        found = {
            "weight_packed": codes,
            "weight_global_scale": torch.tensor([1 / scale]),
            "input_global_scale": torch.tensor([1 / of_input]),
        }
    found |= {"weight_scale": factors} if bias is None else {"weight_scale": factors, "bias": bias}
    return {f"{name}.{key}": value for key, value in found.items()}


@pytest.mark.parametrize("bias", [None, torch.arange(OUT) / 8])
@pytest.mark.parametrize("convention", ["compressed-tensors", "modelopt"])
def test_a_checkpoints_layer_is_right(convention, bias, tmp_path):
    layer, weight = random_weight(OUT, IN)
    others = {
        "model.layers.1.self_attn.q_proj_norm.weight": torch.ones(1),
        f"{NAME.replace('1', '10')}.weight": torch.ones(2),
    }
    save_file(checkpoint(layer, convention, bias) | others, tmp_path / "layer.safetensors")
    four_bits = Linear.load(tmp_path / "layer.safetensors", NAME)
    halves = Linear.load(tmp_path, f"{NAME}.", quantize=False)
    for shape in ((), (1,), (17,), (2, 3), (0,)):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            x = torch.randn(*shape, IN).to(dtype)
            want = x.bfloat16().double() @ weight.T if dtype == torch.float32 else x.double() @ weight.T
            want = want if bias is None else want + bias
            for linear, error in ((four_bits, OF_QUANTIZATION), (halves, OF_KERNELS)):
                y = linear(x)
                assert y.dtype == dtype and y.shape == (*shape, OUT)
                assert not x.numel() or relative(y, want) < error


def test_inputs_that_nvfp4_holds_are_computed_exactly():
    """Every input is a code times its group's factor, every sum a small integer."""
    layer = torch.full((OUT, IN // 2), 0x2A, dtype=torch.uint8), torch.ones(OUT, IN // 16).to(torch.float8_e4m3fn), 1.0
    x = torch.zeros(3, IN)
    x[1, 0], x[2, 1::2] = 6, 6
    linear = Linear.load(checkpoint(layer, "modelopt"), NAME)  # weights -1, 1, in turn; 6 is the largest input
    assert linear(x).tolist() == [[0.0] * OUT, [-6.0] * OUT, [6.0 * (IN // 2)] * OUT]


def test_each_row_has_a_scale_of_its_own():
    """Rows of any magnitude are quantized alike, and a row of zeros stays one, without a scale in the checkpoint."""
    layer, weight = random_weight(OUT, IN)
    tensors = {name: one for name, one in checkpoint(layer, "modelopt").items() if "input" not in name}
    linear = Linear.load(tensors, NAME, scale="token")
    magnitudes = torch.tensor([1e-20, 1.0, 1e20, 0.0])[:, None]
    x = torch.randn(4, 1, IN).to(torch.bfloat16) * magnitudes.bfloat16()[:, None]
    y = linear(x).view(4, OUT).double()
    want = x.view(4, IN).double() @ weight.T
    assert torch.equal(y[3], want[3])
    for row in range(3):
        assert 0.01 < relative(y[row], want[row]) < OF_QUANTIZATION
        assert relative(y[row], by_reference(x[row].view(1, IN)) @ weight.T) < OF_KERNELS
    with pytest.raises(
        KeyError, match=r"q_proj\.input_scale is missing; expected it, scale='token', or quantize=False"
    ):
        Linear.load(tensors, NAME)
    with pytest.raises(ValueError, match="scale is 'row'; expected one of 'calibrated', 'token'"):
        Linear.load(tensors, NAME, scale="row")


def by_reference(row):
    """A row quantized with 2688 over its largest number, in float64."""
    scale = 6 * 448 / row.float().abs().amax().reshape(1)
    return extended.dequantize(extended.quantize(row.float(), scale), scale)


@pytest.mark.parametrize("options", [{}, {"scale": "token"}, {"quantize": False}])
@pytest.mark.parametrize("k", [64, 96, 232, 10])
def test_a_layer_of_floats_of_any_even_width(k, options):
    torch.manual_seed(k)
    floats = torch.nn.Linear(k, 24)
    x = torch.randn(2, 7, k)
    want = floats(x).detach().double()
    for linear in (
        Linear.from_linear(floats, None if options else 5.0, **options),
        Linear(quantize_linear(floats.weight, 5.0), bias=floats.bias, **options),
    ):
        assert relative(linear(x), want) < (0.15 if "quantize" in options else OF_QUANTIZATION)
        assert relative(linear.dequantized(), floats.weight.detach().double()) < 0.15
    with pytest.raises(ValueError, match=r"weight's input_scale is None; expected a number, scale='token', or"):
        Linear.from_linear(floats)


MAKERS = (
    lambda **to: Linear.random(IN, OUT, **to),
    lambda **to: Linear.random(IN, OUT, scale="token", **to),
    lambda **to: Linear.random(IN, OUT, quantize=False, bias=torch.ones(OUT, **to), **to),
)


@pytest.mark.parametrize("make", MAKERS)
def test_a_layer_is_cast_copied_and_stored(make, tmp_path):
    linear, x = make(), torch.randn(5, IN)
    want = linear(x)
    for other in (copy.deepcopy(linear).to(torch.bfloat16), copy.deepcopy(linear).half().double()):
        assert torch.equal(other(x), want)
    assert make(device="meta")(x.to("meta")).shape == want.shape
    save_file(linear.state_dict(), tmp_path / "a.safetensors")
    save_model(linear, str(tmp_path / "b.safetensors"))
    first, second = make(), make()
    first.load_state_dict(load_file(tmp_path / "a.safetensors"))
    load_model(second, str(tmp_path / "b.safetensors"))
    assert torch.equal(first(x), want) and torch.equal(second(x), want)


@pytest.mark.parametrize("make", MAKERS)
def test_a_layer_compiles_exports_and_traces(make):
    linear, x = make(), torch.randn(5, IN)
    want = linear(x)
    assert torch.equal(torch.compile(linear, fullgraph=True, backend="aot_eager")(x), want)
    rows = torch.export.Dim("rows", min=2, max=100)
    exported = torch.export.export(linear, (x,), dynamic_shapes=({0: rows},)).module()
    assert torch.equal(exported(x), want) and torch.equal(exported(x[:3]), linear(x[:3]))
    assert torch.equal(torch.jit.trace(linear, x)(x), want)


def test_wrong_layers_are_refused_by_name():
    layer, _ = random_weight(OUT, IN)
    good = checkpoint(layer, "modelopt")
    for name, value, words in (
        ("weight", torch.ones(OUT, IN), r"q_proj\.weight has dtype torch\.float32 and shape"),
        ("weight_scale", torch.full((OUT, IN // 16), 0x7F, dtype=torch.uint8), r"q_proj\.weight_scale has NaN"),
        ("weight_scale_2", torch.tensor(1e-40), r"q_proj\.weight_scale_2 is \[9\.99\d*e-41\]; expected one positive"),
        ("input_scale", torch.tensor(3e38), r"q_proj\.input_scale is \[\S*e\+38\]; expected one positive"),
        ("pre_quant_scale", torch.ones(IN), rf"{NAME}\.pre_quant_scale is there, which the layer would leave out"),
    ):
        with pytest.raises(ValueError, match=words):
            Linear.load(good | {f"{NAME}.{name}": value}, NAME)
    with pytest.raises(ValueError, match=r"q_proj\.weight_scale_2 and .*q_proj\.input_scale give products the scale 0"):
        tiny = {f"{NAME}.{name}": torch.tensor(1e-30) for name in ("weight_scale_2", "input_scale")}
        Linear.load(good | tiny, NAME)
    with pytest.raises(ValueError, match=rf"weight's bias has .* shape \(2,\); expected floating-point \({OUT},\)"):
        Linear.load(good | {f"{NAME}.bias": torch.ones(2)}, NAME)
    ignored = good | {f"{NAME}.pre_quant_scale": torch.ones(IN), f"{NAME}.k_scale": torch.ones(1)}
    assert torch.equal(Linear.load(ignored, NAME, ignore="pre_quant_scale").codes, Linear.load(good, NAME).codes)


def test_a_weight_of_any_strides_is_quantized():
    weight = torch.randn(64, 48)
    for one in (weight.T, weight[::2, :32], weight.bfloat16().T):
        found, want = quantize_linear(one, 6), quantize_linear(one.contiguous(), 6)
        assert torch.equal(found.codes, want.codes)
        assert torch.equal(found.factors.view(torch.uint8), want.factors.view(torch.uint8))


def test_what_is_no_tensor_is_named():
    weight = quantize_linear(torch.randn(32, 64), 6)
    for make, words in (
        (lambda: quantize_linear([[1.0, 2.0]]), r"weight is a list"),
        (lambda: Linear(weight._replace(codes=None)), r"weight's codes is a NoneType"),
        (lambda: Linear(weight._replace(factors=[1])), r"weight's factors is a list"),
        (lambda: Linear(weight, bias=[1.0]), r"weight's bias is a list"),
    ):
        with pytest.raises(TypeError, match=rf"^{words}; expected a torch\.Tensor$"):
            make()
