"""The form of round.json on disk: one short list for each shape.

In memory a shape's figures are an object, `{"base_us": 41.5, "candidate_us": 41.4, ...}`; on disk they are the list of
its values in the order of COLUMNS.  Files of older commits hold the objects, so that `expand` takes both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MEASURED = ("base_us", "candidate_us", "samples", "ratio", "low", "high")
SIMULATED = ("base_us", "candidate_us", "ratio")
COUNTED = ("base", "candidate", "ratio")


def _each_shape(data: dict[str, Any], change: Callable[[Any, tuple[str, ...]], Any]) -> dict[str, Any]:
    """A copy of a round with `change` applied to the figures of each shape."""

    def changed(block: dict[str, Any], columns: tuple[str, ...]) -> dict[str, Any]:
        return block | {"shapes": {shape: change(entry, columns) for shape, entry in block["shapes"].items()}}

    result = dict(data)
    if data.get("measurement"):
        result["measurement"] = changed(data["measurement"], MEASURED)
    if data.get("model"):
        result["model"] = changed(data["model"], SIMULATED)
    if data.get("judged_again"):
        result["judged_again"] = data["judged_again"] | {"model": changed(data["judged_again"]["model"], SIMULATED)}
    if data.get("simulation"):
        shapes = data["simulation"]["shapes"]
        counted = {
            shape: {name: change(entry, COUNTED) for name, entry in counters.items()}
            for shape, counters in shapes.items()
        }
        result["simulation"] = data["simulation"] | {"shapes": counted}
    return result


def expand(data: dict[str, Any]) -> dict[str, Any]:
    """A round as the tools see it, from what a file holds; ValueError where a list has another length."""

    def named(entry: Any, columns: tuple[str, ...]) -> Any:
        return dict(zip(columns, entry, strict=True)) if isinstance(entry, list) else entry

    return _each_shape(data, named)


def condense(data: dict[str, Any]) -> dict[str, Any]:
    """A round as its file holds it."""

    def listed(entry: Any, columns: tuple[str, ...]) -> Any:
        whole = isinstance(entry, dict) and tuple(entry) == columns
        return list(entry.values()) if whole else entry

    return _each_shape(data, listed)
