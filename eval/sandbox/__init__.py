"""The sandbox: the worker enters it with one call, before the submission is imported.

It works on Linux, for root and for ordinary users, without a package. Features that the kernel lacks are skipped and
reported.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eval.sandbox import kernel, landlock, mounts, privileges, processes, seccomp

# Devices that a submission may write to. Terminals are left out.
_DEVICES = ("null", "zero", "full", "random", "urandom", "shm")
_CUDA_DEVICES = ("nvidia*", "dri", "infiniband", "gdrdrv")
# Seen on an H200 (driver 580): cuInit fails with error 304 if it cannot write its threads' names there.
_CUDA_OWN_ENTRIES = Path("/proc/self")
# Compilers' caches: a folder that the user chose is kept.
CACHES = ("TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR", "NVFP4_CACHE", "XDG_CACHE_HOME")


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
            self.lacking.append(f"{part}: {getattr(error, 'strerror', None) or error}")
            return False
        return True

    def text(self) -> str:
        """One line for a report."""
        held = "; ".join(f"{part} ({what})" for part, what in self.parts.items())
        if not self.lacking:
            return held
        return f"{held or 'nothing'}; LACKING: {'; '.join(self.lacking)}"


def prepare_caches(scratch: Path, kept: Collection[str] = ()) -> None:
    """Points temporary files and compilers' caches into `scratch`, except the `kept` variables.

    CUDA's own cache is never kept: the harness's process would load machine code from it.
    """
    for name in (*CACHES, "CUDA_CACHE_PATH", "TMPDIR"):
        if name not in kept:
            path = scratch / name.lower()
            path.mkdir(mode=0o700, exist_ok=True)
            os.environ[name] = str(path)


def separate_mounts(device_type: str, folders: Sequence[int]) -> State:
    """Takes the first step of `enter`: mounts of its own. A process under Landlock, such as a keeper, may not do so."""
    state = State()
    if sys.platform == "linux":
        state.apply("mounts", lambda: mounts.restrict(folders, device_type == "cuda"))
    return state


def enter(
    scratch: Path, device_type: str, folders: Sequence[int], kept: Collection[str] = (), state: State | None = None
) -> State:
    """Puts this process into the sandbox for good. It may write to `folders`, descriptors of `scratch` and of caches.

    `kept` names the caches that are not in `scratch`. Linux restricts each thread separately, so call this while there
    is only one. `state` is that of `separate_mounts` if it was called before.
    """
    state = state or separate_mounts(device_type, folders)
    if sys.platform != "linux":
        state.lacking.append(f"everything: not built for {sys.platform}")
        return state
    prepare_caches(scratch, kept)
    protected = processes.protected_from(os.getpid())
    devices = _DEVICES + (_CUDA_DEVICES if device_type == "cuda" else ())
    writable: list[Path | int] = [*folders, *(path for name in devices for path in Path("/dev").glob(name))]
    if device_type == "cuda":
        writable.append(_CUDA_OWN_ENTRIES)
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        state.lacking.append(f"{threads - 1} threads started before the sandbox")
    state.apply("limits", lambda: privileges.limit_resources(device_type == "cpu"))
    state.apply("capabilities", privileges.drop_capabilities)
    if state.apply("no new privileges", privileges.forbid_new_privileges):
        scope_sockets = device_type != "cuda"  # CUDA lends memory to other processes through abstract sockets
        state.apply("Landlock", lambda: landlock.restrict(writable, scope_sockets, state.lacking))
        scoped = "signals" in state.parts.get("Landlock", "")
        state.apply("seccomp", lambda: seccomp.restrict(protected, scoped))
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
