"""An area: the files that faults are planted in, the tests that should notice them, and what make builds for these."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LIBRARY = ("build/libcustom_kernel.so",)
SIMULATED = ("build/libcustom_kernel_sim.so",)
HOST = (*LIBRARY, *SIMULATED, "build/tile_table")
SIMULATOR = ("simulator", "test-programs")
GPU_TESTS = ("tests/submission/gpu/test_*.py", "tests/simulator/kernels/test_*.py")
# Tests that take a minute or more, and those that hold the tree together: a fault is not put to them.
LEFT_OUT = {
    "test_journeys.py",
    "test_eval_protocol.py",
    "test_bundle.py",
    "test_eval_guards.py",
    "test_fuzz_targets.py",
}


@dataclass(frozen=True)
class Area:
    """Patterns of sources and of test files, and make's targets."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    targets: tuple[str, ...] = ()


def simulator(folders: str, tests: str) -> Area:
    """An area of the simulator: folders of simulator/ (`*`: its own files alone) and of tests/simulator/."""
    return Area(
        tuple(f"simulator/{folder if folder.endswith('*') else folder + '/**/*'}.[ch]" for folder in folders.split()),
        tuple(f"tests/simulator/{folder}/**/test_*.py" for folder in tests.split()),
        SIMULATOR,
    )


AREAS: dict[str, Area] = {
    "core": Area(
        ("submission/core/*.[ch]", "submission/custom_kernel.h"),
        ("tests/submission/test_*.py", "tests/submission/[!gi]*/test_*.py", "tests/submission/grouped/test_*.py"),
        LIBRARY,
    ),
    "cpu": Area(("submission/cpu/**/*.[ch]",), ("tests/submission/**/test_*.py",), LIBRARY),
    "shim": Area(("submission/*.py",), ("tests/submission/**/test_*.py",)),
    "host": Area(
        ("submission/gpu/*.[ch]", "submission/[!c]*/**/*.[ch]"),
        GPU_TESTS,
        HOST,
    ),
    "hopper": Area(("submission/hopper/**/*.cu*", "submission/gpu/**/*.cuh"), GPU_TESTS[::-1], SIMULATED),
    "blackwell": Area(("submission/blackwell/**/*.cu*",), GPU_TESTS[::-1], SIMULATED),
    "geforce": Area(("submission/geforce/**/*.cu*",), GPU_TESTS[::-1], SIMULATED),
    "reference": Area(("reference/**/*.py",), ("tests/reference/test_*.py", "tests/eval/test_*.py")),
    "eval": Area(
        ("eval/**/*.py", "eval/**/*.[ch]"),
        ("tests/eval/**/test_*.py", "tests/release/test_execbench.py"),
    ),
    "release": Area(("scripts/release/**/*.py",), ("tests/release/test_*.py",)),
    "rounds": Area(
        ("scripts/rounds/**/*.py", "scripts/history/*.py"), ("tests/rounds/test_*.py", "tests/history/test_*.py")
    ),
    "bench": Area(
        ("scripts/bring_up/*.py", "scripts/bench/[!t]*.py", "scripts/bench/dual/*.py"),
        ("tests/bench/test_*.py", "tests/evidence/test_bring_up*.py"),
    ),
    "sim-ptx": simulator("ptx isa/*", "ptx isa interp"),
    "sim-scalar": simulator("isa/scalar", "isa/values isa"),
    "sim-memory": simulator("isa/memory machine", "machine isa hazard asynchronous report"),
    "sim-warp": simulator("isa/warp isa/wgmma interp", "interp isa hazard kernels"),
    "sim-async": simulator("async isa/async", "asynchronous hazard isa"),
    "sim-clock": simulator("clock", "clock isa asynchronous"),
    "sim-hazard": simulator("hazard", "hazard interp"),
    "sim-tensor": simulator("tensorcore isa/tcgen05", "tensorcore isa hazard"),
    "sim-runtime": simulator("cudart nvfp4 cli report *", "cudart cli report python kernels"),
}


def matching(root: Path, patterns: tuple[str, ...]) -> list[str]:
    """The files that patterns name, in the order of the patterns."""
    found: dict[str, None] = {}
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            if path.is_file():
                found[path.relative_to(root).as_posix()] = None
    return list(found)


@cache
def _text(test: Path) -> str:
    return test.read_text()


def nearness(root: Path, path: str, test: str) -> int:
    """2 where a test file imports a source or bears its name, 1 where it says its name, 0 otherwise."""
    stem = Path(path).stem
    if not path.endswith(".py"):
        own = Path(test).stem.removeprefix("test_")
        return 2 if stem == own else 1 if stem in own.split("_") else 0
    dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    parent, _, name = dotted.rpartition(".")
    text = _text(root / test)
    if dotted in text or re.search(rf"from {re.escape(parent)} import [^#\n]*\b{name}\b", text):
        return 2
    return 1 if re.search(rf"\b{name}\b", text) else 0


def area_tests(root: Path, area: Area, path: str = "") -> list[str]:
    """An area's test files, those nearest to a source first."""
    tests = [test for test in matching(root, area.tests) if Path(test).name not in LEFT_OUT]
    return sorted(tests, key=lambda test: -nearness(root, path, test)) if path else tests
