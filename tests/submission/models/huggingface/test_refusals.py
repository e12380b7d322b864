"""What the integration cannot compute is refused by name, before a model answers."""

from __future__ import annotations

import json
import re
import sys
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from submission import MoE
from tests.submission.models.huggingface.published_kit import (
    ALL_EXPERTS_FUNCTIONS,
    AutoModelForCausalLM,
    Nvfp4GemmConfig,
    Published,
    logits,
    random_model,
    transformers,
)


def load(folder, **options):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **options)


def change(folder, changes, without=()):
    """Adds tensors to a checkpoint and takes some out; one file is left."""
    files = sorted(folder.glob("*.safetensors"))
    tensors = {name: one for file in files for name, one in load_file(file).items() if name not in without}
    for file in (*files, folder / "model.safetensors.index.json"):
        file.unlink()
    save_file(tensors | changes, folder / "model.safetensors", {"format": "pt"})


def say(folder, **changes):
    """Changes quantization_config."""
    file = folder / "config.json"
    config = json.loads(file.read_text())
    config["quantization_config"] |= changes
    file.write_text(json.dumps(config))


LAYER = "model.layers.1.mlp.up_proj"
PACKED = torch.ones(256, 64, dtype=torch.uint8)
FACTORS = torch.ones(256, 8).to(torch.float8_e4m3fn)
SCALES = {f"{LAYER}.weight_scale", f"{LAYER}.weight_scale_2", f"{LAYER}.input_scale"}
INT8, FLOATS = (torch.ones(192, 128, dtype=one) for one in (torch.int8, torch.bfloat16))


@pytest.mark.parametrize(
    ("changes", "without", "error", "message"),
    [
        ({}, {f"{LAYER}.weight_scale_2"}, KeyError, f"{LAYER}.weight_scale_2 is missing"),
        ({}, {f"{LAYER}.input_scale"}, KeyError, f"{LAYER}.input_scale is missing"),
        ({f"{LAYER}.pre_quant_scale": torch.ones(128)}, (), ValueError, f"{LAYER}.pre_quant_scale is there"),
        ({f"{LAYER}.weight_scale_2": torch.tensor(1e-42)}, (), ValueError, f"{LAYER}.weight_scale_2 is .*expected one"),
        ({f"{LAYER}.weight": INT8}, SCALES, ValueError, f"{LAYER}.weight has dtype I8; expected U8 "),
        ({f"{LAYER}.weight": INT8.to(torch.float8_e5m2)}, SCALES, ValueError, f"{LAYER}.weight has dtype F8_E5M2; exp"),
        (
            {f"{LAYER}.weight": FLOATS, f"{LAYER}.pre_quant_scale": torch.ones(128)},
            SCALES, ValueError, f"{LAYER}.pre_quant_scale is there, which a layer of floats would leave out; expected",
        ),
        ({f"{LAYER}.bias": torch.ones(192)}, (), ValueError, f"{LAYER}.bias is there; expected none, as config"),
        (
            {f"{LAYER}.weight": PACKED, f"{LAYER}.weight_scale": FACTORS},
            (), ValueError, rf"{LAYER} has a weight of 256 rows and K 128; expected \(192, 128\), as config.json says",
        ),
        ({"model.layers.7.mlp.up_proj.weight": PACKED}, (), ValueError, "model.layers.7.mlp.up_proj.weight is quanti"),
        ({"model.embed_tokens.weight": PACKED}, (), ValueError, "model.embed_tokens.weight is quantized"),
    ],
)  # fmt: skip
def test_tensors(tmp_path, changes, without, error, message):
    folder = Published(tmp_path, "llama").folder
    change(folder, changes, without)
    with pytest.raises(error, match=message):
        load(folder)


