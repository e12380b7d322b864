"""Small random models, NVFP4 checkpoints of them as others publish them, and what such a checkpoint stands for.

Nothing of the package makes or judges them: weights and activations are quantized in float64 torch, transformers itself
names the tensors and runs the reference model.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.submission.models.huggingface.needs import needs_transformers

needs_transformers()


class Late:
    """A module, or what it has under a name, imported when a test first uses it: every worker of the tests collects
    these files, and transformers takes longer to import than torch.
    """

    def __init__(self, module: str, name: str = "") -> None:
        self._place = module, name

    def _found(self) -> Any:
        importlib.import_module("submission.models.huggingface")  # registers itself in transformers
        module, name = self._place
        found = importlib.import_module(module)
        return getattr(found, name) if name else found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest asks every object of a module for some
            raise AttributeError(name)
        return getattr(self._found(), name)

    def __call__(self, *args: object, **options: object) -> Any:
        return self._found()(*args, **options)


transformers = Late("transformers")
AutoConfig, AutoModelForCausalLM = Late("transformers", "AutoConfig"), Late("transformers", "AutoModelForCausalLM")
revert_weight_conversion = Late("transformers.core_model_loading", "revert_weight_conversion")
ALL_EXPERTS_FUNCTIONS = Late("transformers.integrations.moe", "ALL_EXPERTS_FUNCTIONS")
Nvfp4GemmConfig = Late("submission.models.huggingface", "Nvfp4GemmConfig")

TOKENS = torch.arange(2 * 12).reshape(2, 12) * 5 % 251 + 3
_COMMON = {
    "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 32,
    "num_key_value_heads": 2, "vocab_size": 256, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "max_position_embeddings": 128, "tie_word_embeddings": False, "initializer_range": 0.1,
}  # fmt: skip
_EXPERTS = {
    "num_experts": 8, "num_local_experts": 8, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1,
    "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64, "moe_shared_expert_intermediate_size": 64,
    "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
}  # fmt: skip
MODELS = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "phi3": {},
    "gemma3_text": {"query_pre_attn_scalar": 32},
    "mixtral": _EXPERTS,
    "qwen3_moe": _EXPERTS,
    "glm4_moe": _EXPERTS,
    "deepseek_v3": _EXPERTS | {
        "q_lora_rank": 64, "kv_lora_rank": 64, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 32,
        "num_key_value_heads": 4, "head_dim": 16, "n_group": 2,
    },
    "gpt_oss": _EXPERTS | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    "llama4_text": _EXPERTS | {"intermediate_size_mlp": 192, "num_experts_per_tok": 1},
    "nemotron_h": _EXPERTS | {
        "layers_block_type": ["mamba", "attention", "moe", "mlp"], "num_hidden_layers": 4, "mamba_num_heads": 4,
        "mamba_head_dim": 64, "n_groups": 2, "ssm_state_size": 16,
    },
    "qwen3_next": _EXPERTS | {
        "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
        "layer_types": ["linear_attention", "full_attention"],
    },
}  # fmt: skip

_VALUES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)
_EVEN_BELOW = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], dtype=torch.float64)
_MIDDLES = torch.where(torch.arange(7) % 2 == 0, _EVEN_BELOW, _EVEN_BELOW.nextafter(torch.tensor(0.0).double()))


def quantized(x: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes (.., K), scale factors (.., K/16) and what they stand for, of numbers times a global scale."""
    groups = x.double().unflatten(-1, (-1, 16)) * scale
    factors = (groups.abs().amax(-1) / 6).clamp(max=448).to(torch.float8_e4m3fn)
    wide = factors.double()[..., None]
    codes = torch.bucketize((groups / wide.where(wide > 0, torch.inf)).abs().contiguous(), _MIDDLES)
    values = _VALUES[codes] * groups.sign() * wide / scale
    return (codes + 8 * (groups < 0)).flatten(-2).to(torch.uint8), factors, values.flatten(-2)


