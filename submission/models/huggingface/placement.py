"""Where the tensors of a quantized checkpoint go: from their names in files to modules of a model on the meta device.

The tensors decide what is quantized: a layer whose weight is stored as floats without scales stays a torch.nn.Linear.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, WeightRenaming, apply_converters, rename_source_key

from ..checkpoint import OF_CACHE, refuse_twice
from .experts import HELD, is_experts, parameter_names, width_of

_DTYPES = {
    "U8": torch.uint8,
    "F8_E4M3": torch.float8_e4m3fn,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}
PACKED = {"U8", "F8_E4M3"}  # what no float layer stores
_FLOATS = ("F16", "BF16", "F32", "F64")
_UNNEEDED = {*OF_CACHE, "input_scale", "input_global_scale"}  # where inputs and a cache stay floats
_PARTS = "weight|weight_packed|weight_scale|weight_scale_2|weight_global_scale|input_scale|input_global_scale"
_OF_ALL_EXPERTS = re.compile(rf"(gate_up_proj|gate_proj|up_proj|down_proj)(?:[._]({_PARTS}))?")
_IN_TRAINING = "outproj_weight="  # of a kernel that fuses a layer of Mamba, for training alone
_OF_ONE_EXPERT = re.compile(r"\d+\.(?:gate_proj|up_proj|down_proj|w1|w2|w3)\.\w+")


class Stored(NamedTuple):
    """A tensor of a checkpoint's files."""

    key: str
    dtype: str
    shape: tuple[int, ...]
    renamed: str = ""  # as transformers names it in this model


def stored_tensors(files: Iterable[str]) -> list[Stored]:
    """The tensors of safetensors files."""
    found, places = [], {}
    for file in files:
        if not str(file).endswith(".safetensors"):
            raise ValueError(f"{file} is no safetensors file; expected a checkpoint in safetensors files")
        try:
            with safe_open(file, framework="pt") as tensors:
                names = list(tensors.keys())
                refuse_twice(names, file, places)
                for name in names:
                    one = tensors.get_slice(name)
                    found.append(Stored(name, one.get_dtype(), tuple(one.get_shape())))
        except SafetensorError as error:
            raise ValueError(f"{file} is no whole safetensors file: {error}") from error
    return found


class Held(torch.nn.Module):
    """Takes a layer's tensors, as they are stored, until all are loaded."""

    def __init__(self, parts: Mapping[str, Stored], bias: torch.nn.Parameter | None = None) -> None:
        """parts: by their names within the layer.  bias: the layer's own, which is loaded as ever."""
        super().__init__()
        self.parts = {part: f"part_{number}" for number, part in enumerate(parts)}
        self.dtypes = {part: _DTYPES.get(one.dtype) for part, one in parts.items()}
        for part, one in parts.items():
            if one.dtype not in _DTYPES:
                raise ValueError(f"{one.key} has dtype {one.dtype}; expected one of {', '.join(_DTYPES)}")
            self.register_buffer(self.parts[part], torch.empty(one.shape, dtype=self.dtypes[part], device="meta"))
        self.bias = bias
        self.is_fp8 = "weight" in parts and parts["weight"].dtype == "F8_E4M3"

    def tensors(self) -> dict[str, torch.Tensor]:
        """The loaded tensors, by their names within the layer.  Where a model keeps modules in float32, transformers
        has widened the scale factors of their layers.
        """
        return {part: getattr(self, buffer).to(self.dtypes[part]) for part, buffer in self.parts.items()}


@cache
def _code(kind: type) -> str:
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):  # no source at hand
        return ""


def refuse_if_read(model: torch.nn.Module, name: str) -> None:
    """Raises ValueError if the model's own code reads the weight of this linear layer, beside calling the layer."""
    around, _, child = name.rpartition(".")
    kind = type(model.get_submodule(around))
    if re.search(rf"(?<!{_IN_TRAINING})self\.{child}\.weight\b", _code(kind)):
        raise ValueError(
            f"{name} is to be NVFP4, and the code of {kind.__name__} reads its weight; expected a layer that it only "
            "calls: leave it as floats, of a 16-bit model by ignore="
        )


