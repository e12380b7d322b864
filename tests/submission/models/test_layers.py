"""The modules: both conventions of names from files, against float64 by the reference, and what they refuse."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import warnings

import pytest
import torch
from safetensors.torch import load_file, save_file, save_model
from torch.autograd import forward_ad

from submission import GatedMLP, MoE, quantize_linear
from tests.submission.models.layer_kit import (
    ACTIVATIONS,
    HIDDEN,
    INTERMEDIATE,
    OF_INPUT,
    OF_KERNELS,
    OF_QUANTIZATION,
    PREFIX,
    PROJECTIONS,
    in_float64,
    relative,
    tensors_of,
)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("limit", [0.0, 0.5])
@pytest.mark.parametrize("convention", ["compressed-tensors", "modelopt"])
def test_a_checkpoints_layer_is_right(convention, limit, tmp_path):
    tensors, weights = tensors_of(1, convention)
    save_file(tensors | {"other": torch.ones(1)}, tmp_path / "layer.safetensors")
    mlp = GatedMLP.load(tmp_path / "layer.safetensors", PREFIX, limit=limit)
    halves = GatedMLP.load(tensors, PREFIX, limit=limit, quantize=False)
    for shape in ((1,), (17,), (2, 3), (0,)):
        x = torch.randn(*shape, HIDDEN, dtype=torch.bfloat16)
        want = in_float64(weights, x, limit)
        found = mlp(x)
        assert found.shape == x.shape and found.dtype == x.dtype
        if x.numel():
            assert 0.01 < relative(found, want) < OF_QUANTIZATION
            assert relative(found, in_float64(weights, x, limit, quantized=True)) < 2 * OF_KERNELS  # a tie may turn
            assert relative(halves(x), want) < OF_KERNELS


def test_errors_of_the_format_and_of_the_kernels_are_apart():
    tensors, weights = tensors_of(2, "modelopt")
    mlp, x = GatedMLP.load(tensors, PREFIX), torch.randn(33, HIDDEN)
    of_format, of_kernels = mlp.errors(x)
    assert abs(of_format - relative(mlp(x), in_float64(weights, x))) < 0.1 * of_format
    assert 0 < of_kernels < OF_KERNELS < of_format < OF_QUANTIZATION
    mlp.gate_proj.product_scale *= 1.05  # a kernel that forgot something
    assert mlp.errors(x).kernel > 2 * OF_KERNELS


def test_a_models_folder_is_read_by_its_index(tmp_path):
    tensors, weights = tensors_of(3, "compressed-tensors")
    names = sorted(tensors)
    parts = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for file, inside in parts.items():
        save_file({name: tensors[name] for name in inside}, tmp_path / file)
    places = {name: file for file, inside in parts.items() for name in inside}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    x = torch.randn(5, HIDDEN)
    assert relative(GatedMLP.load(tmp_path, PREFIX)(x), in_float64(weights, x)) < OF_QUANTIZATION
    with pytest.raises(FileNotFoundError, match="nowhere does not exist; expected"):
        GatedMLP.load(tmp_path / "nowhere", PREFIX)


@pytest.mark.parametrize("convention", ["compressed-tensors", "modelopt"])
def test_wrong_checkpoints_are_refused_by_name(convention):
    tensors, _ = tensors_of(4, convention)
    for missing in ("up_proj.weight_scale", "down_proj." + ("weight_packed" if "c" in convention[0] else "weight")):
        with pytest.raises(KeyError, match=missing.replace(".", r"\.")):
            GatedMLP.load({name: value for name, value in tensors.items() if name != PREFIX + missing}, PREFIX)
    inputs = PREFIX + "up_proj." + ("input_global_scale" if convention[0] == "c" else "input_scale")
    for wrong in (0.0, float("inf")):
        with pytest.raises(ValueError, match=r"up_proj\.input\w*_scale is \[\w+\.?0?\]; expected one positive finite"):
            GatedMLP.load(tensors | {inputs: torch.full((1,), wrong)}, PREFIX)
    with pytest.raises(ValueError, match=r"^up_proj's bias has .* shape \(1,\); expected floating-point \(192,\)"):
        GatedMLP.load(tensors | {f"{PREFIX}up_proj.bias": torch.zeros(1)}, PREFIX)
    for more in ("up_proj.weight_g_idx", "down_proj.pre_quant_scale"):
        with pytest.raises(ValueError, match=f"{PREFIX}{more} is there, which the layer would leave out"):
            GatedMLP.load(tensors | {PREFIX + more: torch.zeros(1)}, PREFIX)
    narrow = {
        name.replace("up_proj", "gate_proj"): value for name, value in tensors_of(5, convention, PREFIX, 64)[0].items()
    }
    with pytest.raises(
        ValueError, match=r"^up_proj has codes of shape \(192, 64\) on cpu; expected \(64, 64\) on cpu, as gate_proj's"
    ):
        GatedMLP.load(tensors | {name: value for name, value in narrow.items() if "gate" in name}, PREFIX)


def test_a_shared_input_is_quantized_with_the_smaller_scale():
    tensors, _ = tensors_of(9, "compressed-tensors")
    x, name = torch.randn(5, HIDDEN), PREFIX + "up_proj.input_global_scale"
    want = GatedMLP.load(tensors, PREFIX)
    mlp = GatedMLP.load(tensors | {name: tensors[name] * 8}, PREFIX)
    assert torch.equal(mlp(x), want(x)) and mlp.up_proj.input_scale == OF_INPUT


def test_wrong_widths_are_named():
    for hidden, intermediate, words in (
        (251, 512, "^hidden is 251; expected a positive even number"),
        (256, 521, "^intermediate is 521; expected a positive even number"),
        (256, 0, "^intermediate is 0;"),
    ):
        for make in (GatedMLP.random, lambda *widths: MoE.random(*widths, 4, 2)):
            with pytest.raises(ValueError, match=words):
                make(hidden, intermediate)
    tensors, _ = tensors_of(10, "modelopt")
    short = {name: value[..., : value.shape[-1] - 1] if value.dim() else value for name, value in tensors.items()}
    with pytest.raises(ValueError, match=r"gate_proj\.weight_scale has .* \(192, 7\); expected .* \(192, 8\)"):
        GatedMLP.load(short, PREFIX)
    short = {
        name: value[:, :-1] if "down_proj.weight" in name and value.dim() else value for name, value in tensors.items()
    }
    with pytest.raises(ValueError, match=r"down_proj\.weight_scale has .* \(128, 11\); expected .* \(128, 12\)"):
        GatedMLP.load(tensors | {name: value for name, value in short.items() if "down" in name}, PREFIX)
    mlp, other = GatedMLP.random(64, 64), GatedMLP.random(64, 128)
    experts = [[getattr(one, name).quantized() for name in PROJECTIONS] for one in (mlp, other)]
    with pytest.raises(ValueError, match=r"experts\.1\.gate_proj has codes of shape \(128, 32\); expected \(64, 32\)"):
        MoE(torch.ones(2, 64), experts, 1)
    with pytest.raises(ValueError, match=r"router has dtype torch.float32 and shape \(2, 32\); expected .* \(2, 64\)"):
        MoE(torch.ones(2, 32), experts[:1] * 2, 1)


@pytest.mark.parametrize("quantize", [True, False])
@pytest.mark.parametrize(("first", "last"), [(16, 96), (96, 192), (80, 184)])
def test_a_shard_of_any_width_is_padded_once(first, last, quantize):
    """As a tensor-parallel rank has it: some rows of gate and up, the same columns of down."""
    tensors, weights = tensors_of(6, "compressed-tensors")
    shard = {}
    for name, value in tensors.items():
        if value.dim() < 2:
            shard[name] = value
        elif "down_proj" in name:
            of_k = INTERMEDIATE // value.shape[1]
            shard[name] = value[:, first // of_k : -(-last // of_k)]
        else:
            shard[name] = value[first:last]
    mlp, x = GatedMLP.load(shard, PREFIX, quantize=quantize), torch.randn(9, HIDDEN)
    part = {
        name: weight[:, first:last] if name == "down_proj" else weight[first:last] for name, weight in weights.items()
    }
    more = (first - last) % 16  # the reference takes whole groups
    pads = {"gate_proj": (0, 0, 0, more), "up_proj": (0, 0, 0, more), "down_proj": (0, more)}
    part = {name: torch.nn.functional.pad(weight, pads[name]) for name, weight in part.items()}
    x = x.bfloat16().float()  # no rounding of x where it stays in 16 bits
    assert relative(mlp(x), in_float64(part, x, quantized=quantize)) < 2 * OF_KERNELS
    assert mlp.intermediate == last - first and mlp.down_proj.codes.shape == (HIDDEN, 128 // 2)


@pytest.mark.parametrize(("hidden", "intermediate"), [(128, 232), (232, 128), (104, 40)])
def test_widths_that_are_no_multiples_of_16(hidden, intermediate):
    shapes = (intermediate, hidden), (intermediate, hidden), (hidden, intermediate)
    weights = dict(zip(PROJECTIONS, (torch.randn(shape) * shape[1] ** -0.5 for shape in shapes), strict=True))
    x = torch.randn(5, hidden, dtype=torch.bfloat16)
    want = in_float64({name: weight.double() for name, weight in weights.items()}, x)
    linears = [quantize_linear(weight, most) for weight, most in zip(weights.values(), (6, 6, 16), strict=True)]
    for quantize in (True, False):
        mlp = GatedMLP(*linears, quantize=quantize)
        assert relative(mlp(x), want) < 0.3 and mlp.errors(x).kernel < OF_KERNELS
    moe = MoE(torch.zeros(2, hidden), [linears] * 2, 2)
    assert relative(moe(x), want) < 0.3 and moe.errors(x).kernel < OF_KERNELS


def test_weights_for_16_bits_need_no_scales_of_inputs():
    tensors, weights = tensors_of(7, "compressed-tensors")
    tensors = {name: value for name, value in tensors.items() if "input" not in name}
    with pytest.raises(KeyError, match=r"gate_proj\.input_global_scale is missing"):
        GatedMLP.load(tensors, PREFIX)
    x = torch.randn(5, HIDDEN, dtype=torch.bfloat16)
    assert relative(GatedMLP.load(tensors, PREFIX, quantize=False)(x), in_float64(weights, x)) < OF_KERNELS


def test_rows_with_scales_of_their_own():
    tensors, weights = tensors_of(7, "modelopt")
    tensors = {name: value for name, value in tensors.items() if "input" not in name}
    mlp, x = GatedMLP.load(tensors, PREFIX, scale="token"), torch.randn(5, HIDDEN, dtype=torch.bfloat16)
    x[1] *= 2**12
    y, want = mlp(x), in_float64(weights, x)
    for row in range(len(x)):
        assert relative(y[row], want[row]) < OF_QUANTIZATION
    assert mlp.errors(x).kernel < OF_KERNELS < mlp.errors(x).format


@pytest.mark.parametrize("options", [{}, {"scale": "token"}, {"quantize": False}])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_and_biases(activation, options):
    tensors, weights = tensors_of(8, "modelopt", intermediate=80)
    biases = [torch.linspace(-1, 1, n) for n in (80, 80, HIDDEN)]
    tensors |= {f"{PREFIX}{name}.bias": one.bfloat16() for name, one in zip(PROJECTIONS, biases, strict=True)}
    biases = [one.bfloat16().double() for one in biases]
    mlp, x = GatedMLP.load(tensors, PREFIX, activation=activation, **options), torch.randn(5, HIDDEN).bfloat16()
    exact = in_float64(weights, x, activation=activation, biases=biases)
    same = in_float64(weights, x, quantized=not options, activation=activation, biases=biases)
    y = mlp(x)
    assert (
        relative(y, exact) < (0.3 if activation == "relu2" else OF_QUANTIZATION) and mlp.errors(x).kernel < OF_KERNELS
    )
    assert "scale" in options or relative(y, same) < 2 * OF_KERNELS


def test_a_layer_of_floats_is_quantized():
    weights = [torch.randn(80, HIDDEN), torch.randn(80, HIDDEN), torch.zeros(HIDDEN, 80)]
    x = torch.randn(5, HIDDEN)
    for down in (weights[2], torch.randn(HIDDEN, 80)):
        names = dict(zip(PROJECTIONS, (*weights[:2], down), strict=True))
        mlp = GatedMLP(
            *(quantize_linear(weight, most) for weight, most in zip(names.values(), (5, 5, 1000), strict=True))
        )
        want = in_float64({name: weight.double() for name, weight in names.items()}, x)
        assert (mlp(x) - want).norm() <= 0.3 * want.norm()


@pytest.mark.parametrize(
    ("weight", "most", "words"),
    [
        (torch.ones(4, 17), 6, r"weight has shape \(4, 17\); expected \(N, K\), K even"),
        (torch.ones(16), 6, r"weight has shape \(16,\); expected \(N, K\)"),
        (torch.ones(4, 16), 0, "largest_input is 0; expected a finite number of at least 1e-30"),
    ],
)
def test_a_wrong_layer_of_floats_is_named(weight, most, words):
    with pytest.raises(ValueError, match=words):
        quantize_linear(weight, most)


def test_other_names_of_the_projections():
    tensors, _ = tensors_of(8, "modelopt")
    others = tensors
    for name, other in (("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2")):
        others = {key.replace(name, other): value for key, value in others.items()}
    x = torch.randn(3, HIDDEN)
    assert torch.equal(GatedMLP.load(others, PREFIX)(x), GatedMLP.load(tensors, PREFIX)(x))


MODULES = (
    lambda **to: GatedMLP.random(128, 80, **to),
    lambda **to: GatedMLP.random(128, 80, scale="token", **to),
    lambda **to: GatedMLP.random(128, 80, quantize=False, **to),
    lambda **to: MoE.random(128, 64, experts=4, top_k=2, **to),
    lambda **to: MoE.random(128, 64, experts=4, top_k=2, quantize=False, **to),
    lambda **to: MoE.random(128, 64, experts=4, top_k=2, scale="token", **to),
)


@pytest.mark.parametrize("make", MODULES)
def test_a_module_is_cast_copied_and_stored_like_any_other(make, tmp_path):
    module, x = make(), torch.randn(5, 128)
    want = module(x)
    for other in (
        copy.deepcopy(module).to(torch.bfloat16),
        copy.deepcopy(module).half().double(),
        pickle.loads(pickle.dumps(module)),
    ):
        assert torch.equal(other(x), want)
    save_file(module.state_dict(), tmp_path / "a.safetensors")
    save_model(module, str(tmp_path / "b.safetensors"))
    for file in ("a.safetensors", "b.safetensors"):
        other = make()
        other.load_state_dict(load_file(tmp_path / file))
        assert torch.equal(other(x), want)
    empty = make(device="meta")
    assert empty(x.to("meta")).shape == want.shape
    # As a file's memory has them: no tensor begins at a multiple of 16 bytes.
    state = {
        name: torch.cat((one.flatten()[:1], one.flatten()))[1:].view_as(one)
        for name, one in module.state_dict().items()
    }
    empty.load_state_dict(state, assign=True)
    assert torch.equal(empty(x), want)
    assert "hidden=128" in repr(module)


@pytest.mark.parametrize("make", MODULES)
def test_a_module_takes_any_strides_and_refuses_other_inputs_by_name(make):
    module, x = make(), torch.randn(6, 128)
    want = module(x)
    assert torch.equal(module(x.T.contiguous().T), want) and torch.equal(
        module(x.view(2, 3, 128)), want.view(2, 3, 128)
    )
    wide = torch.zeros(12, 200)
    wide[::2, 8:136] = x
    assert torch.equal(module(wide[::2, 8:136]), want)
    assert torch.equal(module(x[:1].expand(6, 128)), module(x[:1].repeat(6, 1)))
    overlapping = x.flatten().unfold(0, 128, 64)
    assert torch.equal(module(overlapping), module(overlapping.clone()))
    for wrong, words in (
        (x[:, :64], r"x has shape \(6, 64\); expected \(\.\.\., 128\)"),
        (x.double(), "x has dtype torch.float64; expected torch.float32 or torch.float16 or torch.bfloat16"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            module(wrong)
    with pytest.raises(ValueError, match="expected at least one row"):
        module.errors(x[:0])


@pytest.mark.parametrize("make", MODULES)
def test_a_backward_pass_is_refused(make):
    """Also beside a residual, where the gradient would be wrong without a word."""
    module, x = make(), torch.randn(3, 128, requires_grad=True)
    with pytest.raises(RuntimeError, match="asks for the gradient of x, and these operators have none"):
        (x + module(x)).sum().backward()
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="x has a tangent of forward-mode"):
        module(forward_ad.make_dual(x.detach(), x.detach()))
    with torch.no_grad():
        assert torch.equal(module(x), module(x.detach()))


def test_a_mixture_refuses_a_backward_pass_to_another_routers_weights():
    moe, x, ids = MoE.random(64, 64, 3, 2), torch.randn(4, 64), torch.zeros(4, 2, dtype=torch.int64)
    weights = torch.rand(4, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="asks for the gradient of weights, and these operators have none"):
        (moe(x, ids, weights).sum() + weights.sum()).backward()
    assert torch.equal(moe(x, ids, weights), moe(x, ids, weights.detach()))


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)  # imported by each call that reads a file
    with pytest.raises(ImportError, match="a checkpoint's files need the package safetensors: pip install safetensors"):
        GatedMLP.load("x.safetensors")


@pytest.mark.parametrize("normalize", [True, False])
def test_a_mixture_adds_its_experts_outputs(normalize):
    experts, top_k, tokens = 5, 2, 7
    tensors, weights = {}, []
    for number in range(experts):
        found, of_expert = tensors_of(10 + number, "modelopt", f"{PREFIX}experts.{number}.", 64)
        tensors |= found
        weights.append(of_expert)
    tensors[f"{PREFIX}gate.weight"] = torch.randn(experts, HIDDEN) * 0.2
    moe = MoE.load(tensors, PREFIX, top_k, normalize=normalize)
    x = torch.randn(tokens, HIDDEN)
    scores = torch.softmax(x.double() @ tensors[f"{PREFIX}gate.weight"].double().T, -1)
    best, chosen = scores.topk(top_k)
    if normalize:
        best = best / best.sum(-1, keepdim=True)
    want = torch.zeros(tokens, HIDDEN, dtype=torch.float64)
    same = torch.zeros(tokens, HIDDEN, dtype=torch.float64)
    for token in range(tokens):
        for score, number in zip(best[token], chosen[token].tolist(), strict=True):
            row = x[token : token + 1]
            want[token] += score * in_float64(weights[number], row)[0]
            same[token] += score * moe.expert(number)(row)[0].double()
    assert relative(moe(x), want) < OF_QUANTIZATION
    assert relative(moe(x), same) < OF_KERNELS
    assert moe(x.view(1, tokens, HIDDEN)).shape == (1, tokens, HIDDEN) and moe(x[:0]).shape == (0, HIDDEN)
    of_format, of_kernels = moe.errors(x)
    assert 0 < of_kernels < OF_KERNELS < of_format < 0.25


def test_a_mixture_takes_another_routers_choices():
    """Any ids and weights: one expert twice, none for -1 and for ids past the last one, leading dimensions."""
    moe, x = MoE.random(HIDDEN, 64, 4, 2), torch.randn(2, 3, HIDDEN)
    ids = torch.tensor([[[0, 3, 3], [-1, 4, 2], [1, 0, 2]], [[7, -5, -1], [2, 2, 2], [3, 1, -1]]])
    weights = torch.rand(2, 3, 3).bfloat16()
    want = torch.zeros(2, 3, HIDDEN, dtype=torch.float64)
    for place in torch.cartesian_prod(torch.arange(2), torch.arange(3)).tolist():
        for number, weight in zip(ids[*place].tolist(), weights[*place], strict=True):
            if 0 <= number < 4:
                want[*place] += weight.double() * moe.expert(number)(x[*place].unsqueeze(0))[0].double()
    for dtype in (torch.int32, torch.int64):
        found = moe(x, ids.to(dtype), weights)
        assert relative(found, want) < OF_KERNELS and not found[1, 0].any()
    assert torch.equal(moe(x, ids), moe(x, ids, torch.ones(2, 3, 3)))
    chosen = torch.stack(moe.route(x.view(6, HIDDEN))[::-1])
    assert torch.equal(moe(x), moe(x, chosen[0].long().view(2, 3, 2), chosen[1].float().view(2, 3, 2)))
    for arguments, words in (
        ((ids[0],), r"ids has shape \(3, 3\); expected \(2, 3, 3\), as x and ids"),
        ((ids, weights[..., :2]), r"weights has shape \(2, 3, 2\); expected \(2, 3, 3\)"),
        ((None, weights), "weights are given without ids"),
        ((ids[..., :0],), r"ids has shape \(2, 3, 0\); expected \(2, 3, 1\)"),
        ((torch.tensor(1),), r"ids has shape \(\); expected \(2, 3, 1\)"),
    ):
        with pytest.raises(ValueError, match=words):
            moe(x, *arguments)
    for arguments, name in ((([0],), "ids"), ((ids, [1.0]), "weights")):
        with pytest.raises(TypeError, match=rf"{name} is \[.*; expected a torch\.Tensor"):
            moe(x, *arguments)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_mixture_with_biases_and_another_activation(activation):
    tensors = {f"{PREFIX}gate.weight": torch.zeros(3, HIDDEN)}  # every expert's score is the same
    x, want, exact = torch.randn(5, HIDDEN), 0, 0
    for number in range(3):
        at = f"{PREFIX}experts.{number}."
        found, weights = tensors_of(30 + number, "compressed-tensors", at, 80)
        biases = [torch.randn(n) for n in (80, 80, HIDDEN)]
        tensors |= found | {f"{at}{name}.bias": one for name, one in zip(PROJECTIONS, biases, strict=True)}
        want = want + in_float64(weights, x, quantized=True, activation=activation, biases=biases) / 3
        exact = exact + in_float64(weights, x, activation=activation, biases=biases) / 3
    moe = MoE.load(tensors, PREFIX, 3, activation=activation)
    assert relative(moe(x), want) < 2 * OF_KERNELS
    without = {name: one for name, one in tensors.items() if "input" not in name}
    by_row, large = MoE.load(without, PREFIX, 3, activation=activation, scale="token"), x.clone()
    assert relative(by_row(x), exact) < 0.3 and by_row.errors(x[:1]).kernel < OF_KERNELS
    halves = MoE.load(without, PREFIX, 3, activation=activation, quantize=False)
    assert relative(halves(x), exact) < 2 * OF_KERNELS and halves.errors(x).format == 0
    large[2] *= 2**10
    assert torch.equal(by_row(large)[3:], by_row(x)[3:])
    del tensors[f"{PREFIX}experts.1.up_proj.bias"]
    with pytest.raises(ValueError, match=r"experts\.1\.up_proj has no bias; expected one, as other experts have"):
        MoE.load(tensors, PREFIX, 3)


def test_a_mixture_refuses_a_router_of_other_experts():
    linears = [[getattr(one, name).quantized() for name in PROJECTIONS] for one in [GatedMLP.random(64, 64)] * 2]
    for router, top_k in ((torch.ones(3, 64), 1), (torch.ones(2, 64), 3), (torch.ones(2, 64), 0)):
        with pytest.raises(ValueError, match=r"^top_k is \d and router has shape \(\d, 64\), with 2 experts"):
            MoE(router, linears, top_k)
    with pytest.raises(ValueError, match=r"^router has dtype torch\.float64 .* of 16 or 32 bits$"):
        MoE(torch.ones(2, 64, dtype=torch.float64), linears, 1)


def test_a_mixture_takes_a_trained_router():
    linears = [[getattr(one, name).quantized() for name in PROJECTIONS] for one in [GatedMLP.random(64, 64)] * 2]
    router, x = torch.nn.Parameter(torch.randn(2, 64)), torch.randn(3, 64)
    moe = MoE(router, linears, 1)
    assert not moe(x).requires_grad and torch.equal(copy.deepcopy(moe)(x), moe(x))


def test_a_wrong_number_of_biases_is_named():
    linears = [getattr(GatedMLP.random(64, 64), name).quantized() for name in PROJECTIONS]
    with pytest.raises(ValueError, match=r"^biases has 2 members; expected 3, one for each projection$"):
        GatedMLP(*linears, biases=(None, None))


@pytest.mark.parametrize("make", (MODULES[0], MODULES[-1]))
def test_a_module_compiles_as_one_graph(make):
    module, x = make(), torch.randn(5, 128)
    assert torch.equal(torch.compile(module, fullgraph=True, backend="aot_eager")(x), module(x))


@pytest.mark.parametrize("make", MODULES)
def test_a_module_is_traced(make):
    module, x = make(), torch.randn(5, 128)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch.jit itself
        assert torch.equal(torch.jit.trace(module, x)(x), module(x))
