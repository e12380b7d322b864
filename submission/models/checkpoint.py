"""Quantized linear layers of a checkpoint: the two conventions of names, and safetensors files.

compressed-tensors   weight_packed, weight_scale, weight_global_scale, input_global_scale: global scales are divisors, a
                     weight is code * weight_scale / weight_global_scale
ModelOpt             weight (uint8), weight_scale, weight_scale_2, input_scale: both are multipliers, a weight is
                     code * weight_scale * weight_scale_2

In both, weight_scale (N, K/16) is row by row.

Experts may be in one tensor, "experts.gate_up_proj" (E, 2I, H/2) or (E, H/2, 2I), with scales by the names
"experts.gate_up_proj_weight_scale" and so on; gate and up of any layer may be in one weight, "gate_up_proj".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from ..operators import STACKED
from .weights import QuantizedLinear, check_codes, check_factors, checked, in_two, number_of, rows_in_two

PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
K_NAMES = ("hidden", "hidden", "intermediate")  # what K of each projection is
_OTHER_NAMES = ("w1", "w3", "w2")  # Mixtral's
_MERGED = "gate_up_proj"
_FACTORS, _BIAS = "weight_scale", "bias"
_DIVISORS = ("weight_packed", "weight_global_scale", "input_global_scale")  # compressed-tensors
_MULTIPLIERS = ("weight", "weight_scale_2", "input_scale")  # ModelOpt
OF_CACHE = ("k_scale", "v_scale")  # of a cache of this layer's outputs
_CODES = (_DIVISORS[0], _MULTIPLIERS[0])
_FIELDS = (*_DIVISORS, *_MULTIPLIERS, _FACTORS, _BIAS)
# A tensor of all experts, "experts.NAME", "experts.NAME_FIELD" or "experts.NAME.FIELD".
_OF_ALL = re.compile(rf"(?P<name>[a-z]\w*?)(?:[._](?P<field>{'|'.join(_FIELDS)}))?")
_INDEX = "model.safetensors.index.json"

Source = Mapping[str, torch.Tensor] | str | Path


def beginnings(ignore: Iterable[str]) -> tuple[str, ...]:
    """What a caller gives as ignore=, of one word or several."""
    return (ignore,) if isinstance(ignore, str) else tuple(ignore)


def _files(path: Path, prefix: str) -> list[Path]:
    """The files that may have tensors with that prefix."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; expected a safetensors file or a folder with some")
    files = [path] if path.is_file() else sorted(path.glob("*.safetensors"))
    if (path / _INDEX).is_file():
        try:
            places = dict(json.loads((path / _INDEX).read_text())["weight_map"])
            files = [path / name for name in sorted({file for name, file in places.items() if name.startswith(prefix)})]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path / _INDEX} has no weight_map with a file for each tensor: {error}") from error
        missing = [file for file in files if not file.exists()]
        if missing:
            raise FileNotFoundError(f"{missing[0]} does not exist; {path / _INDEX} places {prefix}* in it")
    if not files:
        raise FileNotFoundError(f"{path} has no safetensors file with tensors whose names begin with {prefix!r}")
    return files


def refuse_twice(names: Iterable[str], file: str | Path, places: dict[str, str | Path]) -> None:
    """Notes in `places` that these tensors are in a file.  Raises ValueError for one that another file has, too."""
    for name in names:
        if name in places:
            raise ValueError(f"{name} is in {places[name]} and in {file}; expected it in one of them")
        places[name] = file


