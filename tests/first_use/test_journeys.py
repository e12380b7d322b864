"""A newcomer's first steps, in order: missing tools are reported at once, and the commands of the pages run as printed.

The build of the read-only checkout, into a folder of the newcomer's own, serves all tests.
"""

from __future__ import annotations

import hashlib
import re

import pytest

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


def test_a_problem_is_chosen_by_its_leaderboards_name(newcomer):
    done = newcomer.run("./nvfp4 eval test --problem nvfp4_gemv", BUILD=str(newcomer.built))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^128 +640 x 2 .*pass", done.stdout, re.MULTILINE) and "1 of 1 tests pass" in done.stdout


# Every code is 1, every factor 1, the weights' scales 1/4 and, of the second product, 1/64; every input is 6, so that
# quantization is exact.  gate = up = 128 * 6 / 4 = 192 = silu(192); each output is 64 * 192^2 / 64 = 36864.
MODEL = """
import torch
from safetensors.torch import save_file
from submission import GatedMLP, dual_gemm
ours, theirs = {}, {}
for name, rows, k, divisor, of_input in (
    ("gate_proj", 64, 128, 4.0, 1.0), ("up_proj", 64, 128, 4.0, 1.0), ("down_proj", 128, 64, 64.0, 1 / 16)
):
    codes = torch.full((rows, k // 2), 0x22, dtype=torch.uint8)
    factors = torch.ones(rows, k // 16).to(torch.float8_e4m3fn)
    at = f"model.layers.0.mlp.{name}."
    ours |= {at + "weight_packed": codes, at + "weight_scale": factors,
             at + "weight_global_scale": torch.tensor([divisor]), at + "input_global_scale": torch.tensor([of_input])}
    theirs |= {at + "weight": codes, at + "weight_scale": factors,
               at + "weight_scale_2": torch.tensor(1 / divisor), at + "input_scale": torch.tensor(1 / of_input)}
for convention in (ours, theirs):
    save_file(convention, FILE)
    found = GatedMLP.load(FILE, "model.layers.0.mlp.")(torch.full((3, 128), 6.0))
    print(found.dtype, tuple(found.shape), found.unique().tolist())
codes, factors = torch.zeros(128, 128, dtype=torch.uint8), torch.zeros(128, 16, dtype=torch.uint8)
try:
    dual_gemm(codes, codes, codes, factors, factors, factors)
except RuntimeError as error:
    print(error)
"""


def test_a_layer_loads_from_checkpoints_of_both_conventions(newcomer):
    pytest.importorskip("safetensors")
    program = newcomer.folder / "home" / "model.py"
    program.write_text(MODEL.replace("FILE", repr(str(newcomer.folder / "home" / "layer.safetensors"))))
    done = newcomer.run(f"PYTHONPATH=. ./nvfp4 python {program}", BUILD=str(newcomer.built))
    assert done.returncode == 0, done.stderr
    first, second, refusal = done.stdout.splitlines()
    assert first == second == "torch.bfloat16 (3, 128) [36864.0]"
    assert "sfa has shape (128, 16)" in refusal and "scale_layout='linear' or 'swizzled128x4'" in refusal


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
