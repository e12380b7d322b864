"""Checkpoints as ModelOpt and compressed-tensors publish them, through from_pretrained(), against float64."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

from submission import GatedMLP, backends
from tests.submission.models.huggingface.published_kit import (
    MODELS,
    TOKENS,
    AutoModelForCausalLM,
    Nvfp4GemmConfig,
    Published,
    errors_of_layers,
    logits,
    relative,
    transformers,
)

CARDS = torch.cuda.is_available() and {one.name for one in backends() if one.available} - {"cpu"}
BOTH = [(name, number % 2 == 0) for number, name in enumerate(MODELS)]
BOTH += [(name, number % 2 == 1) for number, name in enumerate(MODELS) if name in ("llama", "mixtral", "gpt_oss")]


@pytest.mark.parametrize(("name", "modelopt"), BOTH)
def test_a_model_computes_what_its_checkpoint_stands_for(tmp_path, name, modelopt):
    published = Published(tmp_path, name, modelopt=modelopt)
    model = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16)
    assert [at for at, one in model.named_modules() if type(one) is torch.nn.Linear] == ["lm_head"]
    reference = published.reference()
    errors = errors_of_layers(model, reference)
    assert len(errors) >= 2 * model.config.num_hidden_layers
    for at, error in errors.items():
        assert error < 4e-4, (at, error)
    wanted = logits(reference)
    rounded = relative(logits(published.reference(dtype=torch.float16)), wanted)  # torch in the model's dtype
    assert relative(logits(model), wanted) < 1.25 * rounded < relative(published.plain, wanted)


@pytest.mark.skipif(not CARDS, reason="no card that a backend supports")
@pytest.mark.parametrize("name", MODELS)
def test_a_model_on_a_card(tmp_path, name):
    published = Published(tmp_path, name)
    model = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16).to("cuda")
    # A GPU's exponential is approximate, so that a few numbers between two products get the next code.
    assert max(errors_of_layers(model, published.reference()).values()) < 0.01


@pytest.mark.parametrize("name", ["mixtral", "nemotron_h"])
def test_all_experts_in_one_tensor_with_a_scale_for_each(tmp_path, name):
    published = Published(tmp_path, name, stacked=True)
    model = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16)
    assert max(errors_of_layers(model, published.reference()).values()) < 4e-4


@pytest.mark.parametrize("name", MODELS)
def test_a_model_with_16_bit_activations(tmp_path, name):
    published = Published(tmp_path, name, modelopt=name == "phi3", inputs=False)
    model = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16)
    assert relative(logits(model), logits(published.reference())) < 3e-3


@pytest.mark.parametrize("kind", ["16bit", "calibrated", "token"])
def test_experts_with_an_activation_of_no_known_name(tmp_path, kind):
    published = Published(tmp_path, "qwen3_moe", hidden_act="gelu")
    model = AutoModelForCausalLM.from_pretrained(
        published.folder, dtype=torch.float16, quantization_config=Nvfp4GemmConfig(activations=kind)
    )
    errors = errors_of_layers(model, published.reference({"16bit": "leave"}.get(kind, kind)))
    assert max(errors.values()) < (1e-3 if kind == "16bit" else 0.03), errors


def test_experts_with_a_limit_that_few_numbers_reach(tmp_path):
    published = Published(tmp_path, "deepseek_v4", inputs=False, swiglu_limit=30.0, **MODELS["mixtral"])
    model = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16)
    x, ids = 60 * torch.randn(6, 128).half(), torch.arange(12).reshape(6, 2) % 8
    found, wanted = (
        one.get_submodule("model.layers.0.mlp.experts")(x.to(one.dtype), ids, torch.ones(6, 2, dtype=one.dtype))
        for one in (model, published.reference())
    )
    assert relative(found, wanted) < 1e-3


@pytest.mark.parametrize(
    ("name", "changes"), [("llama", {"mlp_bias": True, "attention_bias": True}), ("phi3", {}), ("gemma3_text", {})]
)
def test_a_gated_mlp_is_one_layer_and_saved_as_its_projections(tmp_path, name, changes):
    published = Published(tmp_path, name, modelopt=False, **changes)
    model = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16)
    assert all(isinstance(layer.mlp, GatedMLP) for layer in model.model.layers)
    assert max(errors_of_layers(model, published.reference()).values()) < 4e-4
    model.save_pretrained(tmp_path / "again")
    saved = load_file(tmp_path / "again" / "model.safetensors")
    assert saved.keys() == published.tensors.keys()
    packed = [key for key in saved if key.endswith(("weight_packed", "weight_scale"))]
    assert all(torch.equal(saved[key].view(torch.uint8), published.tensors[key].view(torch.uint8)) for key in packed)


def test_float_and_fp8_layers_beside_nvfp4(tmp_path):
    published = Published(
        tmp_path, "llama", ignore=lambda key: "layers.0.self_attn" in key, fp8=lambda key: "layers.1.mlp" in key
    )
    model = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16)
    floats = {at for at, one in model.named_modules() if type(one) is torch.nn.Linear}
    mlp = {f"model.layers.1.mlp.{one}_proj" for one in ("gate", "up", "down")}
    assert floats == {"lm_head", *mlp, *(f"model.layers.0.self_attn.{one}_proj" for one in "qkvo")}
    reference = published.reference()
    assert max(errors_of_layers(model, reference).values()) < 4e-4
    for at in floats:
        assert relative(model.get_submodule(at).weight, reference.get_submodule(at).weight) < 3e-4


@pytest.mark.parametrize("modelopt", [True, False])
def test_float_experts_beside_nvfp4_ones(tmp_path, modelopt):
    published = Published(tmp_path, "mixtral", modelopt=modelopt, ignore=lambda key: "layers.0.block_sparse_moe" in key)
    model = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16)
    errors = errors_of_layers(model, published.reference())
    assert max(errors.values()) < 1e-3 and {f"model.layers.{number}.mlp.experts" for number in (0, 1)} < errors.keys()


def test_the_base_model_of_a_causal_checkpoint(tmp_path):
    published = Published(tmp_path, "qwen2", inputs=False)
    whole = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16)
    base = transformers.AutoModel.from_pretrained(published.folder, dtype=torch.float16)
    tokens = torch.arange(9)[None]
    with torch.no_grad():
        assert torch.equal(base(tokens).last_hidden_state, whole.model(tokens).last_hidden_state)


MODELOPTS = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}


@pytest.mark.parametrize(
    ("beside", "given"),
    [
        (None, {"quantization_config": Nvfp4GemmConfig()}),
        ({"producer": {"name": "modelopt", "version": "0.33"}, "quantization": MODELOPTS}, {}),
    ],
    ids=["nowhere", "in ModelOpt's own file"],
)
def test_a_folder_whose_config_does_not_speak_of_quantization(tmp_path, beside, given):
    published = Published(tmp_path, "llama")
    whole = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16)
    file = published.folder / "config.json"
    config = json.loads(file.read_text())
    del config["quantization_config"]
    file.write_text(json.dumps(config))
    if beside is not None:
        (published.folder / "hf_quant_config.json").write_text(json.dumps(beside))
    older = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16, **given)
    assert torch.equal(logits(older), logits(whole))
    older.save_pretrained(tmp_path / "again")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "again", dtype=torch.float16)
    assert torch.equal(logits(again), logits(whole))


def test_a_family_that_initializes_the_weights_of_a_blocks_layers(tmp_path):
    published = Published(tmp_path, "recurrent_gemma")
    file = published.folder / "config.json"
    file.write_text(file.read_text().replace('"modelopt"', '"modelopt_fp4"'))  # as some name the format
    model = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16)
    errors = errors_of_layers(model, published.reference())
    assert max(errors.values()) < 4e-4 and "model.layers.1.temporal_block.linear_out" in errors


def test_a_configuration_chooses_16_bit_activations(tmp_path):
    published = Published(tmp_path, "llama")
    model = AutoModelForCausalLM.from_pretrained(
        published.folder, dtype=torch.float16, quantization_config=Nvfp4GemmConfig(activations="16bit")
    )
    assert relative(logits(model), logits(published.reference("leave"))) < 3e-3


def test_generated_tokens_follow_the_reference(tmp_path):
    published = Published(tmp_path, "qwen3", inputs=False)
    model = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16)
    prompt = torch.tensor([[5, 9, 14, 3]])
    options = {"max_new_tokens": 8, "do_sample": False}
    assert torch.equal(model.generate(prompt, **options), published.reference().generate(prompt, **options))


@pytest.mark.parametrize("name", ["llama4_text", "gpt_oss"])
def test_a_call_that_may_record_derivatives(tmp_path, name):
    model = AutoModelForCausalLM.from_pretrained(Published(tmp_path, name).folder, dtype=torch.bfloat16)
    assert torch.equal(model(TOKENS, use_cache=False).logits.double(), logits(model))


def test_experts_elsewhere_add_nothing(tmp_path):
    model = AutoModelForCausalLM.from_pretrained(Published(tmp_path, "qwen3_moe").folder, dtype=torch.float16)
    experts = model.model.layers[0].mlp.experts
    x, ids = torch.randn(6, 128, dtype=torch.float16), torch.randint(0, 8, (6, 2))
    weights = torch.rand(6, 2)
    with torch.no_grad():
        alone = experts(x, ids[:, :1], weights[:, :1])
        for elsewhere in (8, 11, -1):
            mixed = torch.stack((ids[:, 0], torch.full((6,), elsewhere)), 1)
            assert torch.equal(experts(x, mixed, weights), alone)
