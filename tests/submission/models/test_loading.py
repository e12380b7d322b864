"""Checkpoints as they are published: right, or refused by the name of what a layer would leave out."""

from __future__ import annotations

import json
import re

import pytest
import torch
from safetensors.torch import save_file

from submission import GatedMLP, Linear, MoE
from tests.submission.models.layer_kit import (
    HIDDEN,
    OF_KERNELS,
    PREFIX,
    PROJECTIONS,
    in_float64,
    relative,
    tensors_of,
)

EXPERTS, WIDTH = 4, 64


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def folder_of(path, tensors, **config):
    save_file(tensors, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(config))
    return path


def mixture(convention="modelopt"):
    """The tensors of a mixture whose gate and up share their scales, as fused checkpoints have them."""
    tensors = {f"{PREFIX}gate.weight": torch.randn(EXPERTS, HIDDEN) * 0.2}
    for number in range(EXPERTS):
        at = f"{PREFIX}experts.{number}."
        found, _ = tensors_of(20 + number, convention, at, WIDTH)
        rows = dict(zip(PROJECTIONS, (WIDTH, WIDTH, HIDDEN), strict=True))
        found |= {f"{at}{name}.bias": torch.randn(n) for name, n in rows.items()}
        for name in ("weight_scale_2", "weight_global_scale"):
            if f"{at}up_proj.{name}" in found:
                found[f"{at}up_proj.{name}"] = found[f"{at}gate_proj.{name}"].clone()
        tensors |= found
    return tensors


def rows_of(gate, up, weights):
    """Gate and up in one tensor, stacked or in turn."""
    if weights == "stacked":
        return torch.cat((gate, up))
    return torch.stack((gate, up), 1).flatten(0, 1)


def merged(tensors, at, weights):
    """The layer AT with gate and up in one weight."""
    found = {name: one for name, one in tensors.items() if not name.startswith((f"{at}gate_proj", f"{at}up_proj"))}
    for name, one in tensors.items():
        if name.startswith(f"{at}gate_proj."):
            field = name.removeprefix(f"{at}gate_proj.")
            both = rows_of(one, tensors[f"{at}up_proj.{field}"], weights) if one.dim() == 2 or field == "bias" else one
            found[f"{at}gate_up_proj.{field}"] = both
    return found


# --- nothing is left out --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "shared_experts.up_proj.weight",
        "shared_expert_gate.weight",
        "gate.e_score_correction_bias",
        "gate.bias",
        "experts.4.gate_proj.weight",
        "experts.0.gate_proj.weight_g_idx",
        "experts.gate_up_proj_bias2",
    ],
)
def test_a_mixture_refuses_what_it_would_leave_out_unless_it_is_named(name):
    tensors = mixture()
    more = tensors | {PREFIX + name: torch.zeros(EXPERTS, 8)}
    with pytest.raises(ValueError, match=rf"{PREFIX}{name}(\[0\])? is there, which the layer would leave out"):
        MoE.load(more, PREFIX, 2)
    x = torch.randn(5, HIDDEN)
    beginning = name if name.startswith(("gate", "experts")) else "shared_expert"
    if not name.startswith("experts.gate_up"):
        assert torch.equal(MoE.load(more, PREFIX, 2, ignore=[beginning])(x), MoE.load(tensors, PREFIX, 2)(x))


def test_tensors_of_other_layers_do_not_matter(tmp_path):
    tensors, _ = tensors_of(1, "modelopt")
    others = {
        "model.layers.0.mlp_norm.weight": torch.ones(2),
        "model.layers.0.self_attn.q_proj.weight": torch.ones(4, 4).to(torch.float8_e4m3fn),
        "model.layers.00.mlp.up_proj.bias": torch.ones(3, dtype=torch.bfloat16),
    }
    found = GatedMLP.load(folder_of(tmp_path, tensors | others, hidden_act="silu"), PREFIX.removesuffix("."))
    assert torch.equal(found.up_proj.codes, GatedMLP.load(tensors, PREFIX).up_proj.codes)


