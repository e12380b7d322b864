"""Registration of the operators torch.ops.nvfp4_gemm.*, and what their Python parts share.

The library defines them itself through torch's stable C interface (submission/torch/), so that a call enters no Python
below torch.ops.  A torch without that interface (before 2.11) gets the same operators with implementations in Python,
which cost a call some 50 to 150 us of the host's time; the log of this module says so.

Python always has the fake implementations, which torch.compile, torch.export and FakeTensor use.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable

import torch

from . import submission

NAMESPACE = "nvfp4_gemm"

# torch's own generated code calls this; a torch without CUDA lacks it.
_raw_queue = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def current_queue(device: int) -> int:
    """The handle of the current queue of CUDA device `device`; 0 for the CPU, whose index is -1."""
    return _raw_queue(device) if device >= 0 and _raw_queue is not None else 0


def message() -> str:
    """Why the library refused this thread's last call."""
    return submission._library.custom_kernel_message().decode(errors="replace")


def raise_status(status: int) -> None:
    """Raises the exception for a call that the library refused, unless status is 0."""
    if status != 0:
        wrong = status in (submission._STATUS_NULL_POINTER, submission._STATUS_ARGUMENT)
        raise (ValueError if wrong else RuntimeError)(message())


def _schemas() -> dict[str, tuple[int, str]]:
    """The library's operators by name, NAME or NAME.OVERLOAD: number and schema."""
    try:
        schema = submission._library.custom_kernel_torch_schema
    except AttributeError:
        raise ImportError(f"{submission._library._name} is older than this package; expected ABI version 1.5") from None
    schema.restype = ctypes.c_char_p
    found = {}
    while (text := schema(len(found))) is not None:
        found[text.decode().partition("(")[0]] = (len(found), text.decode())
    return found


def _is_defined(name: str) -> bool:
    packet, _, overload = name.partition(".")
    found = getattr(torch.ops.nvfp4_gemm, packet, None)
    return found is not None and (overload or "default") in found.overloads()


_known = _schemas()
# Those of another copy of this package, before this one registers any: torch.ops remembers what it was asked for.
_defined = {name for name in _known if _is_defined(name)}
_of_c: set[str] = set()
_library = torch.library.Library(NAMESPACE, "FRAGMENT")


def register(name: str, fake: Callable[..., object], in_python: Callable[..., object] | None = None) -> bool:
    """Defines operator NAME or NAME.OVERLOAD of the library's table for CPU and CUDA tensors.

    fake: its fake implementation.  in_python: its implementation where torch lacks the stable C interface.

    Returns False if another copy of this package in this process has defined it.
    """
    if name in _defined:
        return False
    _defined.add(name)
    number, schema = _known[name]
    if submission._library.custom_kernel_torch_register(number) == 0:
        _of_c.add(name)
    else:
        logging.getLogger(__name__).warning("%s: the operator %s runs in Python", message(), name)
        _library.define(schema)
        for key in ("CPU", "CUDA"):
            _library.impl(name, in_python or _lacking(name), key)
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_library)
    return True


def in_c() -> bool:
    """True if this copy of the package has registered operators, and torch calls each of them in C."""
    return _of_c == _defined


def _lacking(name: str) -> Callable[..., object]:
    def refuse(*_: object, **__: object) -> object:
        raise RuntimeError(f"{NAMESPACE}::{name} needs torch's stable C interface; expected torch 2.11 or later")

    return refuse
