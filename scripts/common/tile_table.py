"""The GPU backends' tiles as the library itself prints them: build/tile_table, which `make build` makes.

submission/tile_table/tile_table.c says what the program prints.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

from scripts.common.toolchain import BUILD

PROGRAM = BUILD / "tile_table"


def printed(*arguments: str) -> dict[str, Any]:
    """The program's answer; FileNotFoundError, with what to do, before `make build`."""
    if not PROGRAM.is_file():
        raise FileNotFoundError(f"{PROGRAM} does not exist; run `make build` first")
    return json.loads(subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True).stdout)


def tiles(backend: str) -> dict[str, dict[str, int]]:
    """Name of each of a backend's tiles -> its figures, named as the members of `struct BACKEND_config`."""
    return printed()[backend]["tiles"]


def names(backend: str) -> list[str]:
    """The names of all of a backend's tiles, in the order in which the library lists them."""
    table = printed()[backend]
    return [*table["tiles"], *table.get("narrow_tiles", {})]


def grouped_names(backend: str) -> list[str]:
    """The same of the grouped GEMM's tiles."""
    return list(printed()[backend]["grouped_tiles"])


def costs(backend: str) -> dict[str, int]:
    """The constants of a backend's tile selection."""
    return printed()[backend]["costs"]


def selected(backend: str, sms: int, *shapes: str) -> dict[str, dict[str, int | str]]:
    """For each shape, "MxNxK" or "MxNxKxL", the tile selected on a chip of `sms` SMs, its CTAs and predicted cost."""
    return printed(backend, str(sms), *shapes)
