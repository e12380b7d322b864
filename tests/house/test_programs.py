"""Every program of the checkout answers --help: exit status 0, and a text that says what it is for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


# Runs each module as `python -m MODULE --help` does, all in one interpreter.
EACH = """
import contextlib, io, json, runpy, sys
said = {}
for module in sys.argv[1:]:
    sys.argv = ["-m", "--help"]
    status, out = None, io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code
    except BaseException as error:
        out.write(repr(error))
    said[module] = status, out.getvalue()
print(json.dumps(said))
"""


def programs() -> list[str]:
    """Modules that run by themselves."""
    found = []
    for path in sorted(path for folder in ("scripts", "simulator") for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text()
        runs = path.name == "__main__.py" or ("ArgumentParser(" in text and '\nif __name__ == "__main__":' in text)
        if runs and path.relative_to(ROOT).parts[:2] != ("simulator", "python"):
            found.append(path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."))
    return found


def test_each_program_answers_help_with_nothing_installed_or_built(tmp_path):
    env = {"NVFP4_LIBRARY": str(tmp_path / "none"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-S", "-c", EACH, *programs()]  # -S: no site-packages, so neither torch nor numpy
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, check=True)
    answers = json.loads(done.stdout)
    assert len(answers) > 40
    for module, (status, said) in answers.items():
        assert status in (None, 0) and said.startswith("usage: "), (module, status, said)
        for folder, typed in (("scripts.bench", "./nvfp4 bench"), ("simulator.validation", "./nvfp4 validate")):
            if module.startswith(f"{folder}."):
                program = module.removeprefix(f"{folder}.").removesuffix(".__main__")
                assert said.startswith(f"usage: {typed} {program} "), (module, said)
        description = said.partition("\n\n")[2].partition("\n\n")[0]
        assert description and not description.startswith(("options:", "positional arguments:")), (module, said)


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


def test_nvfp4_lists_the_programs_of_a_folder(root):
    done = subprocess.run([root / "nvfp4", "bench", "cpus"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("nvfp4: bench has no program 'cpus'\nusage: ")
    lines = dict(line.split(maxsplit=1) for line in done.stderr.split("one of\n")[1].splitlines())
    assert {"cpu", "compare", "micro", "sweep", "extended", "extended.rows"} <= set(lines)
    assert lines["modules"].startswith("Times whole gated MLPs") and all(map(str.strip, lines.values()))
