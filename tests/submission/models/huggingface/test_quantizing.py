"""A 16-bit model quantized while it is loaded, and quantized models saved and loaded again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
import torch

from tests.submission.models.huggingface.published_kit import (
    Activations,
    AutoModelForCausalLM,
    Nvfp4GemmConfig,
    Published,
    errors_of_layers,
    logits,
    quantized,
    random_model,
    relative,
)


def of_weight(weight: torch.Tensor) -> torch.Tensor:
    """What a matrix in NVFP4 stands for, with the scale that its largest number asks for."""
    return quantized(weight, 2688 / weight.abs().max().item())[2]


def matrices(model: torch.nn.Module) -> dict[str, list[torch.Tensor]]:
    """The matrices (N, K) to quantize, by the name of the layer whose input they multiply; views of the weights."""
    found = {}
    for at, module in model.named_modules():
        if type(module) is torch.nn.Linear and not at.endswith(("lm_head", "shared_expert_gate")):
            found[at] = [module.weight]
        elif type(module).__name__.endswith("Experts"):
            names = {"first": ("gate_up_proj", "up_proj"), "between": ("down_proj",)}
            transposed = getattr(module, "is_transposed", True)
            for kind, one in ((kind, getattr(module, name, None)) for kind, of in names.items() for name in of):
                if one is None:
                    continue
                rows = one.transpose(1, 2) if transposed else one
                halves = (rows,) if kind == "between" or not getattr(module, "has_gate", True) else (
                    rows.chunk(2, 1) if getattr(module, "is_concatenated", True) else (rows[:, 0::2], rows[:, 1::2])
                )  # fmt: skip
                found[f"{at}.{kind}"] = [matrix for half in halves for matrix in half]
    return found


def saved(folder, name):
    """A 16-bit model none of whose weights lies in the middle of two codes, as the largest have a prime mantissa."""
    model = random_model(name, torch.bfloat16)
    with torch.no_grad():
        for matrix in (one for each in matrices(model).values() for one in each):
            matrix.clamp_(-0.48, 0.48)[0, 0] = 251 / 512
    model.save_pretrained(folder)


def reference_of(folder, mode):
    """The saved model with quantized weights in float64, and activations by `mode`."""
    reference, activations = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64), Activations()
    with torch.no_grad():
        for at, each in matrices(reference).items():
            activations.largest[at] = 0.0
            for matrix in each:
                matrix.copy_(of_weight(matrix))
    activations.mode = mode
    activations.attach(reference)
    return reference


# hrm_text's files hold gate and up, and q, k, v and a gate, in one tensor each, which transformers splits.
@pytest.mark.parametrize("name", ["llama", "phi3", "qwen2", "hrm_text"])
def test_a_16_bit_model_is_quantized_while_it_is_loaded(tmp_path, name):
    saved(tmp_path, name)
    config = Nvfp4GemmConfig(activations="16bit")
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float16, quantization_config=config)
    assert relative(logits(model), logits(reference_of(tmp_path, "leave"))) < 3e-3
    assert not any(one.is_meta for one in (*model.parameters(), *model.buffers()))


@pytest.mark.parametrize("name", ["gemma3_text", "qwen3_moe", "gpt_oss", "llama4_text", "nemotron_h", "qwen3_next"])
def test_a_scale_for_each_token(tmp_path, name):
    saved(tmp_path, name)
    config = Nvfp4GemmConfig()
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float16, quantization_config=config)
    errors = errors_of_layers(model, reference_of(tmp_path, "token"))
    # Numbers of 16 bits lie in the middle of two codes or factors; what lies between two products is rounded to them.
    assert max(errors.values()) < 0.04, errors
    model.save_pretrained(tmp_path / "again")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "again", dtype=torch.float16)
    assert torch.equal(logits(again), logits(model))


@pytest.mark.parametrize(
    ("ignore", "left"),
    [
        (["lm_head", "model.layers.0.mlp"], "model.layers.0.mlp."),
        (["lm_head", "*.self_attn.*"], "self_attn."),
        (["lm_head", "re:.*down_proj"], "down_proj"),
    ],
)
def test_ignored_modules_stay_floats(tmp_path, ignore, left):
    random_model("llama", torch.bfloat16).save_pretrained(tmp_path)
    config = Nvfp4GemmConfig(activations="16bit", ignore=ignore)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16, quantization_config=config)
    floats = {at for at, one in model.named_modules() if type(one) is torch.nn.Linear}
    linears = {at for at, one in random_model("llama").named_modules() if type(one) is torch.nn.Linear}
    assert floats == {"lm_head", *(at for at in linears if left in at)}
    logits(model)


def test_a_tied_output_layer_stays_tied(tmp_path):
    random_model("llama", torch.bfloat16, tie_word_embeddings=True).save_pretrained(tmp_path)
    config = Nvfp4GemmConfig(activations="16bit", ignore=())
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16, quantization_config=config)
    assert model.lm_head.weight is model.model.embed_tokens.weight


@pytest.mark.parametrize("name", ["qwen2", "mixtral", "gpt_oss", "nemotron_h"])
def test_a_model_saved_and_loaded_again(tmp_path, name):
    published = Published(tmp_path, name, fp8=lambda key: "layers.1.self_attn.o_proj" in key)
    model = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16)
    model.save_pretrained(tmp_path / "again", max_shard_size="200KB")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "again", dtype=torch.float16)
    assert torch.equal(logits(again), logits(model))
    config = json.loads((tmp_path / "again" / "config.json").read_text())["quantization_config"]
    assert (config["quant_method"], config["format"]) == ("compressed-tensors", "nvfp4-pack-quantized")
    floats = {at for at, one in again.named_modules() if type(one) is torch.nn.Linear}
    assert set(config["ignore"]) == floats >= {"lm_head"}


def test_a_model_with_16_bit_activations_saved_and_loaded_again(tmp_path):
    published = Published(tmp_path, "llama", modelopt=False, inputs=False)
    model = AutoModelForCausalLM.from_pretrained(published.folder, dtype=torch.float16)
    model.save_pretrained(tmp_path / "again")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "again", dtype=torch.float16)
    assert torch.equal(logits(again), logits(model))
    assert not again.model.layers[0].self_attn.q_proj.quantize


def test_experts_and_their_router_are_one_graph(tmp_path):
    model = AutoModelForCausalLM.from_pretrained(Published(tmp_path, "qwen3_moe").folder, dtype=torch.float16)
    layer, x = model.model.layers[0].mlp, torch.randn(1, 5, 128, dtype=torch.float16)
    with torch.no_grad():
        assert torch.equal(torch.compile(layer, backend="eager", fullgraph=True)(x), layer(x))


def test_the_example_generates_tokens(root, tmp_path):
    (tmp_path / "nvfp4_gemm").symlink_to(root / "submission")
    command = [sys.executable, root / "examples" / "transformers_model.py", "", "6"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    tokens, figures = done.stdout.strip().splitlines()[-2:]
    assert len(json.loads(tokens)) == 4 + 6
    assert re.fullmatch(r"(cpu|cuda): [\d.]+ tokens/s, weights [\d.]+ MiB(, at most [\d.]+ MiB)?", figures)
