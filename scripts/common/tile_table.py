"""The GPU backends' tiles and tile selection, as the library prints them.

The program is build/tile_table (`make build`; scripts/tile_table/tile_table.c).
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

from scripts.common.toolchain import BUILD

PROGRAM = BUILD / "tile_table"


def printed(*arguments: str) -> dict[str, Any]:
    """The program's JSON output.  Raises FileNotFoundError before `make build`."""
    if not PROGRAM.is_file():
        raise FileNotFoundError(f"{PROGRAM} does not exist; run `make build` first")
    return json.loads(subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True).stdout)


def tiles(backend: str) -> dict[str, dict[str, int]]:
    """Name of each of a backend's tiles -> the members of its struct BACKEND_config."""
    return printed()[backend]["tiles"]


def names(backend: str) -> list[str]:
    """The names of a backend's tiles, in the library's order."""
    table = printed()[backend]
    return [*table["tiles"], *table.get("narrow_tiles", {})]


def extended_names(backend: str) -> list[str]:
    """The names of the tiles of Hopper's extended GEMM, in the library's order."""
    return list(printed()[backend]["extended_tiles"])


def grouped_names(backend: str) -> list[str]:
    """The names of the grouped GEMM's tiles, in the library's order."""
    return list(printed()[backend]["grouped_tiles"])


def experts_tiles(backend: str) -> dict[str, dict[str, int]]:
    """Name of each of the experts' tiles -> the members of its struct."""
    return printed()[backend]["experts_tiles"]


def experts_names(backend: str) -> list[str]:
    """The names of the experts' tiles, in the library's order."""
    return list(experts_tiles(backend))


def selected(backend: str, sms: int, *shapes: str) -> dict[str, dict[str, int | str]]:
    """The tile selected on a chip of `sms` SMs, its CTAs and predicted cost, by shape: "MxNxK" or "MxNxKxL"."""
    return printed(backend, str(sms), *shapes)