class Places(WeightRenaming):
    """Sends the tensors of quantized layers to the modules that hold them, behind the model's own renamings."""

    __slots__ = ("places",)

    def __init__(self, places: Mapping[str, str]) -> None:
        """places: from names that the model's renamings have made to names in the model's state_dict."""
        super().__init__("^$", "")
        self.places = places

    def rename_source_key(self, source_key: str) -> tuple[str, str | None]:
        """As the base class's, which transformers calls; never counted as used, so that saving does not reverse it."""
        place = self.places.get(source_key)
        return (source_key, None) if place is None else (place, self.source_patterns[0])


def _owner(name: str, base: str, layers: Mapping[str, torch.nn.Module]) -> tuple[str, str] | None:
    """The layer that a tensor belongs to and the rest of its name, with or without the base model's prefix."""
    for whole in (name, f"{base}.{name}", name.removeprefix(f"{base}.")):
        parts = whole.split(".")
        for end in range(len(parts) - 1, max(0, len(parts) - 5), -1):
            if (head := ".".join(parts[:end])) in layers:
                return head, ".".join(parts[end:])
    return None


def _is_quantized(parts: Mapping[str, Stored]) -> bool:
    return any(one.dtype in PACKED for one in parts.values())


def _refuse_unless_floats(layer: torch.nn.Module, parts: Mapping[str, Stored]) -> None:
    """Raises ValueError for a tensor that a layer of floats would leave out or misread."""
    own = dict(layer.named_parameters())
    for part, one in parts.items():
        last = part.rpartition(".")[2]
        if one.dtype not in _FLOATS:
            raise ValueError(f"{one.key} has dtype {one.dtype}; expected U8 (NVFP4), F8_E4M3 or floats")
        if part not in own and last not in _UNNEEDED and ("scale" in last or type(layer) is torch.nn.Linear):
            raise ValueError(f"{one.key} is there, which a layer of floats would leave out; expected {', '.join(own)}")


def _expert_parts(module: torch.nn.Module, parts: Mapping[str, Stored]) -> dict[str, Stored]:
    """The tensors of an experts module that are not its parameters.  Raises ValueError for one that has no place."""
    taken = {}
    for part, one in parts.items():
        if _OF_ONE_EXPERT.fullmatch(part) or _OF_ALL_EXPERTS.fullmatch(part):
            taken[part] = one
        elif part not in dict(module.named_parameters()):
            raise ValueError(
                f"{one.key} is there, which {type(module).__name__} would leave out; expected tensors of "
                "gate_up_proj, or of gate_proj and up_proj, and of down_proj"
            )
    return taken


def _refuse_without_biases(module: torch.nn.Module, name: str, parts: Mapping[str, Stored]) -> None:
    """Raises ValueError for experts that have biases, of which the checkpoint lacks those of a projection."""
    of_each = {part.split(".")[1] for part in parts if part.endswith(".bias")}  # "3.up_proj.bias"
    for one in parameter_names(module) if getattr(module, "has_bias", False) else ():
        firsts = {"gate_proj", "up_proj"} if one == "gate_up_proj" else {one}
        if f"{one}_bias" not in parts and not of_each >= firsts:
            raise ValueError(f"{name}.{one}_bias is missing; expected it, as {type(module).__name__} has biases")


def _float_part(part: str) -> str:
    """What a part of a layer, or of all experts, is called where it is not quantized."""
    match = _OF_ALL_EXPERTS.fullmatch(part)
    return match[1] if match else "weight"


