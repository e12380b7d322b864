"""Variants that are timed: a call, and the library's settings that its name stands for."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from scripts.common.gpu_backends import GPU_BACKENDS

Call = Callable[[int], object]  # runs the variant on input i

BACKENDS = tuple(name.upper() for name in GPU_BACKENDS)  # each reads variables of its own
REFUSAL = " backend with tile "  # part of a backend's message that a named tile does not take the shape
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


def kernel_of_checkout(library: str, checkout: Path, shim: str) -> Callable[..., Any]:
    """custom_kernel of a checkout's shim on another library, without the rest of its package."""
    package = ModuleType(f"other_submission_{len(sys.modules)}")
    package.__path__ = [str(checkout / "submission")]
    sys.modules[package.__name__] = package
    with library_for_import(library):
        return importlib.import_module(f"{package.__name__}.{shim}").custom_kernel


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


def ours(
    inputs: list[Any], name: str, kernels: dict[str, Callable[..., Any]], config_variables: tuple[str, ...]
) -> Call:
    """A variant of the library, by its name; `prepare` sets what the library reads in each call."""
    library, _, variant = name.rpartition("/")
    kernel = kernels[library]

    def call(i: int) -> None:
        kernel(inputs[i])

    call.prepare = lambda: os.environ.update(settings(variant, config_variables))
    return call


def run_into_nan(call: Call, i: int, outputs: list[torch.Tensor]) -> None:
    """Runs a variant to its end, so that an element which it does not write is NaN."""
    for output in outputs:
        output.fill_(float("nan"))
    call(i)
    getattr(call, "finish", lambda: None)()
    if outputs[0].is_cuda:
        torch.cuda.synchronize()


def in_memory_order(blocked: torch.Tensor) -> torch.Tensor:
    """Blocked scale factors of one batch as the flat tensor that torch._scaled_mm takes."""
    return blocked.permute(5, 2, 4, 0, 1, 3).reshape(-1)


def scaled_mm(products: list[list[tuple[torch.Tensor, ...]]]) -> Call:
    """torch._scaled_mm of a, b, their blocked scale factors and c, all of one batch, for each product of each input."""
    work = [
        [(a, b.t(), *map(in_memory_order, scales), c) for a, b, *scales, c in products_of_one]
        for products_of_one in products
    ]

    def call(i: int) -> None:
        for a, b, sfa, sfb, c in work[i]:
            torch._scaled_mm(a, b, sfa, sfb, out_dtype=torch.half, out=c)

    return call


def rounding_error(output: torch.Tensor, want: torch.Tensor) -> float:
    """A baseline's error, which may sum in any order, relative to the largest output."""
    return ((output.float() - want.float()).abs().max() / want.float().abs().max()).item()
