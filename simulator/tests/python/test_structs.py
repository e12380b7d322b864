"""The ctypes structs of the package have the layout that a C compiler gives those of sim.h."""

from __future__ import annotations

import ctypes
import re
import subprocess

import pytest

from simulator.python.ptxsim import structs
from simulator.tests.sim_kit import ROOT

STRUCTS = {
    "sim_options": structs.Options,
    "sim_launch_attributes": structs.Launch,
    "sim_finding": structs.Finding,
    "sim_delay": structs.Delay,
    "sim_shrunk": structs.Shrunk,
    "sim_shrink_options": structs.ShrinkOptions,
    "sim_tensor_map": structs.TensorMap,
    "sim_time": structs.Time,
    "sim_counters": structs.Counters,
}


def members(header: str, name: str) -> list[str]:
    """The members of a struct in order: the last name of each declarator, before its array bounds."""
    text = re.sub(r"/\*.*?\*/", "", re.search(rf"^struct {name} {{\n(.*?)^}};", header, re.M | re.S)[1], flags=re.S)
    text = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"\1", text)  # function pointers
    declarators = (one for line in text.split(";") for one in line.split(",") if one.strip())
    return [re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", one)[1] for one in declarators]


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory):
    """For each struct: its size, then offset and size of each member."""
    header = (ROOT / "simulator/sim.h").read_text()
    lines = []
    for name in STRUCTS:
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        lines += [
            f'printf("{name} %zu %zu\\n", offsetof(struct {name}, {one}), sizeof ((struct {name} *)0)->{one});'
            for one in members(header, name)
        ]
    folder = tmp_path_factory.mktemp("structs")
    source = folder / "layout.c"
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{ROOT}/simulator/sim.h"\nint main(void) {{\n'
        + "\n".join(lines)
        + "\nreturn 0;\n}\n"
    )
    subprocess.run(["gcc", "-std=c11", "-o", folder / "layout", source], check=True)
    done = subprocess.run([folder / "layout"], capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {name: [tuple(map(int, row[1:])) for row in rows if row[0] == name] for name in STRUCTS}


@pytest.mark.parametrize("name", STRUCTS)
def test_a_struct_lies_as_in_c(laid_out, name):
    struct = STRUCTS[name]
    own = [(getattr(struct, field).offset, getattr(struct, field).size) for field, _ in struct._fields_]
    assert [(ctypes.sizeof(struct),), *own] == laid_out[name]