NVFP4 = {"num_bits": 4, "type": "float", "group_size": 16}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config_groups": None, "quant_algo": "NVFP4_AWQ"}, "quant_algo NVFP4_AWQ; expected NVFP4 or"),
        ({"transform_config": {"config_groups": {"u": {}}}}, "transform_config; expected none"),
        (
            {"config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 128}}}},
            "config_groups.group_0 has weights of 4 bits, type int, in groups of 128; expected 4, float, 16",
        ),
        (
            {"config_groups": {"group_0": {"weights": NVFP4, "input_activations": {"num_bits": 8, "type": "float"}}}},
            "config_groups.group_0 has input_activations of 8 bits, type float, in groups of None; expected none, or 4",
        ),
        ({"config_groups": {"group_0": None}}, "config_groups.group_0 has weights of None bits"),
        ({"rotation_config": {"size": 16}}, "rotation_config; expected none: inputs are not transformed"),
        ({"ignore": ["re:*lm_head"]}, "ignore has 're:.*lm_head', which is no regular expression"),
    ],
)
def test_quantization_configs(tmp_path, changes, message):
    folder = Published(tmp_path, "llama").folder
    say(folder, **changes)
    with pytest.raises(ValueError, match=message):
        load(folder)


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ({"quantization": {"quant_algo": "W4A8_AWQ"}}, "quant_algo W4A8_AWQ; expected NVFP4 or"),
        ([], "hf_quant_config.json has no object quantization"),
    ],
)
def test_modelopts_own_file(tmp_path, beside, message):
    folder = Published(tmp_path, "llama").folder
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "hf_quant_config.json").write_text(json.dumps(beside))
    with pytest.raises(ValueError, match=message):
        load(folder)


def test_layers_that_quantize_their_inputs_beside_others_that_do_not(tmp_path):
    folder = Published(tmp_path, "llama", modelopt=False, inputs=False).folder
    of_tokens = {"weights": NVFP4, "input_activations": NVFP4 | {"dynamic": True}}
    say(folder, config_groups={"group_0": of_tokens, "group_1": {"weights": NVFP4}})
    with pytest.raises(ValueError, match="groups with dynamic input_activations and others without; expected one, or"):
        load(folder)
    load(folder, quantization_config=Nvfp4GemmConfig(activations="16bit"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight_scale": torch.ones(2, 64)}, r"weight_scale is of shape \(2, 64\); expected 1 or 128 numbers"),
        ({"weight_scale": torch.tensor(float("nan"))}, "weight_scale is not above zero and finite everywhere"),
        ({"pre_quant_scale": torch.ones(128)}, "pre_quant_scale is there, which an FP8 layer would leave out"),
        ({"weight": torch.ones(64, 128).to(torch.float8_e4m3fn)}, "o_proj has a weight of 64 rows and K 128; expected"),
    ],
)
def test_fp8_layers(tmp_path, changes, message):
    folder = Published(tmp_path, "llama", fp8=lambda key: "o_proj" in key).folder
    change(folder, {f"model.layers.0.self_attn.o_proj.{part}": one for part, one in changes.items()})
    with pytest.raises(ValueError, match=message):
        load(folder)


def test_files_that_are_broken_or_have_a_tensor_twice(tmp_path):
    folder = Published(tmp_path, "llama").folder
    one, other = sorted(folder.glob("*.safetensors"))
    tensors = load_file(other)
    name = next(iter(load_file(one)))
    save_file(tensors | {name: torch.ones(1)}, other, {"format": "pt"})
    with pytest.raises(ValueError, match=f"{name} is in {one} and in {other}; expected it in one of them"):
        load(folder)
    other.write_bytes(other.read_bytes()[:-9])
    with pytest.raises(ValueError, match=f"{other} is no whole safetensors file: "):
        load(folder)


