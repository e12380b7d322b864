"""The quantizer that transformers calls for NVFP4 checkpoints, and to quantize a 16-bit model while it is loaded."""

from __future__ import annotations

from typing import Any

import torch
from transformers.core_model_loading import ConversionOps
from transformers.quantizers.base import HfQuantizer
from transformers.utils import logging

from ..checkpoint import OF_CACHE, PROJECTIONS
from ..experts import Experts
from ..linear import Linear
from ..weights import CALIBRATED, TOKEN, QuantizedLinear
from .config import SIXTEEN_BIT, Nvfp4GemmConfig, is_ignored, options_of
from .experts import HELD, install, is_experts, parameter_names, quantize_experts, read_experts
from .fusion import FusedMLP, fuse, unpadded
from .placement import PACKED, Held, Places, hold, refuse_if_read, stored_tensors
from .together import Together, groups_of, join, quantize_together

logger = logging.get_logger(__name__)
_INPUTS = ("input_scale", "input_global_scale")
_BYTES = 0.5625  # of an element: four bits, and a byte for 16


class _Quantize(ConversionOps):
    """Quantizes a float weight as it is loaded, together with those that read the same input, and keeps the result with
    the quantizer.
    """

    def __init__(self, quantizer: Nvfp4GemmQuantizer) -> None:
        self.quantizer = quantizer

    def convert(
        self, input_dict: dict[str, Any], *, model: torch.nn.Module, missing_keys: set[str], **others: object
    ) -> dict[str, Any]:
        """The parameters that are not to be quantized: for the loader, the others are gone."""
        left = {}
        for key, weight in input_dict.items():
            name, _, parameter = key.rpartition(".")
            if key not in self.quantizer.chosen:
                left[key] = weight
                continue
            weight, module = weight[0] if isinstance(weight, list) else weight, model.get_submodule(name)
            module._is_hf_initialized = True  # for the loader, the weight never arrives
            if is_experts(module):
                found = self.quantizer.quantized.setdefault(name, {})
                found |= quantize_experts(module, parameter, weight)
            else:
                self.quantizer.quantize(name, weight)
            missing_keys.discard(key)
        return left


