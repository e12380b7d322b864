"""A newcomer's first steps, in order: missing tools are reported at once, and the commands of the pages run as printed.

The build of the read-only checkout, into a folder of the newcomer's own, serves all tests.
"""

from __future__ import annotations

import hashlib
import re

from scripts.common.toolchain import BUILD

COMMAND = re.compile(r"^ {4}((?:make|\./nvfp4|pip|cc|export|python|NVFP4_\w+=\S+) .*?)(?: {2,}#.*)?$", re.MULTILINE)
# Placeholders of the pages and their values.
PLACEHOLDERS = {"FILE": "submission/submission.py"}
# Printed commands that other tests run, or that need a card.
RUN_ELSEWHERE = {
    "make run": "the test of a read-only checkout",
    "make test": "this suite",
    "pip install .": "tests/release/test_wheel.py",
    "make bring-up": "tests/bring_up/test_bring_up.py",
}


# --- missing tools ------------------------------------------------------------------------------------------


def test_without_torch_a_program_says_how_to_get_it(newcomer):
    done = newcomer.run("./nvfp4 eval test", with_torch=False)
    assert (
        done.returncode == 1 and "`make setup` installs it there, or set PYTHON to a Python that has it" in done.stderr
    )
    assert "Traceback" not in done.stderr


def test_a_read_only_checkout_is_reported_with_both_cures(newcomer):
    done = newcomer.run("make run", with_torch=False)
    assert done.returncode != 0 and "give BUILD= a folder of your own, and NVFP4_VENV= one" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_without_torch_and_network_nothing_is_built_or_left(newcomer):
    done = newcomer.run(f"make run BUILD={newcomer.built}", with_torch=False)
    assert done.returncode != 0 and "torch could not be installed; set PYTHON to a Python that has it" in done.stderr
    assert "the package index does not answer; is there a network?" in done.stderr
    assert not list(newcomer.built.rglob("*.o")) and not (newcomer.folder / "home" / "env").exists()


# --- a read-only checkout -------------------------------------------------------------------------------------


def test_a_read_only_checkout_builds_and_judges_in_other_folders(newcomer):
    done = newcomer.run(f"make run BUILD={newcomer.built} PROBLEM=nvfp4_gemm")
    busy = "NOT MEASURED" in done.stdout  # other tests load the machine
    assert done.returncode == 0 or busy, done.stdout + done.stderr
    assert "cpu        built" in done.stdout and "hopper     not built: GPU=0" in done.stdout
    shown = [line for line in done.stdout.splitlines() if line.startswith(("gcc", "cc "))]
    assert not shown and "  CC\tsubmission/cpu/pack.c" in done.stdout, "a line per file"
    assert "1 of 1 tests pass" in done.stdout and (
        busy or re.search(r"^128 +256 +384\D+\d", done.stdout, re.MULTILINE)
    ), "no benchmark"
    digest = hashlib.sha256((newcomer.built / "libcustom_kernel.so").read_bytes()).hexdigest()[:12]
    judged = re.findall(r"^libraries of its own: libcustom_kernel\.so \(sha256 (\w+)\)$", done.stdout, re.MULTILINE)
    assert judged == [digest, digest], "the library just built was judged"


# --- commands as printed ------------------------------------------------------------------------------------------


def test_every_command_of_the_pages_runs_as_printed(root, newcomer):
    newcomer.write_protect(False)
    newcomer.built.rename(newcomer.checkout / "build")
    pages = ("README.md", "eval/README.md", "scripts/release/README.md")
    printed = list(dict.fromkeys(command for page in pages for command in COMMAND.findall((root / page).read_text())))
    assert len(printed) >= 12
    exports = ""
    for command in printed:
        if command in RUN_ELSEWHERE:
            continue
        environment = {}
        if command.startswith("export "):
            exports += f"{command} && "
            continue
        if command.startswith("./nvfp4 bundle"):
            environment["CC"] = "none"  # its sources are compiled by the tests of bundles
        if "NVFP4_SIMULATE=1" in command:
            if not (BUILD / "libcustom_kernel_sim.so").exists():
                continue
            environment["BUILD"] = str(BUILD)
        command = command.removeprefix("make simulator && ")  # make test builds it first
        for name, stands_for in PLACEHOLDERS.items():
            command = re.sub(rf"\b{name}\b", stands_for, command)
        done = newcomer.run(exports + command, **environment)
        busy = "NOT MEASURED" in done.stdout  # other tests load the machine
        assert done.returncode == 0 or busy, f"{command}\n{done.stdout}{done.stderr}"
    assert (newcomer.checkout / "build" / "submission_b200.py").is_file()
    left = newcomer.run("git status --porcelain").stdout.split("\n")
    assert left == ["?? minimal", "?? out.json", ""], "only files that the commands name are outside ignored folders"
