"""Imports between products, edits of sys.path, and the number of files in a folder."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path, PurePath

import pytest

# Product -> the packages that it must not import.  simulator/tests/test_borders.py holds what the simulator may use.
FORBIDDEN = {
    "eval": {"scripts", "simulator", "tests"},
    "reference": {"scripts", "simulator", "tests"},
    "submission": {"scripts", "simulator", "tests"},
    "examples": {"scripts", "simulator", "tests"},
    "scripts": {"tests", r"simulator\.tests"},
}
# A submission may import modules of its own folder, as under the leaderboard, which runs it as a script. The template
# of the workers has the harness's own path.
MAY_EDIT_THE_PATH = {"eval/workers/worker.py", "eval/workers/template.py"}
PATH_EDIT = re.compile(r"\bsys\.path(?:\[[^\]\n]*\])?\s*\+?=(?!=)|\bsys\.path\.\w+\(")
MOST_FILES = 16
NOT_COUNTED = {"__init__.py", "README.md"}
RECORDS = "shark_tank/"  # its files are numbered, so that many fit in a folder
C_SUFFIXES = {".c", ".h", ".cu", ".cuh"}


def tracked(root: Path, *patterns: str) -> list[str]:
    """Paths that git knows."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", *patterns], capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.split("\0") if name and (root / name).exists()]


@pytest.mark.parametrize("product", FORBIDDEN)
def test_a_product_does_not_import_upward(root, product):
    wrong = re.compile(rf"^\s*(?:from|import) (?:{'|'.join(FORBIDDEN[product])})\b", re.MULTILINE)
    modules = tracked(root, f"{product}/*.py")
    assert [name for name in modules if wrong.search((root / name).read_text())] == []


def test_no_product_includes_or_loads_the_simulator(root):
    """libcustom_kernel_sim.so, which NVFP4_SIMULATE=1 loads, is the package's own library in another build."""
    uses = re.compile(r"""^\s*#\s*include\s+"[^"]*simulator/|["'/]lib(?:ptxsim|tensor_test|cudart_sim)""", re.MULTILINE)
    suffixes = (".py", *C_SUFFIXES)
    products = [product for product in FORBIDDEN if product != "scripts"]
    names = tracked(root, *(f"{product}/*{suffix}" for product in products for suffix in suffixes))
    assert [name for name in names if uses.search((root / name).read_text())] == []


def test_no_module_edits_sys_path(root):
    modules = tracked(root, *(f"{product}/*.py" for product in (*FORBIDDEN, "simulator")))
    assert {name for name in modules if PATH_EDIT.search((root / name).read_text())} == MAY_EDIT_THE_PATH


def test_an_edit_of_sys_path_is_found():
    for line in ("sys.path.insert(0, 'x')", "sys.path[0] = 'x'", "sys.path[:0] = ['x']", "sys.path += ['y']"):
        assert PATH_EDIT.search(line), line
    for line in ("wheels = [folder for folder in sys.path if folder]", "os.path.join('a', 'b')", "sys.path == []"):
        assert not PATH_EDIT.search(line), line


def crowded(names: list[str]) -> dict[str, int]:
    """Folders with more than MOST_FILES files; a source file and its header count as one."""
    paths = [PurePath(name) for name in names]
    paths = [path for path in paths if path.name not in NOT_COUNTED and path.suffix != ".mk"]
    count = Counter(str(path.parent) for path in {p.with_suffix("") if p.suffix in C_SUFFIXES else p for p in paths})
    return {name: files for name, files in count.items() if files > MOST_FILES}


def test_no_folder_has_too_many_files(root):
    assert crowded([name for name in tracked(root) if not name.startswith(RECORDS)]) == {}


def test_a_crowded_folder_is_found():
    units = [f"a/b/x{i}{suffix}" for i in range(MOST_FILES) for suffix in (".c", ".h")]
    assert crowded([*units, "a/b/build.mk", "a/b/README.md", "a/x.py"]) == {}
    assert crowded([*units, "a/b/y.h"]) == crowded([*units, "a/b/y.md"]) == {"a/b": MOST_FILES + 1}


def test_the_glossary_has_every_word_of_a_file_name(root):
    """A reader who meets a word in the name of a file that is shipped finds what it means."""
    names = [PurePath(name).parts[1:] for name in tracked(root, "submission") if not name.endswith(("__.py", ".mk"))]
    found = {word for parts in names for part in parts for word in re.findall(r"[a-z0-9]+", PurePath(part).stem)}
    known = set(re.findall(r"[a-z0-9]+", (root / "GLOSSARY.md").read_text().lower()))
    assert sorted(word for word in found if not {word, f"{word}s", word.removesuffix("s")} & known) == []
