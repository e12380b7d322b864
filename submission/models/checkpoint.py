"""Quantized linear layers of a checkpoint: the two conventions of names, and safetensors files.

compressed-tensors   weight_packed, weight_scale, weight_global_scale, input_global_scale: global scales are divisors, a
                     weight is code * weight_scale / weight_global_scale
ModelOpt             weight (uint8), weight_scale, weight_scale_2, input_scale: both are multipliers, a weight is
                     code * weight_scale * weight_scale_2

In both, weight_scale (N, K/16) is row by row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from .weights import QuantizedLinear, check_codes, checked, number_of

PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
K_NAMES = ("hidden", "hidden", "intermediate")  # what K of each projection is
_OTHER_NAMES = ("w1", "w3", "w2")  # Mixtral's
_FACTORS, _BIAS = "weight_scale", "bias"
_DIVISORS = ("weight_packed", "weight_global_scale", "input_global_scale")  # compressed-tensors
_MULTIPLIERS = ("weight", "weight_scale_2", "input_scale")  # ModelOpt
_OF_CACHE = ("k_scale", "v_scale")  # of a cache of this layer's outputs
_INDEX = "model.safetensors.index.json"

Source = Mapping[str, torch.Tensor] | str | Path


def _files(path: Path, prefix: str) -> list[Path]:
    """The files that may have tensors with that prefix."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; expected a safetensors file or a folder with some")
    files = [path] if path.is_file() else sorted(path.glob("*.safetensors"))
    if (path / _INDEX).is_file():
        places = json.loads((path / _INDEX).read_text())["weight_map"]
        files = [path / name for name in sorted({file for name, file in places.items() if name.startswith(prefix)})]
        missing = [file for file in files if not file.exists()]
        if missing:
            raise FileNotFoundError(f"{missing[0]} does not exist; {path / _INDEX} places {prefix}* in it")
    if not files:
        raise FileNotFoundError(f"{path} has no safetensors file with tensors whose names begin with {prefix!r}")
    return files


def _safetensors(source: str | Path, prefix: str) -> dict[str, torch.Tensor]:
    """The tensors with that prefix of a file, or of a folder's files."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ImportError("a checkpoint's files need the package safetensors: pip install safetensors") from None
    found = {}
    for file in _files(Path(source), prefix):
        try:
            with safe_open(file, framework="pt") as tensors:
                found |= {name: tensors.get_tensor(name) for name in tensors.keys() if name.startswith(prefix)}  # noqa: SIM118
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
        left_out = tuple(self.prefix + one for one in ((ignore,) if isinstance(ignore, str) else ignore))
        self._tensors = {name: one for name, one in found.items() if not (left_out and name.startswith(left_out))}
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return self.prefix + name in self._tensors

    def has(self, beginning: str) -> bool:
        """True if there is a tensor whose name begins so, after the prefix."""
        return any(name.startswith(self.prefix + beginning) for name in self._tensors)

    def read(self, name: str) -> torch.Tensor:
        """One of the tensors.  Raises KeyError, saying what was expected, if it is missing."""
        try:
            found = self._tensors[self.prefix + name]
        except KeyError:
            raise KeyError(
                f"{self.prefix}{name} is missing; expected it, as compressed-tensors or ModelOpt name tensors"
            ) from None
        self._read.add(self.prefix + name)
        return found

    def linear(self, name: str, k_name: str = "K", inputs: bool = True) -> QuantizedLinear:
        """The layer NAME, "" for the prefix's own, by either convention.  inputs: False for one whose inputs are not
        quantized by the checkpoint's scale, which may then be missing.
        """
        at = f"{name}." if name else ""
        divisors = not any(at + one in self for one in _MULTIPLIERS) or at + _DIVISORS[0] in self
        codes_name, *scale_names = (at + one for one in (_DIVISORS if divisors else _MULTIPLIERS))
        codes = self.read(codes_name)
        check_codes(codes, self.prefix + codes_name, k_name)
        factors = self.read(at + _FACTORS)
        scales: list[torch.Tensor | None] = [None, None]
        for place, scale_name in enumerate(scale_names):
            if place == 0 or inputs or scale_name in self:
                scale = number_of(self.prefix + scale_name, self.read(scale_name), codes.device)
                scales[place] = 1 / scale if divisors == (place == 0) else scale
        names = [self.prefix + one for one in (codes_name, at + _FACTORS, *scale_names)]
        for one in _OF_CACHE:
            if at + one in self:
                self.read(at + one)
        return checked(QuantizedLinear(codes, factors, *(scales if inputs else scales[:1])), names, k_name)

    def bias(self, name: str) -> torch.Tensor | None:
        """The bias of the layer NAME, if there is one."""
        at = f"{name}.{_BIAS}" if name else _BIAS
        return self.read(at) if at in self else None

    def projections(self, at: str = "", inputs: bool = True) -> list[QuantizedLinear]:
        """Gate, up and down of the layer AT, by either convention and either of two sets of names."""
        names = _OTHER_NAMES if self.has(f"{at}{_OTHER_NAMES[0]}.") else PROJECTIONS
        return [self.linear(at + name, k_name, inputs) for name, k_name in zip(names, K_NAMES, strict=True)]

    def refuse_others(self) -> None:
        """Raises ValueError if a tensor was not read: without it the layer would be another one."""
        others = sorted(self._tensors.keys() - self._read)
        if others:
            raise ValueError(
                f"{others[0]} is there, which the layer would leave out; expected only "
                f"{', '.join(sorted(self._read)[:5])} and their like, or ignore= with the beginning of its name"
            )
