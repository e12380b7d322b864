"""The sandbox: the worker enters it with one call, before the submission is imported.

It works on Linux, for root and for ordinary users, without a package. Linux 6.12 and later have all of it; parts that a
kernel lacks are skipped and reported.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from eval.sandbox import kernel, landlock, mounts, places, privileges, seccomp

_CUDA_DEVICES = ("nvidia*", "dri", "infiniband", "gdrdrv")
# Seen on an H200 (driver 580): cuInit fails with error 304 if it cannot write its threads' names there.
_CUDA_OWN_ENTRIES = Path("/proc/self")
# Caches of compilers, and the folder for temporary files. All lie in the scratch folder, whatever the user has set: a
# later run would execute what a submission leaves in a cache.
SCRATCH_VARIABLES = (
    "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR", "NVFP4_CACHE", "XDG_CACHE_HOME",
    "CUDA_CACHE_PATH", "TMPDIR",
)  # fmt: skip

# What a submission can do without a part.
MEANS = {
    "mounts": "modes and times of the user's files can be changed",
    "limits": "files and processes have no bounds",
    "Landlock": "files of the user can be changed, and other programs signalled",
    "seccomp": "other programs can be slowed, and sockets opened",
}


@dataclass
class State:
    """The parts of the sandbox that are on, and those that the kernel lacks."""

    parts: dict[str, str] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)

    def apply(self, part: str, action: Callable[[], str]) -> bool:
        """Takes one step and records the result. Returns whether the kernel allowed it."""
        try:
            self.parts[part] = action()
        except (OSError, ValueError) as error:
            means = f", so that {MEANS[part]}" if part in MEANS else ""
            self.lacking.append(f"{part} ({getattr(error, 'strerror', None) or error}){means}")
            return False
        return True

    def text(self) -> str:
        """One line for a report."""
        held = "; ".join(f"{part} ({what})" for part, what in self.parts.items())
        if not self.lacking:
            return held
        return f"{held or 'nothing'}; LACKING: {'; '.join(self.lacking)}"

    def message(self) -> dict[str, Any]:
        """The state as JSON."""
        return asdict(self)


class Weakened(Exception):
    """A worker's sandbox lacks a part that earlier workers had: the harness ends, and nothing passes."""


_first: dict[str, State] = {}  # by kind of device: the state of the first worker, before any submission ran


def hold(device_type: str, state: State) -> None:
    """Raises Weakened unless a worker's sandbox has every part that the first one had."""
    first = _first.setdefault(device_type, state)
    if gone := [part for part in first.parts if part not in state.parts]:
        raise Weakened(
            f"the sandbox lost a part that it had before ({', '.join(gone)}): {'; '.join(state.lacking)}. "
            "No submission ran without it; the run ends here"
        )


def prepare_scratch(scratch: Path) -> None:
    """Points temporary files and compilers' caches into `scratch`."""
    for name in SCRATCH_VARIABLES:
        path = scratch / name.lower()
        path.mkdir(mode=0o700, exist_ok=True)
        os.environ[name] = str(path)


def separate_mounts(device_type: str, scratch: Path, folder: int) -> State:
    """Takes the first step of `enter`: mounts of its own. A process under Landlock, such as a keeper, may not do so."""
    state = State()
    if sys.platform == "linux":
        state.apply("mounts", lambda: mounts.restrict(scratch, folder, device_type == "cuda"))
    return state


def enter(scratch: Path, device_type: str, folder: int, submission: Path, state: State | None = None) -> State:
    """Puts this process into the sandbox for good. It may write to `scratch`, whose descriptor is `folder`.

    Linux restricts each thread separately, so call this while there is only one. `state` is that of `separate_mounts`
    if it was called before.
    """
    state = state or separate_mounts(device_type, scratch, folder)
    if sys.platform != "linux":
        state.lacking.append(f"everything: not built for {sys.platform}")
        return state
    readable = places.readable(submission, scratch.parent.parent)
    prepare_scratch(scratch)
    devices = (*mounts.DEVICES, mounts.SHARED_MEMORY.name, *(_CUDA_DEVICES if device_type == "cuda" else ()))
    writable: list[Path | int] = [folder, *(path for name in devices for path in Path("/dev").glob(name))]
    if device_type == "cuda":
        writable.append(_CUDA_OWN_ENTRIES)
        readable.append(places.DEVICES)
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        state.lacking.append(f"{threads - 1} threads started before the sandbox")
    state.apply("limits", lambda: privileges.limit_resources(device_type == "cpu"))
    state.apply("capabilities", privileges.drop_capabilities)
    if state.apply("no new privileges", privileges.forbid_new_privileges):
        state.apply("Landlock", lambda: landlock.restrict(writable, readable, state.lacking))
        state.apply("seccomp", seccomp.restrict)
    return state


def close_sockets(state: State) -> None:
    """Refuses sockets from now on, which lead to programs outside: tmux, docker, D-Bus, servers on this machine.

    Call it once the worker has mapped lent memory, for which CUDA uses Unix sockets. Raises Refused.
    """
    if "seccomp" in state.parts:
        seccomp.refuse_sockets()


def shield() -> None:
    """Keeps the user's other processes out of this one's memory, files and environment.

    Call it in the harness's process. Root is kept out by the sandbox's dropped capabilities.
    """
    if sys.platform == "linux":
        with contextlib.suppress(kernel.Refused):
            kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