class Nvfp4GemmQuantizer(HfQuantizer):
    """Replaces linear layers and experts by modules with NVFP4 weights."""

    quantization_config: Nvfp4GemmConfig

    def __init__(self, quantization_config: Nvfp4GemmConfig, **options: object) -> None:
        super().__init__(quantization_config, **options)
        self.places = Places({})
        self.chosen: set[str] = set()  # parameters to quantize
        self.quantized: dict[str, dict[str, Any]] = {}  # of each module, by projection
        self.groups: dict[str, tuple[str, ...]] = {}  # of each linear layer, with those that read the same input
        self.waiting: dict[str, torch.Tensor] = {}  # weights whose group is not complete

    @property
    def quantized_element_size(self) -> float:
        return _BYTES

    def validate_environment(self, *args: object, device_map: object = None, **others: object) -> None:
        """Raises ValueError for weights on a disk."""
        if isinstance(device_map, dict) and "disk" in device_map.values():
            raise ValueError("device_map places modules on the disk; expected CUDA devices or the CPU")

    def update_parallel_plan(self, model: torch.nn.Module, plan: dict[str, str]) -> None:
        """Raises ValueError for tensor parallelism."""
        size = getattr(getattr(model.config, "distributed_config", None), "tp_size", None)
        if size is not None and size > 1:
            raise ValueError(f"tp_size is {size}; expected 1: the scale factors are not cut for tensor parallelism")

    def _process_model_before_weight_loading(
        self, model: torch.nn.Module, checkpoint_files: list[str] | None = None, **others: object
    ) -> None:
        stored = stored_tensors(checkpoint_files or ())
        if not self.pre_quantized and not any(one.dtype in PACKED for one in stored):
            self._choose(model)
            return
        self.pre_quantized = True  # also a checkpoint whose config.json does not say so, as ModelOpt's older ones
        self.places, floats = hold(model, stored)
        if not self.places.places:
            raise ValueError("the checkpoint has no quantized tensor that is loaded; expected NVFP4 weights")
        published = self.quantization_config.published
        silent = [one for one in floats if published and not is_ignored(one, self.quantization_config.ignore)]
        if silent:
            logger.warning(
                f"{len(silent)} linear layers are stored as floats although quantization_config does not say so, and "
                f"stay floats: {', '.join(sorted(silent)[:5])}"
            )

    def _choose(self, model: torch.nn.Module) -> None:
        """Decides what to quantize of a 16-bit model."""
        if self.quantization_config.activations == CALIBRATED:
            raise ValueError(f"activations is {CALIBRATED!r} for a 16-bit model; expected {TOKEN!r} or {SIXTEEN_BIT!r}")
        tied = {name.rpartition(".")[0] for pair in model.all_tied_weights_keys.items() for name in pair}
        for name, module in model.named_modules():
            if name in tied or is_ignored(name, self.quantization_config.ignore):
                continue
            own = dict(module.named_parameters(recurse=False))
            if is_experts(module):
                self.chosen |= {f"{name}.{one}" for one in parameter_names(module)}
            elif type(module) is torch.nn.Linear:
                if module.in_features % 2:
                    raise ValueError(
                        f"{name} has {module.in_features} inputs; expected an even number, or ignore={name!r}"
                    )
                refuse_if_read(model, name)
                self.chosen.add(f"{name}.weight")
            elif any(one.dim() == 3 for one in own.values()) and not isinstance(module, torch.nn.modules.conv._ConvNd):
                raise ValueError(
                    f"{name} is a {type(module).__name__} with weights in three dimensions, of no kind that is known; "
                    f"expected experts of transformers' interface, or ignore={name!r}"
                )
        if not self.chosen:
            raise ValueError(f"{type(model).__name__} has no torch.nn.Linear or experts to quantize beside ignore=")
        linears = {key.rpartition(".")[0] for key in self.chosen if key.endswith(".weight")}
        self.groups = {name: group for group in groups_of(model, linears) for name in group}

    def quantize(self, name: str, weight: torch.Tensor) -> None:
        """A linear layer's weight, as soon as those of its group are there."""
        group = self.groups[name]
        self.waiting[name] = weight
        if all(one in self.waiting for one in group):
            self._quantize_waiting(group)

    def _quantize_waiting(self, group: tuple[str, ...]) -> None:
        parts = quantize_together([self.waiting.pop(one) for one in group])
        self.quantized |= {one: {"": part} for one, part in zip(group, parts, strict=True)}

    def param_needs_quantization(self, model: torch.nn.Module, param_name: str, **others: object) -> bool:
        """True for the weights that _choose() chose."""
        return param_name in self.chosen

    def get_quantize_ops(self) -> ConversionOps:
        """What quantizes one of them."""
        return _Quantize(self)

    def update_weight_conversions(self, weight_conversions: list, model: torch.nn.Module) -> list:
        """The model's own, and then where quantized tensors go."""
        return [*weight_conversions, self.places]

    def _kind(self, parts: object) -> str:
        """How the activations of a layer with these tensors are quantized."""
        config = self.quantization_config
        if config.activations:
            return config.activations
        if len(config.kinds) == 1:
            return next(iter(config.kinds))
        if any(part.endswith(_INPUTS) for part in parts):
            return CALIBRATED
        if {TOKEN, SIXTEEN_BIT} <= config.kinds:  # tensors alone do not tell which
            raise ValueError(
                "quantization_config has groups with dynamic input_activations and others without; expected one, or "
                f"{type(config).__name__}(activations=)"
            )
        return TOKEN if TOKEN in config.kinds else SIXTEEN_BIT

    def _linear(self, model: torch.nn.Module, name: str, held: Held) -> torch.nn.Module:
        parts = held.tensors()
        if held.is_fp8:
            found = _from_fp8(parts, held.bias, name, model.dtype)
        else:
            bias = {} if held.bias is None else {f"{name}.bias": held.bias.detach()}
            source = {f"{name}.{part}": tensor for part, tensor in parts.items()} | bias
            found = Linear.load(source, name, **options_of(self._kind(parts)))
        if (found.out_features, found.in_features) != held.weight.shape:
            raise ValueError(
                f"{name} has a weight of {found.out_features} rows and K {found.in_features}; expected "
                f"{tuple(held.weight.shape)}, as config.json says"
            )
        return found

    def _process_model_after_weight_loading(self, model: torch.nn.Module, **others: object) -> None:
        for name, module in list(model.named_modules()):
            if isinstance(module, Held):
                parent, _, child = name.rpartition(".")
                if child == HELD and is_experts(owner := model.get_submodule(parent)):
                    parts = module.tensors()
                    read_experts(owner, parts, module.hidden, self._kind(parts), parent)
                else:
                    model.set_submodule(name, self._linear(model, name, module))
        while self.waiting:  # the checkpoint lacks others of their group
            group = self.groups[next(iter(self.waiting))]
            self._quantize_waiting(tuple(one for one in group if one in self.waiting))
        kind = self.quantization_config.activations or TOKEN
        for name, found in self.quantized.items():
            module = model.get_submodule(name)
            if is_experts(module):
                layers = list(zip(*(found[one] for one in PROJECTIONS if one in found), strict=True))
                install(module, layers, kind, name)
            else:
                model.set_submodule(name, Linear(found[""], bias=module.bias, name=name, **options_of(kind)))
        self.quantized.clear()
        config, modules = self.quantization_config, dict(model.named_modules())
        config.ignore = [name for name, module in modules.items() if type(module) is torch.nn.Linear]
        ours = [one for one in modules.values() if isinstance(one, (Linear, Experts))]
        config.kinds = {one.scale if one.quantize else SIXTEEN_BIT for one in ours}
        fuse(model)
        join(model)
        model.requires_grad_(False)  # there are no derivatives, and nothing then records a call for them

    def get_state_dict_and_metadata(self, model: torch.nn.Module) -> tuple[dict[str, torch.Tensor], dict]:
        """The tensors by compressed-tensors' names, one linear layer for each projection and expert."""
        state = model.state_dict()
        for name, module in model.named_modules():
            if isinstance(module, Linear) and f"{name}.codes" in state:  # else a part of one of the others
                found = {name: (unpadded(module), module.bias)}
            elif isinstance(module, FusedMLP):
                found = {f"{name}.{one}": pair for one, pair in module.published().items()}
            elif isinstance(module, Together):
                around = name.rpartition(".")[0]
                found = {f"{around}.{one}".removeprefix("."): pair for one, pair in module.published().items()}
            elif isinstance(module, Experts):
                at = name.removesuffix(HELD)
                found = {
                    f"{at}{number}.{one}": pair
                    for number in range(module.count)
                    for one, pair in module.expert(number).items()
                }
            else:
                continue
            for one in module.state_dict():
                del state[f"{name}.{one}"]
            for one, (weight, bias) in found.items():
                state |= _published(one, weight, bias)
        return state, {}

    def is_serializable(self) -> bool:
        """True: save_pretrained() writes a checkpoint."""
        return True

    @property
    def is_trainable(self) -> bool:
        return False

    @property
    def is_compileable(self) -> bool:
        return True


