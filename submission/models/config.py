"""What a model's config.json says of a layer: options of the modules, and a refusal of what they cannot honour."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from ..operators import SILU
from .checkpoint import Source, beginnings

_CONFIG = "config.json"
_OF_LANGUAGE = ("text_config", "llm_config", "language_config", "thinker_config")  # of models with other parts, too
_OF_OTHERS = {"vision_config": re.compile("visi|visual"), "audio_config": re.compile("audio")}  # by a layer's prefix

_ACTIVATIONS = dict.fromkeys(("silu", "swish", "swiglu"), SILU) | {
    **dict.fromkeys(("gelu_pytorch_tanh", "gelu_new", "gelu_tanh"), "gelu_tanh"),
    "relu2": "relu2",
}
_ACTIVATION = (
    "hidden_activation", "hidden_act", "mlp_hidden_act", "activation_function", "activation", "act_fn", "activation_fn",
    "dense_act_fn", "ffn_act_fn", "ffn_activation", "mlp_activation", "mlp_activation_function",
)  # fmt: skip
_NUMBERS = {"limit": "swiglu_limit", "alpha": "swiglu_alpha", "beta": "swiglu_beta"}
_TOP_K = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_top_k", "moe_topk", "moe_k")
_NORMALIZE = ("norm_topk_prob", "moe_renormalize", "route_norm", "moe_normalize_expert_weights")
# Softmax over the chosen experts alone, which is to normalize, without a word in their config.json.
_ALWAYS_NORMALIZE = ("mixtral", None)
_ALWAYS_SIGMOID = ("flint", "lfm2_moe")  # in place of softmax, without a word either

_IN_A_LAYER = re.compile(
    r"(swiglu|glu|mlp|ffn|activation|moe|experts?|gate|up|clamp)_(?!.*loss)"
    r".*(limit|clamp|alpha|beta|multipliers|sparsity).*"
)
_IN_A_ROUTER = re.compile(
    r".*scor(e|ing)_(func|fn).*|.*(selection|gating)_(func|fn).*|.*(router|routing|gate|gating)_(act|scor).*"
    r"|.*zero_expert.*|(n_|num_expert_|.*(moe|router|limited|topk)_(\w+_)?)groups?(_topk)?|topk_method"
    r"|.*grouped_topk|(moe|topk|experts?)_.*scal.*|.*sigmoid.*"
    r"|.*rout(e|er|ed|ing)_.*(scal|bias|softcap|on_input|temperature).*"
    r"|.*(use|enable)_(expert|rout\w+)_bias|router_bias"
)
_TRANSFORM = re.compile("transform|rotat|hadamard")
_NEUTRAL = (None, False, 0, 1, "softmax", "greedy", "")


def _read(source: Source, prefix: str) -> tuple[Path | None, dict[str, Any]]:
    """The config.json of a folder, or beside a file, and its part for the layer."""
    if isinstance(source, Mapping):
        return None, {}
    path = Path(source) / _CONFIG if Path(source).is_dir() else Path(source).with_name(_CONFIG)
    if not path.is_file():
        return None, {}
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is a {type(found).__name__}; expected an object of JSON")
    others = [name for name, of in _OF_OTHERS.items() if of.search(prefix)]
    while parts := [found[name] for name in others or _OF_LANGUAGE if isinstance(found.get(name), dict)]:
        found = {key: value for key, value in found.items() if key not in (*others, *_OF_LANGUAGE)} | parts[0]
    return path, found


def transform_of(published: Mapping[str, Any]) -> tuple[str, Any] | None:
    """What a quantization_config says of transforming a layer's inputs, such as by a Hadamard matrix."""
    return next(((key, value) for key, value in published.items() if value and _TRANSFORM.search(key)), None)


def _is_neutral(value: object) -> bool:
    if isinstance(value, list):
        return all(_is_neutral(one) for one in value)
    return value is not True and value in _NEUTRAL


class Config:
    """config.json's part for a layer; empty where the source has none."""

    def __init__(self, source: Source, prefix: str, ignore: Iterable[str] = ()) -> None:
        """ignore: names of options to leave out, among others."""
        self.path, found = _read(source, prefix)
        self._options = {key: value for key, value in found.items() if key not in beginnings(ignore)}
        published = found.get("quantization_config")
        transform = transform_of(published) if isinstance(published, Mapping) else None
        if transform and transform[0] not in beginnings(ignore):
            self._refuse(*transform, f"none, or ignore={transform[0]!r}")

    def _refuse(self, key: str, value: object, expected: str) -> NoReturn:
        raise ValueError(f"{self.path} has {key} {value!r:.80}; expected {expected}")

    def _first(self, keys: Iterable[str]) -> tuple[str, Any] | None:
        return next(((key, self._options[key]) for key in keys if self._options.get(key) is not None), None)

    def _check(self, keys: re.Pattern[str], known: Iterable[str] = ()) -> None:
        for key, value in self._options.items():
            limits = isinstance(value, int | float) and value and re.search("limit|clamp", key)
            if keys.fullmatch(key) and key not in known and (limits or not _is_neutral(value)):
                self._refuse(key, value, f"an option that this layer knows, or ignore={key!r}")

    def of_layer(self, given: dict[str, object]) -> dict[str, object]:
        """The options of a gated MLP; those given count more.  Raises ValueError for what it cannot honour."""
        found: dict[str, object] = {}
        activation = self._first(_ACTIVATION)
        if activation is not None and "activation" not in given:
            name = activation[1]
            if not isinstance(name, str) or name not in _ACTIVATIONS:
                self._refuse(*activation, f"one of {', '.join(_ACTIVATIONS)}")
            found["activation"] = _ACTIVATIONS[name]
        for option, key in _NUMBERS.items():
            number = self._options.get(key)
            if number and option not in given:
                if not isinstance(number, int | float):
                    self._refuse(key, number, f"one number, or {option}=")
                found[option] = float(number)
        if "limit" in found and not {"alpha", "beta"} <= {*found, *given}:
            limit = _NUMBERS["limit"]
            self._refuse(limit, found["limit"], "alpha= and beta= as well, 1 and 0 for SiLU: it has none")
        self._check(_IN_A_LAYER, _NUMBERS.values())
        return found | given

    def of_mixture(self, given: dict[str, object]) -> dict[str, object]:
        """The options of a mixture of experts with its router, as of_layer()."""
        found = self.of_layer(given)
        self._check(_IN_A_ROUTER)
        model_type = self._options.get("model_type")
        if model_type in _ALWAYS_SIGMOID:
            self._refuse("model_type", model_type, "a router with softmax, or ignore='model_type'")
        normalize, top_k = self._first(_NORMALIZE), self._first(_TOP_K)
        if "normalize" not in given and self.path is not None:
            if normalize is None and model_type not in _ALWAYS_NORMALIZE:
                self._refuse("no norm_topk_prob, model_type", model_type, "normalize=True or False")
            found |= {} if normalize is None else {"normalize": bool(normalize[1])}
        if found.get("top_k") is None:
            if top_k is None:
                raise ValueError(f"top_k is None and not in {self.path or 'a config.json'}; expected top_k=")
            if type(top_k[1]) is not int:
                self._refuse(*top_k, "one whole number, or top_k=")
            found["top_k"] = top_k[1]
        return found