# --- config.json ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"hidden_act": "silu", "hidden_activation": "quick_gelu"}, "hidden_activation 'quick_gelu'"),
        ({"text_config": {"hidden_act": "relu"}, "hidden_act": "silu"}, "hidden_act 'relu'"),
        ({"hidden_act": ["silu", "gelu"]}, r"hidden_act \['silu', 'gelu'\]; expected one of silu"),
        ({"ffn_act_fn": {"name": "silu"}}, "ffn_act_fn {'name': 'silu'}; expected one of silu"),
        ({"mlp_activation": "gelu"}, "mlp_activation 'gelu'"),
        ({"swiglu_limit": 7.0}, "swiglu_limit 7.0; expected alpha= and beta="),
        ({"swiglu_limit": [7.0, 0.0]}, r"swiglu_limit \[7.0, 0.0\]; expected one number, or limit="),
        ({"clamp_limit": 1.0}, "clamp_limit 1.0"),
        ({"swiglu_limits": [0.0, 7.0]}, r"swiglu_limits \[0.0, 7.0\]"),
        ({"mlp_multipliers": [0.5, 1.0]}, r"mlp_multipliers \[0.5, 1.0\]"),
        ({"activation_sparsity_pattern": [0.95]}, r"activation_sparsity_pattern \[0.95\]"),
        ({"quantization_config": {"transform_config": {"config_groups": {}}}}, "transform_config"),
        ({"quantization_config": {"online_rotation": {"size": 16}}}, "online_rotation"),
    ],
)
def test_an_option_that_a_layer_cannot_honour_is_refused_by_name(config, words, tmp_path):
    tensors, _ = tensors_of(2, "modelopt")
    folder = folder_of(tmp_path, tensors, **config)
    for source in (folder, folder / "model.safetensors"):
        with pytest.raises(ValueError, match=rf"config\.json has {words}"):
            GatedMLP.load(source, PREFIX)
    assert GatedMLP.load(tensors, PREFIX).hidden == HIDDEN


def test_a_models_activation_is_computed(tmp_path):
    tensors, weights = tensors_of(2, "modelopt")
    folder = folder_of(tmp_path, tensors, hidden_activation="gelu_pytorch_tanh", hidden_act="gelu")
    x = torch.randn(5, HIDDEN)
    want = in_float64(weights, x, quantized=True, activation="gelu_tanh")
    assert relative(GatedMLP.load(folder, PREFIX)(x), want) < 2 * OF_KERNELS
    assert GatedMLP.load(folder, PREFIX, activation="silu").activation == "silu"


