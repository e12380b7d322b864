"""ENVIRONMENT.md has every variable that the sources read, and no other; the scanner that says so finds each kind."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.house.environment_reads import reads

HISTORY = "shark_tank/"  # measured data and pages


@pytest.fixture(scope="module")
def found(root):
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    sources = {}
    for name in listing.split("\0"):
        path = root / name
        if name and path.is_file() and not name.startswith(HISTORY):
            try:
                sources[name] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # recorded data
    return reads(sources)


@pytest.fixture(scope="module")
def table(root):
    """Name -> who reads it; every row has five cells, none of them empty."""
    rows = {}
    for line in (root / "ENVIRONMENT.md").read_text().splitlines():
        if line.startswith("| `"):
            name, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
            assert len(cells) == 4 and all(cells), line
            assert name not in rows, line
            rows[name.strip("` ")] = set(cells[2].split(", "))
    return rows


def test_every_variable_that_a_source_reads_is_in_the_table(found, table):
    variables, unknown = found
    assert unknown == [], "write these so that the variable's name stands in the text"
    assert {name: readers for name, readers in variables.items() if name not in table} == {}


def test_every_row_of_the_table_is_read_by_whom_it_says(found, table):
    variables, _ = found
    assert set(table) - set(variables) == set(), "nothing reads these"
    for name, readers in table.items():
        real = variables[name] - {"tests"} or {"tests"}
        assert readers == real, f"{name} is read by {', '.join(sorted(real))}"


def test_the_table_is_linked_from_the_readme(root):
    assert re.search(r"\]\(ENVIRONMENT\.md\)", (root / "README.md").read_text())


C_MEMBER = "struct launch { const char *variable; };\nvoid run(struct launch *l) {\n    getenv(l->variable);\n}\n"
C_PARAMETER = "static int used(const char *variable, int x) {\n    return getenv(variable) != 0;\n}\n"


@pytest.mark.parametrize(
    "sources",
    [
        {"submission/a.c": 'int f(void) {\n    return getenv("PLANTED") != 0;\n}\n'},
        {"submission/a.c": '#define V "PLANTED"\nint f(void) {\n    return getenv(V) != 0;\n}\n'},
        {"submission/a.c": C_PARAMETER + 'int g(void) {\n    return used("PLANTED", 1);\n}\n'},
        {
            "submission/a.c": C_MEMBER,
            "submission/b.c": '#define V "PLANTED"\nvoid g(void) {\n    struct launch l = {.variable = V};\n}\n',
        },
        {"scripts/a.py": 'import os\nos.environ["PLANTED"]\n'},
        {"scripts/a.py": 'import os\nos.environ.get("PLANTED", "x")\n'},
        {"scripts/a.py": 'import os\nos.getenv("PLANTED")\n'},
        {"scripts/a.py": 'import os\nif "PLANTED" in os.environ:\n    pass\n'},
        {"scripts/a.py": 'import os\nV = "PLANTED"\nos.environ.pop(V)\n'},
        {"scripts/a.py": "import os, b\nos.environ.get(b.V)\n", "scripts/b.py": 'V = "PLANTED"\n'},
        {"scripts/a.py": 'import os\nfor name in ("PLANTED",):\n    os.environ.get(name)\n'},
        {"scripts/a.sh": '#!/bin/sh\necho "${PLANTED:-none}"\n'},
        {"Makefile": "PLANTED ?= 1\nall:\n\techo $(PLANTED)\n"},
        {"Makefile": "override PLANTED += -x\n"},
        {"Makefile": "all:\n\techo $(PLANTED)\n"},
        {"Makefile": "all:\n\techo $$PLANTED\n"},
        {"Makefile": "PLANTED += x\n"},
        {"Makefile": "ifeq ($(origin PLANTED),default)\nPLANTED := x\nendif\n"},
    ],
)
def test_a_planted_read_is_found(sources):
    variables, unknown = reads(sources)
    assert unknown == []
    assert variables == {"PLANTED": {next(iter(sources)).split("/")[0]}}


@pytest.mark.parametrize(
    "sources",
    [
        {"scripts/a.py": 'import os\nos.environ["PLANTED"] = "1"\n'},  # written
        {"scripts/a.sh": '#!/bin/sh\nPLANTED=1\necho "$PLANTED"\n'},  # its own
        {"Makefile": "PLANTED := 1\nall:\n\techo $(PLANTED)\n"},
        {"tests/a.py": 'import os\ndef f(p):\n    p.setenv("PLANTED", "1")\n    assert os.environ["PLANTED"]\n'},
    ],
)
def test_what_is_only_written_or_a_sources_own_is_no_read(sources):
    assert reads(sources) == ({}, [])


@pytest.mark.parametrize(
    "sources",
    [
        {"submission/a.c": "int f(int i) {\n    return getenv(names[i]) != 0;\n}\n"},
        {"scripts/a.py": 'import os\nos.environ[f"NVFP4_{part}"]\n'},
    ],
)
def test_a_name_that_is_built_at_run_time_is_reported(sources):
    variables, unknown = reads(sources)
    assert variables == {}
    assert len(unknown) == 1