class Activations:
    """Records the largest number of each input of a model's layers, then quantizes these inputs, or leaves them."""

    def __init__(self) -> None:
        self.largest: dict[str, float] = {}
        self.mode = "record"  # or "calibrated", "token", "leave"

    def __call__(self, name: str, x: torch.Tensor) -> torch.Tensor:
        if self.mode == "record" and x.numel():
            self.largest[name] = max(self.largest.get(name, 0.0), x.abs().max().item())
        if self.mode in ("record", "leave") or name not in self.largest:
            return x
        if self.mode == "token":
            scale = 2688 / x.double().abs().amax(-1, keepdim=True).clamp(min=1e-20)
            return (quantized(x.double() * scale, 1.0)[2] / scale).to(x.dtype)
        return quantized(x, 2688 / self.largest[name])[2].to(x.dtype)

    def attach(self, model: torch.nn.Module) -> None:
        """Sees the inputs of all linear layers and experts of a model from now on."""
        for name, module in model.named_modules():
            if type(module) is torch.nn.Linear:
                module.register_forward_pre_hook(lambda _, args, name=name: (self(name, args[0]), *args[1:]))
            elif type(module).__name__ == "Llama4TextExperts":
                module.forward = lambda x, name=name, module=module: self._llama4(name, module, x)
            elif hasattr(module, "has_gate"):
                module.activations = lambda *args, name=name: self(f"{name}.{args[0]}", args[1])
                ALL_EXPERTS_FUNCTIONS.register("one_by_one", _one_by_one)
                module.config._experts_implementation = "one_by_one"

    def _llama4(self, name: str, module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        x = self(f"{name}.first", x).view(module.num_experts, -1, x.shape[-1])
        gate, up = (x @ module.gate_up_proj).chunk(2, -1)
        return (self(f"{name}.between", up * module.act_fn(gate)) @ module.down_proj).flatten(0, 1)


def _one_by_one(module: torch.nn.Module, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """The experts, one after the other."""
    first = module.gate_up_proj if module.has_gate else module.up_proj
    last = module.down_proj
    if module.is_transposed:
        first, last = first.transpose(1, 2), last.transpose(1, 2)
    bias = (module.gate_up_proj_bias, module.down_proj_bias) if module.has_bias else None
    x, y = module.activations("first", x), torch.zeros_like(x)
    for expert in range(module.num_experts):
        token, place = torch.where(ids == expert)
        h = x[token] @ first[expert].T + (bias[0][expert] if bias else 0)
        h = module._apply_gate(h) if module.has_gate else module.act_fn(h)
        out = module.activations("between", h) @ last[expert].T + (bias[1][expert] if bias else 0)
        y.index_add_(0, token, out * weights[token, place, None].to(out.dtype))
    return y


def random_model(name: str, dtype: torch.dtype = torch.float32, **changes: object) -> torch.nn.Module:
    """A small model with every kind of weight random, also those that begin as zeros."""
    torch.manual_seed(11)
    config = AutoConfig.for_model(name, **_COMMON | MODELS.get(name, {}) | changes)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith(("bias", "experts.gate_up_proj", "experts.up_proj", "experts.down_proj")):
                parameter.normal_(0, 0.1)
    return model.to(dtype)


class Published:
    """A checkpoint of a random model, as published by others, and the model of what it stands for."""

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        modelopt: bool = True,
        inputs: bool = True,
        stacked: bool = False,
        ignore: Callable[[str], bool] = lambda key: False,
        fp8: Callable[[str], bool] = lambda key: False,
        **changes: object,
    ) -> None:
        """modelopt: by its convention, else by compressed-tensors'.  inputs: with scales of activations.  stacked: all
        experts in one tensor, as the model has them.  ignore, fp8: which layers stay floats or become FP8, by the
        checkpoint's names.
        """
        self.folder, self.modelopt, self.inputs = folder / "published", modelopt, inputs
        model = random_model(name, **changes)
        self.activations = Activations()
        self.activations.attach(model)
        self.plain = logits(model)
        self._linears = {one.weight.data_ptr(): at for at, one in model.named_modules() if type(one) is torch.nn.Linear}
        self._experts = [at for at, one in model.named_modules() if type(one).__name__.endswith("Experts")]
        state = model.state_dict() if stacked else revert_weight_conversion(model, model.state_dict())
        self.tensors: dict[str, torch.Tensor] = {}
        self.meaning: dict[str, torch.Tensor] = {}
        self.ignored = ["lm_head"]
        for key, tensor in state.items():
            at = self._layer(key, tensor)
            left = at is None or tensor.dim() < 2 or at == "lm_head" or ignore(key)
            if left or fp8(key):
                for one in (at, *((f"{at}.first", f"{at}.between") if left else ())):
                    self.activations.largest.pop(one, None)
            if left:
                self.tensors[key], self.meaning[key] = tensor.to(torch.bfloat16), tensor.to(torch.bfloat16).double()
                self.ignored += [key.removesuffix(".weight")] * (at is not None)
            elif fp8(key):
                self._write_fp8(key, tensor)
            elif tensor.dim() == 3:
                self._write_experts(key, tensor, at, -1 if stacked else 1, state)
            else:
                self._write(key.removesuffix(".weight"), tensor, self._largest(at, key))
                self.meaning[key] = self._last
        for key in [key for key in self.tensors if key.endswith("_bias") and "experts." in key and not modelopt]:
            self._split_bias(key, self.tensors.pop(key))
        self._save(model.config)

    def _layer(self, key: str, tensor: torch.Tensor) -> str | None:
        """The module whose input the tensor multiplies, by the model's names."""
        if tensor.data_ptr() in self._linears and key.endswith(".weight"):
            return self._linears[tensor.data_ptr()]
        if re.search(r"experts\.(\d+\.)?\w+", key) and "shared" not in key and not key.endswith("bias"):
            number = re.search(r"layers\.(\d+)\.", key)[1]
            return next(at for at in self._experts if f"layers.{number}." in at)
        return None

    def _largest(self, at: str, key: str) -> float:
        places = {"down": "between", "w2": "between"}
        kind = next((one for word, one in places.items() if word in key.removeprefix(at)), "first")
        return self.activations.largest[at if at in self.activations.largest else f"{at}.{kind}"]

    def _write(self, name: str, weight: torch.Tensor, largest: float, scale: float | None = None) -> None:
        """One linear layer's tensors."""
        scale = scale or torch.tensor(2688 / weight.abs().max().item()).item()
        codes, factors, self._last = quantized(weight, scale)
        packed = codes[..., 0::2] | codes[..., 1::2] << 4
        of_input = 2688 / largest
        if self.modelopt:
            parts = {"weight": packed, "weight_scale": factors, "weight_scale_2": torch.tensor(1 / scale)}
            parts |= {"input_scale": torch.tensor(1 / of_input)} if self.inputs else {}
        else:
            parts = {"weight_packed": packed, "weight_scale": factors, "weight_global_scale": torch.tensor([scale])}
            parts |= {"input_global_scale": torch.tensor([of_input])} if self.inputs else {}
        self.tensors |= {f"{name}.{part}": one.contiguous() for part, one in parts.items()}

    def _write_fp8(self, key: str, tensor: torch.Tensor) -> None:
        scale = tensor.abs().amax() / 448
        self.tensors[key] = (tensor / scale).to(torch.float8_e4m3fn)
        self.tensors[key.removesuffix("weight") + "weight_scale"] = scale.reshape(1)
        self.meaning[key] = self.tensors[key].double() * scale.double()

    def _write_experts(self, key: str, tensor: torch.Tensor, at: str, k: int, state: dict[str, torch.Tensor]) -> None:
        """Weights of all experts, K their dimension k: in one tensor, by ModelOpt, or a linear layer for each."""
        largest = self._largest(at, key)
        rows = tensor.transpose(k, -1)
        name, _, projection = key.rpartition(".")
        if self.modelopt:
            self._write(key, rows, largest)
            for part in ("weight", "weight_scale", "weight_scale_2", "input_scale"):
                one = self.tensors.pop(f"{key}.{part}", None)
                if one is not None:
                    one = one.transpose(k, -1) if one.dim() == 3 else one if k == 1 else one.expand(len(rows))
                    self.tensors[key if part == "weight" else f"{key}_{part}"] = one.contiguous()
            self.meaning[key] = self._last.transpose(k, -1).contiguous()
            return
        self.meaning[key] = torch.empty_like(tensor, dtype=torch.float64)
        for number, expert in enumerate(rows):
            parts = {projection: slice(None)}
            if projection == "gate_up_proj":
                half = expert.shape[0] // 2
                places = (slice(0, None, 2), slice(1, None, 2)), (slice(0, half), slice(half, None))
                parts = dict(zip(("gate_proj", "up_proj"), places[f"{key}_bias" not in state], strict=True))
            for one, place in parts.items():
                self._write(f"{name}.{number}.{one}", expert[place], largest)
                self.meaning[key][number].T[place] = self._last

    def _split_bias(self, key: str, bias: torch.Tensor) -> None:
        name, _, projection = key.removesuffix("_bias").rpartition(".")
        for number, one in enumerate(bias):
            parts = {"gate_proj": one[0::2], "up_proj": one[1::2]} if "gate" in projection else {projection: one}
            self.tensors |= {f"{name}.{number}.{at}.bias": part.contiguous() for at, part in parts.items()}

    def _save(self, config: object) -> None:
        config = type(config).from_dict(config.to_dict())
        weights = {"num_bits": 4, "type": "float", "group_size": 16, "dynamic": False}
        group = {"targets": ["Linear"], "weights": weights, "input_activations": dict(weights) if self.inputs else None}
        said = {"config_groups": {"group_0": group}, "ignore": self.ignored}
        if self.modelopt:
            said |= {"quant_method": "modelopt", "quant_algo": "NVFP4", "producer": {"name": "modelopt"}}
        else:
            said |= {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}
        self.config = config
        write_checkpoint(self.folder, config, self.tensors, said, shards=2)
        write_checkpoint(self.folder.parent / "meaning", config, self.meaning, None)

    def reference(self, mode: str | None = None, dtype: torch.dtype = torch.float64) -> torch.nn.Module:
        """The model of what the checkpoint stands for, whose layers quantize their inputs: "calibrated", "token", or
        "leave" them.
        """
        model = AutoModelForCausalLM.from_pretrained(self.folder.parent / "meaning", dtype=dtype).eval()
        self.activations.mode = mode or ("calibrated" if self.inputs else "leave")
        self.activations.attach(model)
        return model


def write_checkpoint(
    folder: Path, config: object, tensors: dict[str, torch.Tensor], said: dict | None, shards: int = 1
) -> None:
    """A folder with config.json and safetensors files."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(
        json.dumps(config.to_dict() | ({} if said is None else {"quantization_config": said}), default=str)
    )
    names = sorted(tensors)
    if shards == 1:
        save_file({name: tensors[name].contiguous() for name in names}, folder / "model.safetensors", {"format": "pt"})
        return
    places = {}
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = names[number::shards]  # a layer's tensors lie in different files
        save_file({name: tensors[name] for name in part}, folder / file, {"format": "pt"})
        places |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def logits(model: torch.nn.Module) -> torch.Tensor:
    """Of the tests' tokens, in float64."""
    with torch.no_grad():
        return model(TOKENS.to(model.device), use_cache=False).logits.double().cpu()


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The 2-norm of the difference over that of `wanted`."""
    return ((found.double() - wanted).norm() / wanted.norm()).item()


def errors_of_layers(model: torch.nn.Module, reference: torch.nn.Module) -> dict[str, float]:
    """How far the output of each layer of the package in a model is from the reference's layer of that name, with the
    same input: from layer to layer, rounding to 16 bits changes what a later layer quantizes.
    """
    seen: dict[str, tuple] = {}

    def see(name: str, args: tuple, output: torch.Tensor) -> None:
        if not any(name.startswith(f"{other}.") for other in seen):
            seen[name] = [one.cpu() for one in args], output.cpu().clone()

    hooks = []
    for name, module in model.named_modules():
        ours = type(module).__module__.startswith("submission.models") or "Experts" in type(module).__name__
        if ours and not name.endswith((".nvfp4", ".product")):
            hooks.append(module.register_forward_hook(lambda _, args, y, name=name: see(name, args, y)))
    logits(model)
    for hook in hooks:
        hook.remove()
    found = {}
    for name, (args, output) in seen.items():
        wide = (one.double() if one.is_floating_point() else one for one in args)
        with torch.no_grad():
            found[name] = relative(output, reference.get_submodule(name)(*wide))
    return found
