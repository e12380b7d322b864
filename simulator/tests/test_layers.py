"""Calls and includes between the simulator's layers go down only (simulator/ARCHITECTURE.md).

nm tells which object defines a name and which ones use it.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from .sim_kit import ROOT, built

SIMULATOR = ROOT / "simulator"
# Each layer, from the bottom up, with the layers that it may use.
MACHINE = ("ptx",)
HAZARD = ("ptx", "machine")
CLOCK = ("ptx", "machine")
ASYNC = (*HAZARD, "hazard", "clock", "tensorcore")
ISA = (*ASYNC, "async")
LAYERS = {
    "ptx": (),
    "tensorcore": (),
    "machine": MACHINE,
    "hazard": HAZARD,
    "clock": CLOCK,
    "async": ASYNC,
    "isa": ISA,
    "interp": (*ISA, "isa"),
    "report": (),
    "cudart": (),
    "cli": (),
    "package": ("cudart",),
}
# These use the others through sim.h alone.
OUTSIDE = ("report", "cudart", "cli", "package")
NEEDS_CUDA = ("cudart", "package")
DEFINED = set("TDBRVW")


class Use(NamedTuple):
    """A name that one object uses and another defines; objects by their path in simulator/, without suffix."""

    user: str
    definer: str
    name: str

    @property
    def folders(self) -> tuple[str, str]:
        return self.user.rpartition("/")[0], self.definer.rpartition("/")[0]


def layer(path: str) -> str:
    return path.split("/", 1)[0]


def uses(folder: Path, objects: Iterable[str]) -> list[Use]:
    """The names that the objects of a build use of each other."""
    definer, wanted = {}, defaultdict(set)
    command = ["nm", "-P", "-A", *(f"{unit}.o" for unit in objects)]
    for line in subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines():
        file, name, kind = line.split()[:3]
        unit = file.removesuffix(".o:")
        if kind in DEFINED:
            definer[name] = unit
        elif kind == "U":
            wanted[unit].add(name)
    return [
        Use(unit, definer[name], name)
        for unit, names in wanted.items()
        for name in sorted(names)
        if name in definer and definer[name] != unit
    ]


def wrong_uses(found: Iterable[Use], public: frozenset[str] = frozenset()) -> list[str]:
    """A sentence for each use that points up, or bypasses the public header."""
    wrong = []
    for use in found:
        above, below = layer(use.user), layer(use.definer)
        if above == below or below in LAYERS[above] or (above in OUTSIDE and use.name in public):
            continue
        may = ", ".join(LAYERS[above]) or "nothing"
        may = f"sim.h and {may}" if above in OUTSIDE else may
        wrong.append(f"{use.user}.c uses {use.name} of {use.definer}.c: {above}/ may use {may}")
    return wrong


def cycle(found: Iterable[Use], of_files: bool = False) -> list[str]:
    """A circle of folders (or files) that use each other, with a name for each step; empty if there is none."""
    example: dict[tuple[str, str], Use] = {}
    for use in found:
        ends = (use.user, use.definer) if of_files else use.folders
        if ends[0] != ends[1]:
            example.setdefault(ends, use)
    below = defaultdict(list)
    for above, under in example:
        below[above].append(under)
    done: set[str] = set()

    def search(folder: str, path: list[str]) -> list[str]:
        if folder in path:
            circle = [*path[path.index(folder) :], folder]
            steps = (example[step] for step in pairwise(circle))
            return [f"{use.user}.c uses {use.name} of {use.definer}.c" for use in steps]
        if folder in done:
            return []
        for under in below[folder]:
            if circle := search(under, [*path, folder]):
                return circle
        done.add(folder)
        return []

    return next((circle for folder in list(below) if (circle := search(folder, []))), [])


def sources(pattern: str) -> list[Path]:
    """The simulator's own sources; those of its tests are in no layer."""
    return sorted(path for path in SIMULATOR.rglob(pattern) if layer(str(path.relative_to(SIMULATOR))) != "tests")