def _refuse_if_changed(key: str, name: str, converters: list[WeightConverter]) -> None:
    """Raises ValueError if transformers changes the order of a weight's numbers while it loads the float weight `name`,
    which it does not for a quantized one.
    """
    _, pattern = apply_converters(name, converters)
    if pattern is not None and not _OF_ONE_EXPERT.search(name):
        (converter,) = (one for one in converters if pattern in one.source_patterns)
        done = [type(one).__name__ for one in converter.operations]
        if done != ["Transpose"]:  # which shapes tell
            raise ValueError(f"{key} is quantized; expected floats, which transformers would change: {', '.join(done)}")


def hold(model: torch.nn.Module, stored: Iterable[Stored]) -> tuple[Places, list[str]]:
    """Puts a Held in the place of each quantized layer.  Returns where their tensors go, and the linear layers that
    stay floats, by the checkpoint's names.

    Raises ValueError for a quantized tensor that has no place in the model.
    """
    conversions = get_model_conversion_mapping(model)
    renamings, converters = (
        [one for one in conversions if isinstance(one, kind)] for kind in (WeightRenaming, WeightConverter)
    )
    layers = {name: one for name, one in model.named_modules() if isinstance(one, torch.nn.Linear) or is_experts(one)}
    unneeded = [re.compile(one) for one in model._keys_to_ignore_on_load_unexpected or ()]
    found: dict[str, dict[str, Stored]] = defaultdict(dict)
    for one in stored:
        renamed, _ = rename_source_key(one.key, renamings, [])
        owner = _owner(renamed, model.base_model_prefix, layers)
        if owner:
            found[owner[0]][owner[1]] = one._replace(renamed=renamed)
        elif one.dtype in PACKED and not any(pattern.search(renamed) for pattern in unneeded):
            raise ValueError(
                f"{one.key} is quantized ({one.dtype}), and {type(model).__name__} has no torch.nn.Linear or experts "
                "for it; expected a model of transformers whose quantized layers are of these kinds"
            )
    places, floats = {}, []
    tied = {name for pair in model.all_tied_weights_keys.items() for name in pair}
    for name, parts in found.items():
        layer = layers[name]
        if not _is_quantized(parts):
            _refuse_unless_floats(layer, parts)
            if type(layer) is torch.nn.Linear:
                floats.append(parts["weight"].key.removesuffix(".weight") if "weight" in parts else name)
            continue
        if f"{name}.weight" in tied:
            raise ValueError(f"{name} is quantized and its weight is tied to another one; expected a float weight")
        if is_experts(layer):
            _refuse_without_biases(layer, name, parts)
            parts = _expert_parts(layer, parts)
            held, at = Held(parts), f"{name}.{HELD}"
            held.hidden = width_of(layer)
            layer.add_module(HELD, held)
            for one in parameter_names(layer):
                setattr(layer, one, None)
                if any(part.endswith(".bias") for part in parts) and getattr(layer, "has_bias", False):
                    setattr(layer, f"{one}_bias", None)
            layer._is_hf_initialized = True  # its parameters are gone when transformers would initialize them
        elif type(layer) is torch.nn.Linear:
            if (layer.bias is None) == ("bias" in parts):
                wrong = "missing; expected it" if layer.bias is not None else "there; expected none"
                raise ValueError(f"{name}.bias is {wrong}, as config.json says")
            parts = {part: one for part, one in parts.items() if part != "bias"}
            refuse_if_read(model, name)
            held, at = Held(parts, layer.bias), name
            held.weight = torch.empty_like(layer.weight, device="meta")  # some models initialize a child's weight,
            held.weight._is_hf_initialized = True  # which this prevents
            model.set_submodule(name, held)
        else:
            raise ValueError(
                f"{name} is quantized in the checkpoint and is a {type(layer).__name__}, which computes more than a "
                "linear layer; expected a torch.nn.Linear"
            )
        for part, buffer in held.parts.items():
            one = parts[part]
            _refuse_if_changed(one.key, one.renamed.removesuffix(part) + _float_part(part), converters)
            places[one.renamed] = f"{at}.{buffer}"
    return Places(places), floats
