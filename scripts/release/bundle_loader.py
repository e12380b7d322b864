"""Compiles a bundled submission's sources on first import; scripts/release/bundle.py inserts this code in the bundle.

The bundle has this module in the place of submission/library_file.py.  After it, `_SOURCES` maps paths to the C and
CUDA sources.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from pathlib import Path

# The bundle gives all but the first of these the values of its target.
LIBRARY_NAME = "libcustom_kernel.so"
_SOURCES: dict[str, str] = {}
_C_FLAGS: tuple[str, ...] = ()
_LINK_FLAGS: tuple[str, ...] = ()
# End of a source's name -> flags that the C compiler must accept for the source to be built, and a macro to define.
_OPTIONAL: dict[str, tuple[tuple[str, ...], str]] = {}
_NVCC_FLAGS: tuple[str, ...] = ()

_CACHE_VARIABLE = "NVFP4_CACHE"
_CHECKSUM_NAME = "sha256"  # a file with the library's checksum, next to it
_PRIVATE_UMASK = 0o077  # files in the cache are accessible to this user only
_WRITABLE_BY_OTHERS = 0o022
_LIBRARIES_KEPT = 16
_SWEEP_AFTER_S = 3600  # no build takes this long, so the process of an older build folder was killed
_COMPILE_LIMIT_S = 120  # the leaderboard's
_OUTPUT_SHOWN = 8000  # characters; the leaderboard cuts at 16 KB
_PROBE = "#include <immintrin.h>\n__m512i probe;\n"


def _find_c_compiler() -> str:
    compiler = os.environ.get("CC") or "cc"
    found = shutil.which(compiler) or (shutil.which("gcc") if compiler == "cc" else None)
    if found is None:
        raise ImportError(f"the C compiler '{compiler}' is not in PATH; install gcc or set CC")
    return found


def _find_nvcc() -> str:
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    found = os.environ.get("NVCC") or shutil.which("nvcc")
    if found is None:
        found = next((path for home in homes if (path := shutil.which("nvcc", path=f"{home}/bin"))), None)
    if found is None:
        from torch.utils.cpp_extension import CUDA_HOME  # torch's guess of the toolkit's folder

        found = shutil.which("nvcc", path=f"{CUDA_HOME}/bin") if CUDA_HOME else None
    if found is None:
        raise ImportError("nvcc is neither in PATH nor in CUDA_HOME; this submission compiles its kernels with it")
    return found


def find_compilers(cuda: bool) -> list[str]:
    """The paths of the C compiler and, for CUDA sources, of nvcc.  Raises ImportError naming the missing one."""
    return [_find_c_compiler(), *([_find_nvcc()] if cuda else [])]


def _version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout


def _digest(compilers: list[str]) -> str:
    """Digest of everything that determines the library: sources, flags, compilers and their versions."""
    parts = [*_C_FLAGS, *_LINK_FLAGS, *_NVCC_FLAGS, repr(_OPTIONAL), repr(sorted(_SOURCES.items()))]
    parts += [text for compiler in compilers for text in (compiler, _version(compiler))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _cache_root() -> Path:
    """This user's folder of built libraries.  Raises ImportError if others can write to it."""
    chosen = os.environ.get(_CACHE_VARIABLE)
    root = Path(chosen) if chosen else Path(tempfile.gettempdir()) / f"nvfp4-dual-gemm-{os.getuid()}"
    advice = f"remove it or set {_CACHE_VARIABLE} to another folder"
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status, above = root.lstat(), root.absolute().parent.stat()
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}"
        raise ImportError(f"{root} cannot be used ({reason}); set {_CACHE_VARIABLE} to a folder of your own") from None
    if not stat.S_ISDIR(status.st_mode) or not _mine_alone(status):
        raise ImportError(f"{root} is not owned and writable by this user alone; {advice}")
    if above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
        raise ImportError(f"{root} lies in a folder where anyone can replace it; {advice}")
    return root


def _mine_alone(status: os.stat_result) -> bool:
    return status.st_uid == os.getuid() and not status.st_mode & _WRITABLE_BY_OTHERS


def _run_all(commands: list[list[str]], folder: Path, deadline: float) -> None:
    """Runs the commands in parallel; raises ImportError with the output of the first one that fails."""
    running: list[subprocess.Popen[str]] = []
    try:
        for command in commands:
            running.append(
                subprocess.Popen(
                    command,
                    cwd=folder,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    process_group=0,  # compiler drivers start child processes, which must be killed with them
                )
            )
        for process in running:
            output, _ = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
            if process.returncode != 0:
                command_line = " ".join(process.args)
                raise ImportError(f"compilation failed: {command_line}\n{output[:_OUTPUT_SHOWN]}")
    except subprocess.TimeoutExpired:
        raise ImportError(f"compilation took more than {_COMPILE_LIMIT_S} s and was ended") from None
    finally:
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _accepted(compiler: str, folder: Path) -> dict[str, tuple[tuple[str, ...], str]]:
    """The entries of _OPTIONAL whose flags the compiler accepts."""
    (folder / "probe.c").write_text(_PROBE)

    def accepts(flags: tuple[str, ...]) -> bool:
        command = [compiler, *flags, "-fsyntax-only", "probe.c"]
        return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0

    return {ending: part for ending, part in _OPTIONAL.items() if accepts(part[0])}