def _from_fp8(
    parts: dict[str, torch.Tensor], bias: torch.nn.Parameter | None, name: str, dtype: torch.dtype
) -> torch.nn.Linear:
    """A linear layer of the model's dtype from an FP8 weight with one scale, or one for each row."""
    weight, scale = parts["weight"], parts.get("weight_scale")
    if scale is None or (scale.numel() > 1 and scale.shape not in ((len(weight),), (len(weight), 1))):
        shape = "missing" if scale is None else f"of shape {tuple(scale.shape)}"
        raise ValueError(f"{name}.weight_scale is {shape}; expected 1 or {len(weight)} numbers beside an FP8 weight")
    if not (scale.isfinite() & (scale > 0)).all():
        raise ValueError(f"{name}.weight_scale is not above zero and finite everywhere; expected such numbers")
    others = sorted(parts.keys() - {"weight", "weight_scale", "input_scale", *OF_CACHE})
    if others:
        raise ValueError(f"{name}.{others[0]} is there, which an FP8 layer would leave out; expected its scales alone")
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    numbers = weight.float() * scale.float().reshape(-1, 1)
    linear.weight = torch.nn.Parameter(numbers.to(dtype), requires_grad=False)
    linear.bias = bias
    return linear


def _published(name: str, weight: QuantizedLinear, bias: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """A layer's tensors by compressed-tensors' names."""
    found = {
        f"{name}.weight_packed": weight.codes.contiguous(),
        f"{name}.weight_scale": weight.factors.view(torch.float8_e4m3fn).contiguous(),
        f"{name}.weight_global_scale": 1 / weight.weight_scale,
    }
    if weight.input_scale is not None:
        found[f"{name}.input_global_scale"] = weight.input_scale.clone()
    if bias is not None:
        found[f"{name}.bias"] = bias.clone()
    return found
