"""Reads SOL-ExecBench's problems as cases: workload.jsonl and the definition.json in its folder.

The format is that of NVIDIA/SOL-ExecBench, docs/. A definition is this dual GEMM if it has the same tensors. Each
workload becomes a case of its sizes, with a seed made from its uuid. Inputs and tolerance are the leaderboard's, not
those of the definition's own reference.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

DEFINITION = "definition.json"
SUFFIX = ".jsonl"
DEFINITION_BYTES = 1 << 20
TENSORS = dict.fromkeys(("a", "b1", "b2"), "float4_e2m1fn_x2") | dict.fromkeys(("sfa", "sfb1", "sfb2"), "float8_e4m3fn")
TENSORS["c"] = "float16"


def _sizes(axes: Mapping[str, Any]) -> dict[str, int | None]:
    """M, N and K of a definition: a constant, or None where each workload gives the value."""
    sizes: dict[str, int | None] = {}
    for name in ("M", "N", "K"):
        axis = axes.get(name)
        axis = axis if isinstance(axis, dict) else {}
        sizes[name] = axis.get("value") if axis.get("type") == "const" else None
        if axis.get("type") != "var" and not isinstance(sizes[name], int):
            raise ValueError(f"axis {name} is neither a constant nor a variable; expected M, N and K")
    return sizes


def read_definition(folder: Path) -> dict[str, int | None]:
    """The sizes of the definition in a folder. Raises OSError or ValueError if it is not of this operation."""
    with (folder / DEFINITION).open("rb") as file:
        raw = file.read(DEFINITION_BYTES + 1)
    if len(raw) > DEFINITION_BYTES:
        raise ValueError(f"longer than {DEFINITION_BYTES} bytes")
    definition = json.loads(raw)
    if not isinstance(definition, dict):
        raise ValueError("not a JSON object")
    found = {}
    for kind in ("inputs", "outputs"):
        tensors = definition.get(kind)
        if not isinstance(tensors, dict) or not all(isinstance(one, dict) for one in tensors.values()):
            raise ValueError(f"{kind} is not an object of tensors")
        found.update({name: tensor.get("dtype") for name, tensor in tensors.items()})
    if found != TENSORS:
        raise ValueError("expected inputs a, b1, b2, sfa, sfb1, sfb2 and output c")
    axes = definition.get("axes")
    return _sizes(axes if isinstance(axes, dict) else {})


def _case(line: str, sizes: Mapping[str, int | None]) -> str:
    workload = json.loads(line)
    if not isinstance(workload, dict) or not isinstance(workload.get("axes"), dict):
        raise ValueError("not a JSON object with axes")
    name = workload.get("uuid")
    if not isinstance(name, str) or not name:
        raise ValueError("uuid is not a string")
    values = []
    for axis, constant in sizes.items():
        value = workload["axes"].get(axis) if constant is None else constant
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"axis {axis} has no integer value")
        values.append(f"{axis.lower()}: {value}")
    return f"{'; '.join(values)}; l: 1; seed: {zlib.crc32(name.encode())}"


def case_lines(lines: list[str], sizes: Mapping[str, int | None]) -> Iterator[str]:
    """A case file's line for each workload, and an empty line for each empty line. Raises ValueError."""
    for number, line in enumerate(lines, 1):
        try:
            yield _case(line, sizes) if line.strip() else ""
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number}: {error}") from None
