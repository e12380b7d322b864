"""Variants that are timed: a call, and the library's settings that its name stands for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scripts.common.gpu_backends import GPU_BACKENDS

Call = Callable[[int], object]  # runs the variant on input i

BACKENDS = tuple(name.upper() for name in GPU_BACKENDS)  # each reads variables of its own
CPU_ISAS = ("portable", "avx2", "avx512", "amx", "neon")


@contextmanager
def library_for_import(library: str) -> Iterator[None]:
    """NVFP4_LIBRARY set while a shim is imported: it loads its library then."""
    before = os.environ.get("NVFP4_LIBRARY")
    os.environ["NVFP4_LIBRARY"] = library
    try:
        yield
    finally:
        if before is None:
            del os.environ["NVFP4_LIBRARY"]
        else:
            os.environ["NVFP4_LIBRARY"] = before


def settings(variant: str, config_variables: tuple[str, ...]) -> dict[str, str]:
    """Environment variables of a variant, CONFIG+SUFFIXES; the library reads them in each call."""
    config, *suffixes = variant.split("+")
    on_cpu = config in CPU_ISAS
    tile = "" if config == "auto" or on_cpu else config
    dependent = "0" if "plain" in suffixes else "1"
    return (
        dict.fromkeys(config_variables, tile)
        | {f"NVFP4_{backend}_DEPENDENT_LAUNCH": dependent for backend in BACKENDS}
        | {"NVFP4_CPU_ISA": config if on_cpu else ""}
    )