def test_other_formats_of_compressed_tensors_stay_those_of_transformers(tmp_path):
    folder = Published(tmp_path, "llama", modelopt=False).folder
    say(folder, config_groups={"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 128}}})
    with pytest.raises((ImportError, RuntimeError, ValueError), match="compressed"):
        load(folder)


def test_a_quantized_layer_that_is_more_than_linear(tmp_path):
    published = Published(tmp_path, "llama4_text")
    router = "model.layers.0.feed_forward.router"
    change(published.folder, {f"{router}.weight": torch.ones(8, 64).byte()})
    with pytest.raises(ValueError, match=f"{router} is quantized in the checkpoint and is a Llama4Router"):
        load(published.folder)


def test_a_quantized_output_layer_that_is_tied(tmp_path):
    published = Published(tmp_path, "llama", tie_word_embeddings=True)
    change(published.folder, {"lm_head.weight": PACKED})
    with pytest.raises(ValueError, match="lm_head is quantized and its weight is tied to another one"):
        load(published.folder)


def test_experts_that_are_not_all_there(tmp_path):
    at = "model.layers.0.mlp.experts"
    published = Published(tmp_path, "qwen3_moe")
    change(published.folder, {}, {f"{at}.3.up_proj.weight"})
    with pytest.raises(KeyError, match=f"{at}.3.up_proj.weight is missing"):
        load(published.folder)


def test_scales_that_a_float_layer_does_not_need(tmp_path):
    folder = Published(tmp_path, "llama", ignore=lambda key: "self_attn" in key).folder
    wanted = logits(load(folder))
    names = "o_proj.input_scale", "k_proj.k_scale", "v_proj.v_scale"
    change(folder, {f"model.layers.0.self_attn.{one}": torch.tensor(0.5) for one in names})
    assert torch.equal(logits(load(folder)), wanted)


def test_biases_that_are_missing(tmp_path):
    folder = Published(tmp_path, "qwen2").folder
    change(folder, {}, {"model.layers.0.self_attn.q_proj.bias"})
    with pytest.raises(
        ValueError, match=r"layers.0.self_attn.q_proj.bias is missing; expected it, as config.json says"
    ):
        load(folder)


@pytest.mark.parametrize("modelopt", [True, False])
def test_biases_of_experts_that_are_missing(tmp_path, modelopt):
    published = Published(tmp_path, "gpt_oss", modelopt=modelopt)
    change(published.folder, {}, {one for one in published.tensors if re.search(r"layers\.0\S+down_proj[._]bias", one)})
    with pytest.raises(
        ValueError, match=r"layers.0.mlp.experts.down_proj_bias is missing; expected it, as GptOssExperts"
    ):
        load(published.folder)


def test_experts_of_another_width(tmp_path):
    published = Published(tmp_path, "qwen3_moe")
    first = [name for name in published.tensors if re.search(r"layers\.0\S+experts\S+(gate|up)_proj\.weight", name)]
    down = [name for name in published.tensors if re.search(r"layers\.0\S+experts\S+down_proj\.weight", name)]
    half = {name: one[:, : one.shape[1] // 2] for name in first if (one := published.tensors[name]).dim() == 2}
    half |= {name: one[: len(one) // 2] for name in down if (one := published.tensors[name]).dim() == 2}
    change(published.folder, {name: one.contiguous() for name, one in half.items()})
    with pytest.raises(
        ValueError, match=r"model.layers.0.mlp.experts has weights of K 64; expected 128, as config.json"
    ):
        load(published.folder)


def test_int8_experts(tmp_path):
    published = Published(tmp_path, "qwen3_moe")
    parts = [name for name in published.tensors if ".experts." in name]
    weights = {name: published.tensors[name].char().repeat(1, 2) for name in parts if name.endswith(".weight")}
    change(published.folder, weights, set(parts))
    with pytest.raises(ValueError, match=r"experts\.\d\.\w+\.weight has dtype I8; expected U8 "):
        load(published.folder)


def test_experts_that_the_model_does_not_have(tmp_path):
    at = "model.layers.0.mlp.experts"
    published = Published(tmp_path, "qwen3_moe")
    more = {name.replace(".3.", ".8."): one for name, one in published.tensors.items() if f"{at}.3." in name}
    change(published.folder, more)
    with pytest.raises(ValueError, match=f"{at}.8.down_proj.input_scale is there"):
        load(published.folder)


def test_fp8_experts(tmp_path):
    published = Published(tmp_path, "qwen3_moe", fp8=lambda key: ".experts.2.up_proj" in key)
    with pytest.raises(ValueError, match=r"model.layers.0.mlp.experts.2.up_proj.weight has dtype torch.float8_e4m3fn"):
        load(published.folder)


def test_a_family_whose_experts_have_no_known_interface(tmp_path):
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_key_value_heads": 2,
        "vocab_size": 64,
    }
    config = transformers.JetMoeConfig(**sizes, kv_channels=16, num_local_experts=4)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"model.layers.0.\S+ is a JetMoeParallelExperts with weights in three dim"):
        load(tmp_path, quantization_config=Nvfp4GemmConfig())


def test_a_weight_that_transformers_would_permute(tmp_path, monkeypatch):
    loading, placement = transformers.core_model_loading, sys.modules["submission.models.huggingface.placement"]
    permuted = loading.WeightConverter("q_proj.weight", "q_proj.weight", [loading.PermuteForRope()])
    monkeypatch.setattr(placement, "get_model_conversion_mapping", lambda model: [permuted])
    with pytest.raises(ValueError, match=r"q_proj.\w+ is quantized; expected floats, which .* change: PermuteForRope"):
        load(Published(tmp_path, "llama", modelopt=False).folder)


def test_a_family_without_linear_layers(tmp_path):
    config = transformers.GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=64)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(
        ValueError, match=r"GPT2LMHeadModel has no torch.nn.Linear or experts to quantize beside ignore="
    ):
        load(tmp_path, quantization_config=Nvfp4GemmConfig())


def test_a_layer_whose_weight_the_model_reads(tmp_path):
    sizes = {"hidden_size": 32, "state_size": 4, "num_hidden_layers": 1, "vocab_size": 64}
    AutoModelForCausalLM.from_config(transformers.MambaConfig(**sizes)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"mixer.\w+ is to be NVFP4, and the code of MambaMixer reads its weight"):
        load(tmp_path, quantization_config=Nvfp4GemmConfig())


def test_calibrated_activations_of_a_16_bit_model(tmp_path):
    random_model("llama", torch.bfloat16).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="activations is 'calibrated' for a 16-bit model; expected"):
        load(tmp_path, quantization_config=Nvfp4GemmConfig(activations="calibrated"))


def test_weights_on_the_disk():
    quantizer = transformers.quantizers.auto.AUTO_QUANTIZER_MAPPING["nvfp4_gemm"](Nvfp4GemmConfig())
    with pytest.raises(ValueError, match="device_map places modules on the disk; expected CUDA devices or the CPU"):
        quantizer.validate_environment(device_map={"model": 0, "lm_head": "disk"})


def test_tensor_parallelism():
    quantizer = transformers.quantizers.auto.AUTO_QUANTIZER_MAPPING["nvfp4_gemm"](Nvfp4GemmConfig())
    model = random_model("llama")
    model.config.distributed_config = SimpleNamespace(tp_size=2)
    with pytest.raises(ValueError, match="tp_size is 2; expected 1"):
        quantizer.update_parallel_plan(model, {})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"activations": "fp8"},
            ValueError,
            "activations is 'fp8'; expected one of None, '16bit', 'calibrated', 'token'",
        ),
        ({"bits": 4}, TypeError, "bits is given; expected activations or ignore"),
    ],
)
def test_configurations(options, error, message):
    with pytest.raises(error, match=message):
        Nvfp4GemmConfig(**options)


def test_experts_refuse_a_backward_pass_to_their_input():
    """Also where the weights need no gradient, and beside a residual, where it would be wrong without a word."""
    experts, x = MoE.random(64, 64, 3, 2).experts, torch.randn(4, 64, requires_grad=True)
    module = SimpleNamespace(nvfp4=experts, has_post_expert_norm=False)
    found = ALL_EXPERTS_FUNCTIONS.get_interface("nvfp4_gemm", None)(
        module, x, torch.zeros(4, 2, dtype=torch.int64), torch.ones(4, 2)
    )
    with pytest.raises(RuntimeError, match="asks for the gradient of x, and these operators have none"):
        (x + found).sum().backward()
