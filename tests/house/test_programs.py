"""Every program of the checkout answers --help: exit status 0, and a text that says what it is for."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def programs() -> list[str]:
    """Modules with a command line of argparse and a main()."""
    found = []
    for path in sorted(path for folder in ("scripts", "simulator") for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text()
        if "ArgumentParser(" in text and "\ndef main(" in text:
            found.append(path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."))
    return found


@pytest.mark.parametrize("module", programs())
def test_a_program_answers_help(module, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["program", "--help"])
    main = importlib.import_module(module).main
    needed = [p for p in inspect.signature(main).parameters.values() if p.default is p.empty]
    with pytest.raises(SystemExit) as ended:
        main(*([["--help"]] * len(needed)))
    said = capsys.readouterr().out
    assert ended.value.code == 0 and said.startswith("usage: ")
    description = said.partition("\n\n")[2].partition("\n\n")[0]
    assert description and not description.startswith(("options:", "positional arguments:")), said


@pytest.mark.parametrize("arguments", [["--help"], ["eval", "--help"], ["bundle", "--help"], ["rounds", "--help"]])
def test_nvfp4_passes_help_on(root, arguments):
    done = subprocess.run([root / "nvfp4", *arguments], capture_output=True, text=True)
    assert done.returncode == 0 and "usage: " in done.stdout, done.stderr


@pytest.mark.parametrize(("arguments", "status"), [([], 0), (["none"], 2), (["bench"], 2), (["eval", "none"], 2)])
def test_nvfp4_refuses_what_is_no_program(root, arguments, status):
    done = subprocess.run([root / "nvfp4", *arguments], capture_output=True, text=True)
    assert done.returncode == status and "Traceback" not in done.stderr


def test_help_and_pages_name_programs_and_targets_that_exist(root):
    said = subprocess.run([root / "nvfp4"], capture_output=True, text=True, check=True).stdout
    for program in re.findall(r"^  (\w+)", said, re.MULTILINE):
        assert re.search(rf"\b{program}\b", (root / "nvfp4").read_text().split("case $program in")[1]), program
    pages = [(root / page).read_text() for page in ("README.md", "CONTRIBUTING.md", "scripts/release/README.md")]
    targets = subprocess.run(["make", "-C", root, "help"], capture_output=True, text=True, check=True).stdout
    for target in re.findall(r"(?:`|^    )make ([a-z-]+)", "\n".join(pages), re.MULTILINE):
        assert re.search(rf"^  make {target} ", targets, re.MULTILINE), target