def _cuda_toolkit(nvcc: str, folder: Path) -> tuple[Path, Path]:
    """The toolkit's include folder and its static runtime library, found with nvcc --dryrun."""
    (folder / "empty.cu").write_text("")
    dry_run = subprocess.run(
        [nvcc, "--dryrun", "-c", "-o", "empty.o", "empty.cu"], cwd=folder, capture_output=True, text=True, check=False
    )
    top = re.search(r"^#\$ TOP=(.*)$", dry_run.stderr, re.MULTILINE)
    if top is None:
        raise ImportError(
            f"`{nvcc} --dryrun` does not name its toolkit (no line TOP=...):\n{dry_run.stderr[:_OUTPUT_SHOWN]}"
        )
    toolkit = Path(top.group(1))
    for libraries in ("lib64", "lib", "targets/x86_64-linux/lib"):
        runtime = toolkit / libraries / "libcudart_static.a"
        if runtime.is_file():
            return toolkit / "include", runtime
    raise ImportError(f"the toolkit of {nvcc}, {toolkit}, has no libcudart_static.a")


def _build(folder: Path, compiler: str, nvcc: str | None) -> Path:
    """Writes every source to `folder`, compiles them and links the library there."""
    deadline = time.monotonic() + _COMPILE_LIMIT_S
    for name, text in _SOURCES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    optional = _accepted(compiler, folder)
    c_flags = [*_C_FLAGS, *(f"-D{macro}" for _, macro in optional.values())]
    link_flags = list(_LINK_FLAGS)
    if nvcc is not None:
        include, runtime = _cuda_toolkit(nvcc, folder)
        c_flags += ["-isystem", str(include)]
        link_flags += [str(runtime), "-ldl", "-lrt"]
    commands, objects = [], []
    for name in _SOURCES:
        ending = next((ending for ending in _OPTIONAL if name.endswith(ending)), None)
        if not name.endswith((".c", ".cu")) or (ending is not None and ending not in optional):
            continue
        extra = optional[ending][0] if ending is not None else ()
        objects.append(f"{name}.o")
        start = [nvcc, *_NVCC_FLAGS] if nvcc is not None and name.endswith(".cu") else [compiler, *c_flags, *extra]
        commands.append([*start, "-c", "-o", objects[-1], name])
    _run_all(commands, folder, deadline)
    _run_all([[compiler, "-shared", "-pthread", "-o", LIBRARY_NAME, *objects, *link_flags]], folder, deadline)
    return folder / LIBRARY_NAME


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _is_sound(entry: Path) -> bool:
    """True if the cache entry holds a library with the right checksum that only this user can write."""
    library = entry / LIBRARY_NAME
    try:
        statuses = (entry.lstat(), library.lstat())
        whole = (entry / _CHECKSUM_NAME).read_bytes().decode("latin-1") == _checksum(library)
    except OSError:
        return False
    return whole and stat.S_ISREG(statuses[1].st_mode) and all(_mine_alone(status) for status in statuses)


def _keep(library: Path, entry: Path) -> None:
    """Moves a newly built library to its cache entry, replacing a damaged one."""
    finished = library.parent / "finished"
    finished.mkdir()
    (finished / _CHECKSUM_NAME).write_text(_checksum(library))
    library.rename(finished / LIBRARY_NAME)
    for name in (LIBRARY_NAME, _CHECKSUM_NAME):
        with (finished / name).open("rb") as file:
            os.fsync(file.fileno())  # after a crash, a file must not exist without its bytes
    if not _is_sound(entry):
        with contextlib.suppress(OSError):  # no entry exists, or another process has just moved it
            entry.rename(library.parent / "damaged")
    try:
        finished.rename(entry)  # atomic: no other process sees an incomplete library
    except OSError:
        if not _is_sound(entry):
            raise  # else another process was faster and built the same sources


def _sweep(root: Path, entry: Path) -> None:
    """Removes the folders of killed builds, and all libraries but the most recently used ones."""

    def used(path: Path) -> float:
        try:
            return path.lstat().st_mtime
        except OSError:  # another process removed it
            return 0.0

    now = time.time()
    folders = sorted((path for path in root.iterdir() if path != entry), key=used, reverse=True)
    killed = [path for path in folders if path.name.startswith("build-") and now - used(path) > _SWEEP_AFTER_S]
    old = [path for path in folders if not path.name.startswith("build-")][_LIBRARIES_KEPT - 1 :]
    for path in (*killed, *old):
        shutil.rmtree(path, ignore_errors=True)


def library_path() -> Path:
    """The library compiled from the sources above; builds it unless an earlier import has."""
    compilers = find_compilers(bool(_NVCC_FLAGS))
    umask = os.umask(_PRIVATE_UMASK)
    try:
        root = _cache_root()
        entry = root / _digest(compilers)
        if _is_sound(entry):
            os.utime(entry)  # marks it as used now
        else:
            scratch = Path(tempfile.mkdtemp(prefix="build-", dir=root))
            try:
                _keep(_build(scratch, compilers[0], compilers[1] if _NVCC_FLAGS else None), entry)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        _sweep(root, entry)
    finally:
        os.umask(umask)
    return entry / LIBRARY_NAME