@cache
def objects() -> tuple[Path, tuple[str, ...]]:
    """The folder of the simulator's objects, and the sources that have one."""
    for target in ("libptxsim.so", "ptxsim"):
        folder = built(target).parent / "simulator"
    units, missing = [], []
    for source in sources("*.c"):
        unit = str(source.relative_to(SIMULATOR).with_suffix(""))
        optional = layer(unit) in NEEDS_CUDA or re.search(r"_avx(2|512)$", unit)
        if (folder / f"{unit}.o").exists():
            units.append(unit)
        elif not optional:
            missing.append(unit)
    assert not missing, f"not built, so not part of the library: {missing}"
    return folder, tuple(units)


@cache
def built_uses() -> list[Use]:
    found = uses(*objects())
    assert len(found) > 600  # there are about 850: the output of nm was understood
    return found


def public_names() -> frozenset[str]:
    return frozenset(re.findall(r"^SIM_API [^;]*?\b(sim_\w+)\(", (SIMULATOR / "sim.h").read_text(), re.MULTILINE))


def test_every_source_lies_in_a_layer():
    stray = [path for path in objects()[1] if layer(path) not in LAYERS]
    assert not stray, f"{stray}: name the folder's layer here and in simulator/ARCHITECTURE.md"


def test_calls_go_down_only():
    wrong = wrong_uses(built_uses(), public_names())
    assert not wrong, "\n".join(wrong)


def test_no_folders_call_in_a_circle():
    circle = cycle(built_uses())
    assert not circle, "\n".join(circle)


@pytest.mark.parametrize("folder", ["machine", "hazard", "clock", "async", "interp", "report", "cli", "cudart"])
def test_no_files_of_a_layer_call_in_a_circle(folder):
    circle = cycle((use for use in built_uses() if layer(use.user) == layer(use.definer) == folder), of_files=True)
    assert not circle, "\n".join(circle)


def test_includes_go_down_only():
    found = []
    for path in sources("*.[ch]"):
        for included in re.findall(r'^#include "([\w./]+)"', path.read_text(), re.MULTILINE):
            if (SIMULATOR / included).exists() and "/" in included:
                user = str(path.relative_to(SIMULATOR).with_suffix(""))
                found.append(Use(user, included.removesuffix(".h"), included))
    assert len(found) > 60  # there are about 100
    wrong = [*wrong_uses(found), *cycle(found)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        (
            {
                "hazard/vector_clock": "void wait_for(void); void clock(void) { wait_for(); }",
                "interp/warp": "void wait_for(void) {}",
            },
            ["hazard/vector_clock.c uses wait_for of interp/warp.c: hazard/ may use ptx, machine"],
        ),
        (
            {"ptx/parse": "extern int table; int parse(void) { return table; }", "isa/opcodes": "int table = 1;"},
            ["ptx/parse.c uses table of isa/opcodes.c: ptx/ may use nothing"],
        ),
        (
            {"cli/tool": "void inner(void); void f(void) { inner(); }", "interp/sim": "void inner(void) {}"},
            ["cli/tool.c uses inner of interp/sim.c: cli/ may use sim.h and nothing"],
        ),
        ({"isa/table": "void inner(void); void f(void) { inner(); }", "ptx/parse": "void inner(void) {}"}, []),
    ],
)
def test_a_planted_call_is_reported(tmp_path, planted, expected):
    compile_all(tmp_path, planted)
    assert wrong_uses(uses(tmp_path, planted)) == expected


def test_a_planted_circle_is_reported(tmp_path):
    planted = {
        "isa/a/one": "void two(void); void one(void) { two(); }",
        "isa/b/two": "void one(void); void two(void) { one(); }",
    }
    compile_all(tmp_path, planted)
    found = uses(tmp_path, planted)
    assert cycle(found) == ["isa/a/one.c uses two of isa/b/two.c", "isa/b/two.c uses one of isa/a/one.c"]
    assert cycle(found[:1]) == []


def compile_all(folder: Path, sources: dict[str, str]) -> None:
    for unit, text in sources.items():
        (folder / unit).parent.mkdir(parents=True)
        command = [os.environ.get("CC", "gcc"), "-x", "c", "-c", "-o", f"{unit}.o", "-"]
        subprocess.run(command, cwd=folder, input=text, text=True, check=True)
