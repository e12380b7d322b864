"""Landlock: reads and writes only where they are allowed, signals only within the sandbox.

Constants and structures are those of linux/landlock.h. A process under Landlock can trace, or read the memory of, only
processes of the same Landlock domain or one nested in it.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from eval.sandbox import kernel

_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1

_WRITE_FILE, _READ_FILE = 1 << 1, 1 << 2
# Remove directories and files, make devices, directories, files, sockets, FIFOs and links: bits 4 to 12.
_CHANGE_FOLDERS = 0x1FF << 4
_REFER = 1 << 13  # ABI 2: move between folders
_TRUNCATE = 1 << 14  # ABI 3
_IOCTL_DEV = 1 << 15  # ABI 5
_SCOPE_SIGNALS = 1 << 1  # ABI 6
_ABI_REFER, _ABI_TRUNCATE, _ABI_IOCTL, _ABI_SCOPE = 2, 3, 5, 6


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def abi() -> int:
    """The kernel's version of Landlock. Raises Refused if there is none."""
    return kernel.call("landlock_create_ruleset", 0, 0, _CREATE_RULESET_VERSION)


def _handled(version: int) -> int:
    access = _READ_FILE | _WRITE_FILE | _CHANGE_FOLDERS
    for since, bit in ((_ABI_REFER, _REFER), (_ABI_TRUNCATE, _TRUNCATE), (_ABI_IOCTL, _IOCTL_DEV)):
        access |= bit if version >= since else 0
    return access


def _allow(ruleset: int, path: Path | int, access: int) -> None:
    """Allows access below a folder (or its descriptor), or to one file or device; a missing path needs no rule."""
    try:
        descriptor = os.dup(path) if isinstance(path, int) else os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
        rule = _PathBeneath(allowed_access=access, parent_fd=descriptor)
        kernel.call("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(descriptor)


def _enter(attributes: _Ruleset, size: int, writable: Iterable[Path | int], readable: Iterable[Path] = ()) -> None:
    """Puts this thread under a ruleset that allows all that it handles below some paths, and reading below others."""
    ruleset = kernel.call("landlock_create_ruleset", ctypes.byref(attributes), size, 0)
    try:
        for path in readable:
            _allow(ruleset, path, _READ_FILE)
        for path in writable:
            _allow(ruleset, path, attributes.handled_access_fs)
        kernel.call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def scope_signals() -> None:
    """Restricts this thread's signals, and those of everything it starts, to processes that it starts.

    no_new_privs must be on. Raises Refused if the kernel cannot do so.
    """
    if abi() < _ABI_SCOPE:
        raise kernel.Refused(f"signals need Landlock ABI {_ABI_SCOPE}")
    # Every ruleset denies moves between folders that it does not allow (Linux, userspace-api/landlock.rst).
    _enter(_Ruleset(handled_access_fs=_REFER, scoped=_SCOPE_SIGNALS), ctypes.sizeof(_Ruleset), [Path("/")])


def restrict(writable: Iterable[Path | int], readable: Iterable[Path], lacking: list[str]) -> str:
    """Puts this thread and everything it starts under Landlock. Returns what is restricted; adds what the kernel lacks.

    no_new_privs must be on. Raises Refused if the kernel has no Landlock or it is disabled.
    """
    version = abi()
    attributes, size = _Ruleset(handled_access_fs=_handled(version)), _Ruleset.handled_access_fs.size
    if version >= _ABI_SCOPE:
        attributes.scoped, size = _SCOPE_SIGNALS, ctypes.sizeof(_Ruleset)
    parts = ((1, "files"), (_ABI_SCOPE, "signals"), (_ABI_TRUNCATE, "truncation"), (_ABI_IOCTL, "ioctl of devices"))
    _enter(attributes, size, writable, readable)
    lacking += [f"{what} (Landlock ABI {since})" for since, what in parts if version < since]
    return f"ABI {version}: {', '.join(what for since, what in parts if version >= since)}"
