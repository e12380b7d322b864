"""What a model's config.json says of its quantization, and what a user asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from transformers.utils.quantization_config import QuantizationConfigMixin

from ..checkpoint import beginnings
from ..config import transform_of
from ..weights import CALIBRATED, TOKEN

QUANT_METHOD = "nvfp4_gemm"
AS_THE_CHECKPOINT = None
SIXTEEN_BIT = "16bit"
_KINDS = (AS_THE_CHECKPOINT, SIXTEEN_BIT, CALIBRATED, TOKEN)

# Products whose results choose or weigh experts, and the logits: small, and what published recipes leave alone.
LEFT_ALONE = ("lm_head", "*.gate", "*.router", "*.shared_expert_gate")

_GROUP = 16
_BITS = 4
_ALGORITHMS = {"NVFP4": CALIBRATED, "W4A16_NVFP4": SIXTEEN_BIT, "FP8": None}  # ModelOpt's names
_MIXED = "MIXED_PRECISION"
_FORMAT = "nvfp4-pack-quantized"  # compressed-tensors' name


def options_of(kind: str) -> dict[str, object]:
    """Linear()'s options for a kind of activations."""
    return {"quantize": False} if kind == SIXTEEN_BIT else {"scale": kind}


def is_ignored(name: str, patterns: Iterable[str]) -> bool:
    """True if a pattern names the module or a module around it: "re:" and a regular expression that matches at the
    start, as compressed-tensors has them, or a name or glob, as ModelOpt has them.
    """
    parts = name.split(".")
    around = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
    for pattern in patterns:
        if pattern.startswith("re:"):
            try:
                found = re.match(pattern[3:], name)
            except re.error as error:
                raise ValueError(f"ignore has {pattern!r}, which is no regular expression: {error}") from error
            if found:
                return True
        elif any(fnmatchcase(one, pattern) for one in around):
            return True
    return False


def _format(numbers: Mapping[str, Any] | None) -> tuple[Any, Any, Any]:
    """Of a group's weights or activations."""
    numbers = numbers or {}
    return numbers.get("num_bits"), numbers.get("type"), numbers.get("group_size")


def has_nvfp4(published: Mapping[str, Any]) -> bool:
    """True if the quantization_config of a config.json says that some weights are NVFP4."""
    groups = (published.get("config_groups") or {}).values()
    return any(_format(one.get("weights")) == (_BITS, "float", _GROUP) for one in groups if isinstance(one, Mapping))


def _kind_of_group(name: str, group: Mapping[str, Any]) -> str | None:
    bits, kind, size = _format(group.get("weights")) if isinstance(group, Mapping) else (None,) * 3
    if (bits, kind) == (8, "float"):
        return None  # the tensors say whether their FP8 is one that can be read
    if (bits, kind, size) != (_BITS, "float", _GROUP):
        raise ValueError(
            f"quantization_config.config_groups.{name} has weights of {bits} bits, type {kind}, in groups of {size}; "
            f"expected {_BITS}, float, {_GROUP} (NVFP4), or 8, float (FP8)"
        )
    inputs = group.get("input_activations")
    if not inputs:
        return SIXTEEN_BIT
    bits, kind, size = _format(inputs)
    if (bits, kind, size or _GROUP) != (_BITS, "float", _GROUP):
        raise ValueError(
            f"quantization_config.config_groups.{name} has input_activations of {bits} bits, type {kind}, in groups of "
            f"{size}; expected none, or {_BITS}, float, {_GROUP} (NVFP4)"
        )
    return TOKEN if inputs.get("dynamic") is True else CALIBRATED


def _kinds(published: Mapping[str, Any]) -> set[str]:
    """The kinds of activations that the layers of a published checkpoint have."""
    transform = transform_of(published)
    if transform:
        raise ValueError(f"quantization_config has a {transform[0]}; expected none: inputs are not transformed")
    groups = published.get("config_groups")
    if groups:
        found = {_kind_of_group(name, group) for name, group in groups.items()}
    else:
        algorithm = published.get("quant_algo")
        layers = published.get("quantized_layers") or {}
        names = {one.get("quant_algo") for one in layers.values()} if algorithm == _MIXED else {algorithm}
        unknown = sorted(str(one) for one in names if one not in _ALGORITHMS)
        if unknown:
            raise ValueError(f"quantization_config has quant_algo {unknown[0]}; expected {' or '.join(_ALGORITHMS)}")
        found = {_ALGORITHMS[one] for one in names}
    return found - {None}


class Nvfp4GemmConfig(QuantizationConfigMixin):
    """Quantizes the linear layers and experts of a 16-bit model to NVFP4 while it is loaded:

        AutoModelForCausalLM.from_pretrained(folder, quantization_config=Nvfp4GemmConfig())

    or, given with a checkpoint that is NVFP4 already, chooses how its activations are quantized.
    """

    def __init__(
        self, activations: str | None = AS_THE_CHECKPOINT, ignore: Iterable[str] = LEFT_ALONE, **others: object
    ) -> None:
        """activations: "16bit", not quantized (CPU and Hopper); "token", NVFP4 with a scale for each token;
        "calibrated", NVFP4 with the checkpoint's scale; None, what the checkpoint was made for, or "token" for a 16-bit
        model.
        ignore: modules of a 16-bit model to leave as they are: names or globs, or "re:" and a regular expression.
        """
        if activations not in _KINDS:
            raise ValueError(f"activations is {activations!r}; expected one of {', '.join(map(repr, _KINDS))}")
        self.quant_method = others.pop("quant_method", QUANT_METHOD)
        if others:
            raise TypeError(f"{sorted(others)[0]} is given; expected activations or ignore")
        self.activations, self.ignore = activations, list(beginnings(ignore))
        self.published: dict[str, Any] | None = None  # None: a 16-bit model
        self.kinds: set[str] = set()

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], return_unused_kwargs: bool = False, **kwargs: object) -> object:
        """From a config.json that ModelOpt or compressed-tensors wrote."""
        config = cls(ignore=config_dict.get("ignore") or config_dict.get("exclude_modules") or [])
        config.published = dict(config_dict)
        config.kinds = _kinds(config_dict)
        return (config, kwargs) if return_unused_kwargs else config

    def get_loading_attributes(self) -> dict[str, object]:
        """What a configuration given to from_pretrained() changes of the checkpoint's own."""
        return {} if self.activations is None else {"activations": self.activations}

    def to_dict(self) -> dict[str, Any]:
        """As compressed-tensors writes it: save_pretrained() writes the tensors by the same convention."""
        weights = {"num_bits": _BITS, "type": "float", "group_size": _GROUP, "strategy": "tensor_group"}
        weights |= {"symmetric": True, "dynamic": False}
        inputs = {SIXTEEN_BIT: None, CALIBRATED: {**weights, "dynamic": "local"}, TOKEN: {**weights, "dynamic": True}}
        groups = {
            f"group_{number}": {"targets": ["Linear"], "weights": weights, "input_activations": inputs[kind]}
            for number, kind in enumerate(sorted(self.kinds))
        }
        return {
            "quant_method": "compressed-tensors",
            "format": _FORMAT,
            "quantization_status": "compressed",
            "config_groups": groups,
            "ignore": sorted(self.ignore),
        }