def test_options_are_read_unless_they_are_given(tmp_path):
    tensors, _ = tensors_of(3, "modelopt")
    options = {"swiglu_limit": 0.5, "swiglu_alpha": 1.702, "swiglu_beta": 1.0, "hidden_act": "silu"}
    vision = {"vision_config": {"hidden_act": "gelu"}, "mlp_bias": False, "moe_aux_loss_alpha": 0.1}
    folder = folder_of(tmp_path, tensors, **options, **vision)
    mlp = GatedMLP.load(folder, PREFIX)
    assert (mlp.limit, mlp.alpha, mlp.beta) == (0.5, 1.702, 1.0)
    assert GatedMLP.load(folder, PREFIX, limit=2.0).limit == 2.0
    tower = {name.replace("model", "vision_tower", 1): one for name, one in tensors.items()}
    with pytest.raises(ValueError, match="hidden_act 'gelu'"):
        GatedMLP.load(folder_of(tmp_path, tower, **options, **vision), PREFIX.replace("model", "vision_tower", 1))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"scoring_func": "sigmoid"}, "scoring_func 'sigmoid'"),
        ({"moe_router_activation_func": "sigmoid"}, "moe_router_activation_func 'sigmoid'"),
        ({"gating_function": "sigmoid"}, "gating_function 'sigmoid'"),
        ({"n_group": 8, "topk_group": 4}, "n_group 8"),
        ({"moe_router_num_groups": 8}, "moe_router_num_groups 8"),
        ({"num_limited_groups": 2}, "num_limited_groups 2"),
        ({"num_expert_group": 2}, "num_expert_group 2"),
        ({"topk_method": "noaux_tc"}, "topk_method 'noaux_tc'"),
        ({"routed_scaling_factor": 2.5}, r"routed_scaling_factor 2\.5"),
        ({"use_grouped_topk": True}, "use_grouped_topk True"),
        ({"expert_selection_fn": "sigmoid"}, "expert_selection_fn 'sigmoid'"),
        ({"router_use_sigmoid": True}, "router_use_sigmoid True"),
        ({"expert_weights_scale": 2.5}, r"expert_weights_scale 2\.5"),
        ({"route_scale": 2.0}, r"route_scale 2\.0"),
        ({"moe_scaling_factor": 2.0}, r"moe_scaling_factor 2\.0"),
        ({"router_temperature": 2.0}, r"router_temperature 2\.0"),
        ({"use_routing_bias": True}, "use_routing_bias True"),
        ({"use_expert_bias": True}, "use_expert_bias True"),
        ({"router_logit_softcapping": 30.0}, "router_logit_softcapping 30"),
        ({"model_type": "flint", "norm_topk_prob": True}, "model_type 'flint'; expected a router with softmax, or ign"),
        ({"model_type": "phimoe"}, "no norm_topk_prob, model_type 'phimoe'; expected normalize="),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
    ],
)
def test_a_routers_option_is_refused_by_name(config, words, tmp_path):
    folder = folder_of(tmp_path, mixture(), **config)
    with pytest.raises(ValueError, match=rf"config\.json has {words}"):
        MoE.load(folder, PREFIX, 2)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, r"top_k is None and not in .*config\.json; expected top_k="),
        ({"moe_topk": [2, 2]}, r"config\.json has moe_topk \[2, 2\]; expected one whole number, or top_k="),
        ({"num_experts_per_tok": 2.0}, r"config\.json has num_experts_per_tok 2\.0; expected one whole number"),
    ],
)
def test_a_number_of_choices_that_is_none(config, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        MoE.load(folder_of(tmp_path, mixture(), **config), PREFIX)


def test_a_routers_options_are_read_unless_they_are_given(tmp_path):
    neutral = {"n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0, "scoring_func": "softmax"}
    tensors, x = mixture(), torch.randn(7, HIDDEN)
    folder = folder_of(tmp_path, tensors, num_experts_per_tok=3, norm_topk_prob=False, top_k=50, **neutral)
    moe = MoE.load(folder, PREFIX)
    assert moe.top_k == 3 and torch.equal(moe(x), MoE.load(tensors, PREFIX, 3, normalize=False)(x))
    assert MoE.load(folder, PREFIX, 2, normalize=True).top_k == 2
    scores = torch.softmax(x @ tensors[f"{PREFIX}gate.weight"].T, -1).topk(3)[0]
    assert relative(moe.route(x)[0], scores.double()) < 1e-6
    folder_of(tmp_path, tensors, model_type="mixtral", num_experts_per_tok=2, topk_method="noaux_tc")
    assert MoE.load(folder, PREFIX, ignore=["topk_method"]).normalize


def test_experts_of_another_router_are_loaded_where_its_names_are_ignored(tmp_path):
    tensors = mixture() | {f"{PREFIX}gate.e_score_correction_bias": torch.ones(EXPERTS)}
    names = ("scoring_func", "routed_scaling_factor", "gate.e_score_correction_bias")
    folder = folder_of(tmp_path, tensors, scoring_func="sigmoid", routed_scaling_factor=2.5, num_experts_per_tok=2)
    moe, x = MoE.load(folder, PREFIX, ignore=names), torch.randn(5, HIDDEN)
    ids, weights = torch.tensor([[3], [0], [-1], [3], [1]]), torch.full((5, 1), 0.5)
    found = moe(x, ids, weights)
    for token, expert in enumerate(ids.flatten().tolist()):
        want = torch.zeros(1, HIDDEN) if expert < 0 else moe.expert(expert)(x[token : token + 1]) / 2
        assert (found[token] - want[0]).norm() <= OF_KERNELS * want.norm()


# --- one weight for several ------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["stacked", "interleaved1"])
@pytest.mark.parametrize("convention", ["compressed-tensors", "modelopt"])
def test_gate_and_up_in_one_weight(convention, weights, tmp_path):
    tensors, values = tensors_of(4, convention)
    scale = "weight_scale_2" if convention == "modelopt" else "weight_global_scale"
    one, other = (tensors[f"{PREFIX}{name}.{scale}"] for name in PROJECTIONS[:2])
    values["up_proj"] = values["up_proj"] * (one / other if convention == "modelopt" else other / one).double()
    mlp, x = GatedMLP.load(merged(tensors, PREFIX, weights), PREFIX, weights=weights), torch.randn(5, HIDDEN)
    assert relative(mlp(x), in_float64(values, x, quantized=True)) < 2 * OF_KERNELS
    save_file(mlp.state_dict(), tmp_path / "saved.safetensors")
    with pytest.raises(ValueError, match=r"gate_up_proj has 384 rows with weights 'interleaved5'; expected"):
        GatedMLP.load(merged(tensors, PREFIX, "stacked"), PREFIX, weights="interleaved5")


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("weights", ["stacked", "interleaved1"])
@pytest.mark.parametrize("join", ["_", "."])
@pytest.mark.parametrize("convention", ["compressed-tensors", "modelopt"])
def test_experts_in_one_tensor(convention, join, weights, transposed):
    tensors, x = mixture(convention), torch.randn(9, HIDDEN)
    fused = {f"{PREFIX}gate.weight": tensors[f"{PREFIX}gate.weight"]}
    each = [
        merged({name: one for name, one in tensors.items() if name.startswith(at)}, at, weights)
        for at in (f"{PREFIX}experts.{number}." for number in range(EXPERTS))
    ]
    for name in each[0]:
        projection, field = name.split(".")[-2:]
        stacked = torch.stack([one[name.replace("experts.0", f"experts.{e}")] for e, one in enumerate(each)])
        stacked = stacked.transpose(1, 2).contiguous() if transposed and stacked.dim() == 3 else stacked
        fused[f"{PREFIX}experts.{projection}" + ("" if field == "weight" else f"{join}{field}")] = stacked
    assert torch.equal(MoE.load(fused, PREFIX, 2, weights=weights)(x), MoE.load(tensors, PREFIX, 2)(x))
    name = next(name for name in fused if name.endswith(("input_scale", "input_global_scale")))
    with pytest.raises(ValueError, match=rf"{name}\[2\] is \[0\.0\]; expected one positive"):
        MoE.load(fused | {name: torch.tensor([1.0, 1.0, 0.0, 1.0])}, PREFIX, 2, weights=weights)
    with pytest.raises(ValueError, match=rf"{name} has shape \(3,\); expected 4 experts first"):
        MoE.load(fused | {name: torch.ones(3)}, PREFIX, 2, weights=weights)
    with pytest.raises(
        ValueError, match=r"experts\.0\.down_proj\.\w+ is in \S+down_proj\S* and by itself; expected one"
    ):
        MoE.load(tensors | fused, PREFIX, 2, weights=weights)
    blocks = {
        f"{PREFIX}gate.weight": tensors[f"{PREFIX}gate.weight"],
        f"{PREFIX}experts.gate_up_proj_blocks": torch.ones(EXPERTS),
    }
    with pytest.raises(KeyError, match=r"is missing; .* beside .*experts\.gate_up_proj_blocks"):
        MoE.load(blocks, PREFIX, 2)


# --- dtypes, numbers, files ------------------------------------------------------------------------------------


def test_fp4_codes_bytes_of_factors_and_scales_of_other_dtypes_are_taken():
    tensors, _ = tensors_of(5, "modelopt")
    for name in PROJECTIONS:
        for field in ("weight_scale_2", "input_scale"):
            tensors[f"{PREFIX}{name}.{field}"] = tensors[f"{PREFIX}{name}.{field}"].bfloat16().float()
    others = {}
    for name, one in tensors.items():
        kinds = {torch.uint8: torch.float4_e2m1fn_x2, torch.float8_e4m3fn: torch.uint8}
        others[name] = one.view(kinds[one.dtype]) if one.dtype in kinds else one.bfloat16()
    x = torch.randn(3, HIDDEN)
    assert torch.equal(GatedMLP.load(others, PREFIX)(x), GatedMLP.load(tensors, PREFIX)(x))


@pytest.mark.parametrize("name", ["up_proj.weight_scale_2", "down_proj.input_scale"])
def test_scales_with_infinite_reciprocals_and_nan_factors_are_refused_by_name(name):
    tensors, _ = tensors_of(6, "modelopt")
    for wrong in (1e-40, -1.0, float("nan"), 3e38):
        with pytest.raises(ValueError, match=rf"{PREFIX}{name} is \[.*\]; expected one positive finite number"):
            GatedMLP.load(tensors | {PREFIX + name: torch.tensor(wrong)}, PREFIX)
    factors = tensors[f"{PREFIX}up_proj.weight_scale"].view(torch.uint8).clone()
    for wrong, words in ((0xFF, "NaN"), (0x81, "negative numbers")):  # the least below zero
        factors[3, 5] = wrong
        with pytest.raises(ValueError, match=rf"{PREFIX}up_proj\.weight_scale has {words} among its scale factors"):
            GatedMLP.load(tensors | {f"{PREFIX}up_proj.weight_scale": factors.view(torch.float8_e4m3fn)}, PREFIX)
    factors[3, 5] = 0x80  # a zero
    GatedMLP.load(tensors | {f"{PREFIX}up_proj.weight_scale": factors}, PREFIX)


def test_a_shard_that_is_missing_or_broken_is_named(tmp_path):
    tensors, _ = tensors_of(7, "modelopt")
    names = sorted(tensors)
    places = dict.fromkeys(names, "a.safetensors") | {names[0]: "b.safetensors", "other": "c.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    save_file({name: tensors[name] for name in names[1:]}, tmp_path / "a.safetensors")
    with pytest.raises(FileNotFoundError, match=r"b\.safetensors does not exist; .*index\.json places .* in it"):
        GatedMLP.load(tmp_path, PREFIX)
    (tmp_path / "b.safetensors").write_bytes(b"\1\0\0\0\0\0\0\0{")
    with pytest.raises(ValueError, match=r"b\.safetensors is no whole safetensors file: "):
        GatedMLP.load(tmp_path, PREFIX)
    save_file({names[0]: tensors[names[0]]}, tmp_path / "b.safetensors")
    assert GatedMLP.load(tmp_path, PREFIX).hidden == HIDDEN


@pytest.mark.parametrize(
    ("router", "words"),
    [
        (torch.ones(EXPERTS), r"gate\.weight has shape \(4,\); expected \(E, hidden\)"),
        (
            torch.ones(EXPERTS, HIDDEN).to(torch.float8_e4m3fn),
            r"router has dtype torch\.float8_e4m3fn .*of 16 or 32 bits",
        ),
    ],
)
def test_routers_of_other_forms_are_refused(router, words):
    with pytest.raises(ValueError, match=words):
        MoE.load(mixture() | {f"{PREFIX}gate.weight": router}, PREFIX, 2)


def test_what_is_no_tensor_and_no_object_of_json_is_refused(tmp_path):
    name = f"{PREFIX}up_proj.weight"
    with pytest.raises(TypeError, match=f"{name} is a ndarray; expected a torch.Tensor"):
        Linear.load({name: torch.zeros(4, 8).byte().numpy()}, f"{PREFIX}up_proj")
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"config\.json is a list; expected an object of JSON"):
        Linear.load(tmp_path, f"{PREFIX}up_proj")


def test_a_tensor_in_two_files_is_refused(tmp_path):
    tensors, _ = tensors_of(7, "modelopt")
    name = f"{PREFIX}up_proj.weight"
    save_file(tensors, tmp_path / "a.safetensors")
    save_file({name: 255 - tensors[name]}, tmp_path / "b.safetensors")
    with pytest.raises(
        ValueError, match=rf"{name} is in \S+a\.safetensors and in \S+b\.safetensors; expected it in one"
    ):
        GatedMLP.load(tmp_path, PREFIX)


@pytest.mark.parametrize("text", ["{", "[]", '{"weight_map": 3}', f'{{"weight_map": {{"{PREFIX}up_proj.weight": 3}}}}'])
def test_an_index_without_files_is_refused(text, tmp_path):
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(ValueError, match=r"index\.json has no weight_map with a file for each tensor"):
        GatedMLP.load(tmp_path, PREFIX)


@pytest.mark.parametrize(
    ("field", "one", "words"),
    [
        ("weight", torch.zeros(0, HIDDEN // 2).byte(), r"has shape \(0, 64\); expected at least one row"),
        ("weight", torch.zeros(192, HIDDEN).to(torch.float8_e4m3fn), r"float8_e4m3fn .*; expected uint8 \(N, K/2\)$"),
        ("weight_scale_2", torch.ones(192), "is 192 numbers; expected one positive finite number"),
    ],
)
def test_tensors_of_other_forms_are_refused_in_few_words(field, one, words):
    tensors, _ = tensors_of(7, "modelopt")
    with pytest.raises(ValueError, match=rf"{PREFIX}up_proj\.{field} (is|has) .*") as error:
        GatedMLP.load(tensors | {f"{PREFIX}up_proj.{field}": one}, PREFIX)
    assert re.search(words, str(error.value))


def test_a_mixture_without_scales_of_inputs_takes_other_activations():
    tensors = {name: one for name, one in mixture().items() if "input" not in name}
    with pytest.raises(KeyError, match=r"gate_proj\.input_scale is missing; expected it, .*quantize=False"):
        MoE.load(tensors, PREFIX, 2)
    for options in ({"quantize": False}, {"scale": "token"}):
        assert MoE.load(tensors, PREFIX, 2, **options).experts.up_proj.input_scale is None


def test_a_layer_by_itself_reads_the_config_too(tmp_path):
    tensors, _ = tensors_of(8, "modelopt")
    folder = folder_of(tmp_path, tensors, quantization_config={"transform_config": {"R1": {}}})
    with pytest.raises(ValueError, match="transform_config"):
        Linear.load(folder, f"{PREFIX}up_proj")
    assert Linear.load(folder, f"{PREFIX}up_proj", ignore="transform_config").in_features == HIDDEN


def test_a_checkpoint_that_is_not_quantized_is_refused_in_its_own_words():
    weight = {"m.proj.weight": torch.zeros(128, 64, dtype=torch.bfloat16)}
    with pytest.raises(ValueError, match=r"m\.proj\.weight has dtype torch\.bfloat16 .*: these are not quantized"):
        Linear.load(weight, "m.proj")
