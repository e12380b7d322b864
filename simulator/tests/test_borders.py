"""The simulator stands alone: what its C, its Python and the libraries that it loads may use of the rest of the tree.

PACKAGE lists the folders that know the package.  The others use the simulator itself and what is installed.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from simulator.tests.sim_kit import ROOT

# Folder -> the top-level folders that it may use.
PACKAGE = {
    "simulator/tests/package": {"submission", "reference", "eval", "scripts", "tests"},
    "simulator/package": {"submission", "reference", "eval"},
    "simulator/calibration": {"submission", "reference", "eval"},
    "simulator/validation": {"submission", "reference", "eval"},
}
# Other folders of the tree that Python could import, include or load from.
OTHERS = {"submission", "reference", "eval", "scripts", "tests", "shark_tank", "examples"}
# Modules of the simulator that know the package, so that the core does not use them either.
KNOW_THE_PACKAGE = ("simulator.package", "simulator.tests.package")
IMPORT = re.compile(r"""\b(?:from|import)[ ]+([a-z_]\w*(?:\.\w+)*)|\bimport_module\(["']([\w.]+)""")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
# The package's libraries and programs by their file in build/.
LIBRARY = re.compile(r"libcustom_kernel\w*(?:\.so)?|\btile_table\b|libnvfp4\w*")
C_SUFFIXES = {".c", ".h", ".cu", ".cuh"}


def may_use(path: str) -> set[str]:
    """The top-level folders beside simulator/ that a file may use."""
    return next((allowed for folder, allowed in PACKAGE.items() if path.startswith(f"{folder}/")), set())


def included(path: str, name: str) -> str:
    """The path from the root of a file that an include names: from simulator/, else from the file's own folder."""
    parts: list[str] = []
    for part in (PurePosixPath(path).parent / name).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def crossings(path: str, text: str) -> list[str]:
    """What a source uses beyond what it may: modules, headers and libraries."""
    allowed = may_use(path)
    wrong = []
    if PurePosixPath(path).suffix in C_SUFFIXES:
        for name in INCLUDE.findall(text):
            top = included(path, name).split("/")[0] if name.startswith("..") else "simulator"
            wrong += [f"includes {name}"] if top != "simulator" and top not in allowed else []
        return wrong
    for found in IMPORT.finditer(text):
        module = found[1] or found[2]
        knows = module.startswith(KNOW_THE_PACKAGE) and not allowed
        if knows or module.split(".")[0] in OTHERS - allowed:
            wrong.append(f"imports {module}")
    if not allowed:
        wrong += [f"loads {name}" for name in LIBRARY.findall(text)]
    return wrong


def sources() -> list[str]:
    """Tracked C, CUDA and Python of the simulator."""
    patterns = [f"simulator/*{suffix}" for suffix in (*C_SUFFIXES, ".py")]
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", *patterns], capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def test_the_simulator_uses_nothing_of_the_rest_but_where_it_knows_the_package():
    names = sources()
    assert len(names) > 300
    here = Path(__file__).relative_to(ROOT).as_posix()
    found = {name: wrong for name in names if name != here and (wrong := crossings(name, (ROOT / name).read_text()))}
    assert found == {}


@pytest.mark.parametrize(
    ("path", "text", "wrong"),
    [
        ("simulator/python/frame.py", "from scripts.common import measured", ["imports scripts.common"]),
        ("simulator/python/frame.py", "    import submission", ["imports submission"]),
        ("simulator/tests/isa/test_a.py", 'import_module("tests.held")', ["imports tests.held"]),
        ("simulator/python/a.py", "from simulator.package import simulated_call", ["imports simulator.package"]),
        ("simulator/tests/a.py", 'CODE = "from eval.stats import verdict"', ["imports eval.stats"]),
        ("simulator/calibration/rows.py", "from scripts.common import markdown", ["imports scripts.common"]),
        ("simulator/calibration/rows.py", "from reference import nvfp4", []),
        ("simulator/tests/package/test_a.py", "from tests.submission.cpu_kit import Args", []),
        ("simulator/python/a.py", 'ctypes.CDLL(built("libcustom_kernel.so"))', ["loads libcustom_kernel.so"]),
        ("simulator/package/a.py", 'built("libcustom_kernel_sim.so")', []),
        ("simulator/async/bulk.c", '#include "../../submission/core/backend.h"', 1),
        ("simulator/async/bulk.c", '#include "../hazard/hazard.h"\n#include "sim.h"', []),
        ("simulator/package/entry.c", '#include "../../submission/core/backend.h"', []),
        ("simulator/package/entry.c", '#include "../../tests/submission/c/faults.h"', 1),
    ],
)
def test_a_crossing_is_found(path, text, wrong):
    assert crossings(path, text) == wrong if isinstance(wrong, list) else len(crossings(path, text)) == wrong
