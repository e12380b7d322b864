"""A mount namespace of the worker's own: everything is read-only except the folder that it may write to.

Landlock covers neither modes, owners, times nor extended attributes of files; a read-only mount does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

from eval.sandbox import kernel

# linux/sched.h, linux/mount.h, linux/fcntl.h
_NEW_MOUNTS, _NEW_USER = 0x20000, 0x10000000
_READ_ONLY = 1
_HERE, _RECURSIVE, _EMPTY_PATH = -100, 0x8000, 0x1000
_CLONE = 1
_FROM_EMPTY_PATH = 0x04
_NO_SUID, _NO_DEVICES, _RECURSIVE_PRIVATE = 0x2, 0x4, 0x4000 | 0x40000
DEVICES = ("null", "zero", "full", "random", "urandom")
_DEVICE_FOLDER = Path("/dev")
SHARED_MEMORY = _DEVICE_FOLDER / "shm"


class _Attributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user_namespace"))


def _set_attributes(path: Path, flags: int, **attributes: int) -> None:
    words = _Attributes(**attributes)
    name = ctypes.c_char_p(os.fsencode(path))
    kernel.call("mount_setattr", _HERE, name, flags, ctypes.byref(words), ctypes.sizeof(words))


def _mount(source: str, target: Path, kind: str, flags: int, options: str) -> None:
    kernel.call("mount", *(ctypes.c_char_p(text.encode()) for text in (source, str(target), kind)), flags,
                ctypes.c_char_p(options.encode()))  # fmt: skip


def _separate(with_user: bool) -> str:
    """Enters a mount namespace; an ordinary user needs a user namespace for that, which `with_user` allows."""
    try:
        kernel.call("unshare", _NEW_MOUNTS)
        return ""
    except kernel.Refused:
        if not with_user:
            raise
    user, group = os.geteuid(), os.getegid()
    kernel.call("unshare", _NEW_MOUNTS | _NEW_USER)
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{user} {user} 1")
    (own / "gid_map").write_text(f"{group} {group} 1")
    return " in a user namespace"


def _copy(path: Path, same: int | None = None) -> int:
    """A copy of what is mounted at a path, not attached yet. Raises Refused if it is not the file of `same`."""
    here = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)  # `same` belongs to another mount namespace
    try:
        if same is not None and not os.path.samestat(os.fstat(here), os.fstat(same)):
            raise kernel.Refused("the folder to write to was replaced")
        return kernel.call("open_tree", here, ctypes.c_char_p(b""), _EMPTY_PATH | _CLONE | os.O_CLOEXEC)
    finally:
        os.close(here)


def _attach(copy: int, path: Path) -> None:
    name = ctypes.c_char_p(os.fsencode(path))
    kernel.call("move_mount", copy, ctypes.c_char_p(b""), _HERE, name, _FROM_EMPTY_PATH)
    os.close(copy)


def restrict(folder: Path, opened: int, on_cuda: bool) -> str:
    """Makes every mount read-only for this process and what it starts, except `folder`, which is open as `opened`.

    On a CPU /dev becomes a file system of its own with DEVICES and an empty /dev/shm, both of which end with the last
    process. On a GPU /dev stays, since CUDA shares events through files in /dev/shm, and so does /proc, where it names
    threads. Call it while there is one thread. Raises Refused, also after a first step.
    """
    where = _separate(with_user=not on_cuda)
    _mount("none", Path("/"), "none", _RECURSIVE_PRIVATE, "")
    copies = {folder: _copy(folder, opened)}
    _set_attributes(Path("/"), _RECURSIVE, set=_READ_ONLY)
    if not on_cuda:  # read-only too, which keeps their modes and times; a device itself can be written to all the same
        copies |= {_DEVICE_FOLDER / name: _copy(_DEVICE_FOLDER / name) for name in DEVICES}
    for path in (Path("/proc"), SHARED_MEMORY) if on_cuda else ():
        with contextlib.suppress(kernel.Refused):  # not a mount of its own, or read-only from the start
            _set_attributes(path, 0, clear=_READ_ONLY)
    if not on_cuda:
        _mount("tmpfs", _DEVICE_FOLDER, "tmpfs", _NO_SUID | _NO_DEVICES, "mode=755")
        SHARED_MEMORY.mkdir()
        _mount("tmpfs", SHARED_MEMORY, "tmpfs", _NO_SUID | _NO_DEVICES, "mode=1777")
        for path in copies:
            if path != folder:
                path.touch()
            elif path.is_relative_to(SHARED_MEMORY):  # hidden by the new file system
                path.mkdir(mode=0o700, parents=True)
    for path, copy in copies.items():
        _attach(copy, path)
    if not on_cuda:
        _set_attributes(_DEVICE_FOLDER, 0, set=_READ_ONLY)
    return f"read-only{where}" if on_cuda else f"read-only, /dev its own{where}"
