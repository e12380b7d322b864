"""The bundle's targets (b200, h200, geforce, cpu): the sources of each and how they are compiled."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from reference.problems import DEFAULT
from reference.problems.interface import Problem

ROOT = Path(__file__).resolve().parents[2]

# The Makefile's flags that affect code.  No -Werror: an unknown compiler may have new warnings.
C_FLAGS = ("-O3", "-std=c11", "-fPIC", "-fvisibility=hidden", "-pthread", "-ffp-contract=off", "-D_GNU_SOURCE")
LINK_FLAGS = ("-Wl,-z,defs", "-Wl,--exclude-libs,ALL", "-lm")
AVX2 = ("-mavx2", "-mfma", "-mf16c")
AVX512 = (*AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mavx512bf16")
AMX = (*AVX512, "-mavx512vbmi", "-mavx512fp16", "-mamx-tile", "-mamx-bf16")
NVCC_HOST_FLAGS = ("-std=c++17", "-O3", "-Xcompiler", "-fPIC,-fvisibility=hidden,-fno-threadsafe-statics")

CORE = ("submission/*.h", "submission/core/**/*.[ch]")
CPU = ("submission/cpu/**/*.[ch]",)
# A GPU target has only the portable CPU kernels, for tensors in host memory.
CPU_PORTABLE = tuple(
    f"submission/cpu/{name}"
    for name in (
        "cpu_backend.c",
        "cpu_machine.c",
        "cpu_quantize.c",
        "cpu_routing.c",
        "experts.c",
        "extended_epilogue.c",
        "kernels_halves.c",
        "kernels/kernels_portable.c",
        "pack.c",
        "*.h",
    )
)


@dataclass(frozen=True)
class Target:
    """A kind of machine: its name in the !POPCORN gpu directive, its sources and its compiler flags."""

    gpu: str
    sources: tuple[str, ...]  # globs, each of which must match a file
    c_flags: tuple[str, ...] = C_FLAGS
    # Sources built only if the compiler accepts their flags: end of the file name, flags, macro to define.
    optional: tuple[tuple[str, tuple[str, ...], str], ...] = ()
    nvcc_flags: tuple[str, ...] = ()
    backend: str = "submission/cpu/cpu_backend.c"  # the file that defines its struct backend
    left_out: tuple[str, ...] = ()  # globs of sources to exclude
    # Sources that only one member of struct backend needs: member, globs, macro that compiles without them.
    own: tuple[tuple[str, tuple[str, ...], str], ...] = ()
    # A problem's member of struct backend may hand calls to another one: the problem's name, that member.
    also_needed: tuple[tuple[str, str], ...] = ()


def _gpu_target(
    gpu: str, folder: str, *archs: str, also: tuple[str, ...] = (), also_needed: tuple[tuple[str, str], ...] = ()
) -> Target:
    """`also`: further C flags."""
    sources = tuple(f"submission/{folder}/**/*{end}" for end in (".c", ".cu", ".h"))
    headers = (
        f"submission/{folder}/**/*.cuh",
        "submission/gpu/**/*.cuh",
        "submission/gpu/**/*.h",
        "submission/gpu/**/*.c",
    )
    return Target(
        gpu,
        (*CORE, *CPU_PORTABLE, *sources, *headers),
        (*C_FLAGS, *also, f"-DNVFP4_HAVE_{folder.upper()}"),
        nvcc_flags=(*NVCC_HOST_FLAGS, *(f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in archs)),
        backend=f"submission/{folder}/{folder}_backend.c",
        also_needed=also_needed,
        own=(
            (
                "run_grouped",
                (
                    "submission/gpu/gpu_grouped.*",
                    "submission/gpu/gpu_schedule.c",
                    "submission/gpu/gpu_gemv.*",
                    "submission/gpu/gemv.*",
                    "submission/*/grouped/*.c",
                    "submission/*/grouped/*.cuh",
                ),
                "NVFP4_WITHOUT_GROUPED",
            ),
            (
                "run_extended",
                (
                    "submission/gpu/gpu_extended*",
                    f"submission/{folder}/extended/*.c*",
                    f"submission/{folder}/extended/*_kernels.h",
                ),
                "NVFP4_WITHOUT_EXTENDED",
            ),
            (
                "run_quantize",
                (
                    "submission/gpu/quantize/*",
                    f"submission/{folder}/quantize/*.cu",
                ),
                "NVFP4_WITHOUT_QUANTIZE",
            ),
            (
                "run_experts",
                (
                    "submission/gpu/experts/*",
                    "submission/gpu/routing/*",
                    f"submission/{folder}/experts/*.c*",
                    f"submission/{folder}/experts/*_kernels.h",
                    f"submission/{folder}/routing/*.cu",
                ),
                "NVFP4_WITHOUT_EXPERTS",
            ),
        ),
    )


TUNED = ("-DNVFP4_TUNE_DEFAULT=true",)  # gpu_tuner.h: a board's shapes are worth some milliseconds

TARGETS = {
    "b200": _gpu_target("B200", "blackwell", "100a", also=TUNED),
    # One group whose tiles would share K is a plain product of the extended GEMM (hopper_grouped_backend.c).
    "h200": _gpu_target("H200", "hopper", "90a", also=TUNED, also_needed=(("gemm", "run_extended"),)),
    # No leaderboard has these GPUs; the target is for a machine of one's own.  sm_121a needs CUDA 12.9.
    "geforce": _gpu_target("GEFORCE", "geforce", "120a", "121a", also=("-DNVFP4_HAVE_SM_121",)),
    "cpu": Target(
        "CPU",
        (*CORE, *CPU),
        optional=(
            ("_amx.c", AMX, "NVFP4_HAVE_AMX"),
            ("_avx512.c", AVX512, "NVFP4_HAVE_AVX512"),
            ("_avx2.c", AVX2, "NVFP4_HAVE_AVX2"),
        ),
        left_out=("submission/cpu/**/*_neon.c",),
    ),
}


def plan(target: str, problem: Problem = DEFAULT) -> Target:
    """The target without the sources that only other problems need, which would make nvcc take half as long again."""
    found = TARGETS[target]
    needed = {problem.backend_member, *(member for name, member in found.also_needed if name == problem.name)}
    for member, sources, macro in found.own:
        if member not in needed:
            flags = {name: (*getattr(found, name), f"-D{macro}") for name in ("c_flags", "nvcc_flags")}
            found = replace(found, left_out=(*found.left_out, *sources), **flags)
    return found


class BundleError(Exception):
    """The reason why no bundle can be made."""


def collect_sources(target: str, root: Path = ROOT, problem: Problem = DEFAULT) -> dict[str, str]:
    """The text of a target's sources for a problem, by path and sorted.  Raises BundleError if one does not exist."""
    found: set[Path] = set()
    left_out = {path for pattern in plan(target, problem).left_out for path in root.glob(pattern)}
    for pattern in TARGETS[target].sources:
        matches = [path for path in root.glob(pattern) if path.is_file()]
        if not matches:
            raise BundleError(f"target {target} needs {pattern}, which does not exist in this checkout")
        found.update(matches)
    sources = {}
    for path in sorted(found - left_out, key=Path.as_posix):
        name = path.relative_to(root).as_posix()
        try:
            sources[name] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise BundleError(f"{name} is not UTF-8: {error}") from None
        if not sources[name].endswith("\n"):
            raise BundleError(f"{name} does not end with a line feed")
    return sources


def runs(problem: Problem, target: str, root: Path = ROOT) -> bool:
    """True if the target's backend defines the member of struct backend that runs the problem."""
    path = root / TARGETS[target].backend
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    defined = re.search(r"(?:const struct backend \w+ = \{|^GPU_BACKEND\()(.*?)[)}];", text, re.DOTALL | re.MULTILINE)
    return defined is not None and re.search(rf"(?:\b|_){problem.backend_member}\b", defined[1]) is not None
