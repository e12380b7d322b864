"""ENVIRONMENT.md lists every variable that the sources read, and each folder it names as a reader has the name."""

from __future__ import annotations

import re
import subprocess
from pathlib import PurePath

import pytest

C_OR_PYTHON = {".c", ".h", ".cu", ".cuh", ".py"}
QUOTED = r"[\"']([A-Z][A-Z0-9_]+)[\"']"
READS = {
    "C": re.compile(r'\bgetenv\("(\w+)"\)|"(NVFP4_[A-Z0-9_]+)"'),
    "Python": re.compile(
        rf"\benviron\[{QUOTED}\](?! = )|\benviron\.(?:get|pop|setdefault)\({QUOTED}"
        rf"|\bgetenv\({QUOTED}|{QUOTED} in os\.environ"
    ),
    "shell": re.compile(r"\$\{?(NVFP4_[A-Z0-9_]+)"),
    "make": re.compile(r"^([A-Z][A-Z0-9_]*) *\?=", re.MULTILINE),
}
# The bundle's macros, in a string, which its loader replaces.
NO_VARIABLE = re.compile(r"NVFP4_HAVE_")


def names_read(path: PurePath, text: str) -> set[str]:
    """The variables whose names stand where a source reads one."""
    language = "Python" if path.suffix == ".py" else "C" if path.suffix in C_OR_PYTHON else "shell"
    if path.suffix == ".mk" or path.name == "Makefile":
        language = "make"
    groups = (
        name for found in READS[language].findall(text) for name in ([found] if isinstance(found, str) else found)
    )
    return {name for name in groups if name and not NO_VARIABLE.match(name)}


@pytest.fixture(scope="module")
def sources(root):
    """Path -> text of each source of a product."""
    kinds = ("*.c", "*.h", "*.cu", "*.cuh", "*.py", "*.sh", "*.mk", "Makefile", "nvfp4")
    listed = subprocess.run(["git", "ls-files", "-z", *kinds], cwd=root, capture_output=True, text=True, check=True)
    paths = [PurePath(name) for name in listed.stdout.split("\0") if name and (root / name).is_file()]
    return {path: (root / path).read_text() for path in paths}


@pytest.fixture(scope="module")
def table(root):
    """Variable -> its readers; every row has five cells, none of them empty."""
    rows = {}
    for line in (root / "ENVIRONMENT.md").read_text().splitlines():
        if line.startswith("| `"):
            name, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
            assert len(cells) == 4 and all(cells), line
            assert name not in rows, line
            rows[name.strip("` ")] = cells[2].split(", ")
    return rows


def test_every_variable_that_a_source_reads_is_in_the_table(sources, table):
    products = {path: text for path, text in sources.items() if not {"tests", "shark_tank"} & set(path.parts[:2])}
    missing = {str(path): names for path, text in products.items() if (names := names_read(path, text) - set(table))}
    assert missing == {}


def test_every_row_of_the_table_is_read_by_whom_it_says(sources, table):
    for name, readers in table.items():
        for reader in readers:
            part = [
                text
                for path, text in sources.items()
                if path.parts[0] == reader or (reader == "Makefile" and (path.suffix == ".mk" or str(path) == reader))
            ]
            assert any(re.search(rf"\b{name}\b", text) for text in part), f"{reader} does not read {name}"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.c", 'return getenv("PLANTED") != 0;'),
        ("a.h", '#define VARIABLE "NVFP4_PLANTED"'),
        ("a.py", 'os.environ["PLANTED"]'),
        ("a.py", 'os.environ.get("PLANTED", "x")'),
        ("a.py", 'if "PLANTED" in os.environ:'),
        ("a.sh", 'echo "${NVFP4_PLANTED:-none}"'),
        ("Makefile", "PLANTED ?= 1"),
    ],
)
def test_a_read_is_found(path, text):
    assert {name.removeprefix("NVFP4_") for name in names_read(PurePath(path), text)} == {"PLANTED"}