def _safetensors(source: str | Path, prefix: str) -> dict[str, torch.Tensor]:
    """The tensors with that prefix of a file, or of a folder's files."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ImportError("a checkpoint's files need the package safetensors: pip install safetensors") from None
    found: dict[str, torch.Tensor] = {}
    places: dict[str, Path] = {}
    for file in _files(Path(source), prefix):
        try:
            with safe_open(file, framework="pt") as tensors:
                names = [name for name in tensors.keys() if name.startswith(prefix)]  # noqa: SIM118
                refuse_twice(names, file, places)
                found |= {name: tensors.get_tensor(name) for name in names}
        except SafetensorError as error:
            raise ValueError(f"{file} is no whole safetensors file: {error}") from error
    return found


class Tensors:
    """The tensors of a layer, from a mapping, a safetensors file or a model's folder, and which of them were read."""

    def __init__(self, source: Source, prefix: str, ignore: Iterable[str] = ()) -> None:
        """ignore: the tensors whose names begin with PREFIX and one of these are left out."""
        self.prefix = prefix if prefix.endswith(".") or not prefix else f"{prefix}."
        if isinstance(source, Mapping):
            found = {name: source[name] for name in source if name.startswith(self.prefix)}
        else:
            found = _safetensors(source, self.prefix)
        left_out = tuple(self.prefix + one for one in beginnings(ignore))
        self._tensors = {name: one for name, one in found.items() if not name.startswith(left_out)}
        self._read: set[str] = set()
        self._shown: dict[str, str] = {}  # what messages call a tensor that is a part of another one

    def __contains__(self, name: str) -> bool:
        return self.prefix + name in self._tensors

    def has(self, name: str) -> bool:
        """True if there are codes of the layer NAME."""
        return any(f"{name}.{field}" in self for field in _CODES)

    def read(self, name: str) -> torch.Tensor:
        """One of the tensors.  Raises KeyError, saying what was expected, if it is missing."""
        if name not in self:
            there = sorted(self._shown.get(one, one) for one in self._tensors.keys() - self._read)
            raise KeyError(
                f"{self.prefix}{name} is missing; expected it, as compressed-tensors or ModelOpt name tensors, "
                f"beside {there[0] if there else 'those that were read'}"
            )
        found = self._tensors[self.prefix + name]
        if not isinstance(found, torch.Tensor):
            raise TypeError(f"{self.shown(name)} is a {type(found).__name__}; expected a torch.Tensor")
        self._read.add(self.prefix + name)
        return found

    def shown(self, name: str) -> str:
        """A tensor's name in its file."""
        return self._shown.get(self.prefix + name, self.prefix + name)

    def split_experts(self, at: str, experts: int, hidden: int) -> None:
        """Makes tensors of all experts, AT + "down_proj" and its like, to those of each, AT + "0.down_proj.weight"."""
        found = {}
        for name in [name for name in self._tensors if name.startswith(self.prefix + at)]:
            match = _OF_ALL.fullmatch(name, len(self.prefix + at))
            if match is not None:
                found[name] = match["name"], match["field"] or _MULTIPLIERS[0], self._tensors.pop(name)
        codes = [(name, one) for name, field, one in found.values() if field in _CODES and one.dim() == 3]
        down = (PROJECTIONS[2], _OTHER_NAMES[2])
        transposed = any(one.shape[1] != hidden if name in down else one.shape[2] != hidden // 2 for name, one in codes)
        for shown, (name, field, one) in found.items():
            if one.dim() == 3 and transposed:
                one = one.transpose(1, 2)
            if one.numel() != 1 and one.shape[0] != experts:
                raise ValueError(f"{shown} has shape {tuple(one.shape)}; expected {experts} experts first")
            for number in range(experts):
                part = f"{self.prefix}{at}{number}.{name}.{field}"
                if part in self._tensors:
                    raise ValueError(f"{part} is in {shown} and by itself; expected one of them")
                self._tensors[part] = one if one.numel() == 1 else one[number]
                self._shown[part] = f"{shown}[{number}]"

    def linear(self, name: str, k_name: str = "K", inputs: bool = True) -> QuantizedLinear:
        """The layer NAME, "" for the prefix's own, by either convention.  inputs: False for one whose inputs are not
        quantized by the checkpoint's scale, which may then be missing.
        """
        at = f"{name}." if name else ""
        divisors = not any(at + one in self for one in _MULTIPLIERS) or at + _DIVISORS[0] in self
        names = [at + one for one in (_DIVISORS if divisors else _MULTIPLIERS)]
        names.insert(1, at + _FACTORS)
        shown = [self.shown(one) for one in names]
        self._read |= {self.prefix + one for one in (names[3], *(at + one for one in OF_CACHE)) if one in self}
        codes = self.read(names[0])
        check_codes(codes, shown[0], k_name)
        factors, scale = self.read(names[1]), number_of(shown[2], self.read(names[2]), codes.device)
        found = QuantizedLinear(codes, factors, 1 / scale if divisors else scale)
        if inputs:
            if names[3] not in self:
                raise KeyError(f"{shown[3]} is missing; expected it, scale='token', or quantize=False")
            scale = number_of(shown[3], self.read(names[3]), codes.device)
            found = found._replace(input_scale=scale if divisors else 1 / scale)
        found = checked(found, shown, k_name)
        check_factors(found.factors, shown[1])
        return found

    def bias(self, name: str) -> torch.Tensor | None:
        """The bias of the layer NAME, if there is one."""
        at = f"{name}.{_BIAS}" if name else _BIAS
        return self.read(at) if at in self else None

    def projections(
        self, at: str = "", inputs: bool = True, weights: str = STACKED
    ) -> tuple[QuantizedLinear, QuantizedLinear, QuantizedLinear]:
        """Gate, up and down of the layer AT, by either convention and either of two sets of names.  weights: the order
        of rows where gate and up are one weight, of gated_gemm().
        """
        names = [at + name for name in (_OTHER_NAMES if self.has(at + _OTHER_NAMES[0]) else PROJECTIONS)]
        if self.has(at + _MERGED):
            gate, up = in_two(self.linear(at + _MERGED, K_NAMES[0], inputs), weights, self.shown(at + _MERGED))
        else:
            gate, up = (self.linear(name, K_NAMES[0], inputs) for name in names[:2])
        return gate, up, self.linear(names[2], K_NAMES[2], inputs)

    def biases(self, at: str = "", weights: str = STACKED) -> list[torch.Tensor | None]:
        """The biases of projections()."""
        names = [at + name for name in (_OTHER_NAMES if self.has(at + _OTHER_NAMES[0]) else PROJECTIONS)]
        both = self.bias(at + _MERGED)
        if both is None:
            return [self.bias(name) for name in names]
        return [*rows_in_two(both, weights, self.shown(f"{at}{_MERGED}.{_BIAS}")), self.bias(names[2])]

    def refuse_others(self) -> None:
        """Raises ValueError if a tensor was not read: without it the layer would be another one."""
        others = sorted(self._shown.get(name, name) for name in self._tensors.keys() - self._read)
        if others:
            raise ValueError(
                f"{others[0]} is there, which the layer would leave out; expected none but a layer's weights and their "
                "scales, or ignore= with the beginning of its name after the prefix"
            )
