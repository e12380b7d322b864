"""What a newcomer copies: the example of a submission, for all four problems, and the programs on the front page."""

from __future__ import annotations

import re
import subprocess

import pytest
import torch

from eval.cases import Case
from eval.supervisor import Limits, run_test
from reference.problems import PROBLEMS
from reference.problems.interface import KINDS
from scripts.release.lint import lint_bytes

EXAMPLE = "examples/submission.py"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=lambda problem: problem.name)
def test_the_example_is_right(root, problem, kind):
    case = Case(problem.trials[-1], 7, "")
    result = run_test(root / EXAMPLE, case, torch.device("cpu"), Limits(answer_s=300.0), kind)
    assert result.passed, result.error


def test_the_example_keeps_the_leaderboards_rules(root):
    assert lint_bytes((root / EXAMPLE).read_bytes()) == []


def program(root, language):
    """The one program in a language on the front page."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", (root / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return text


def test_the_front_pages_python_runs_and_multiplies(root, library_path):
    names = {}
    exec(
        program(root, "python").replace("from nvfp4_gemm import", "from submission import"), names
    )  # as its comment says
    exact = names["x"] @ names["w"].t()
    error = (names["c"].float() - exact).norm() / exact.norm()
    assert names["y"].shape == names["x"].shape and names["y"].isfinite().all()
    assert 0.01 < error < 0.2, "of two operands rounded to four bits"


def test_the_front_pages_c_runs_and_says_what_is_wrong(root, library_path, tmp_path):
    text = program(root, "c")
    for name, source in (("right", text), ("wrong", text.replace(".k = 256", ".k = 255"))):
        (tmp_path / f"{name}.c").write_text(source)
        command = [
            "cc",
            "-std=c11",
            "-Wall",
            "-Werror",
            "-I",
            root / "submission",
            tmp_path / f"{name}.c",
            library_path,
        ]
        subprocess.run([*command, f"-Wl,-rpath,{library_path.parent}", "-o", tmp_path / name], check=True)
    assert subprocess.run([tmp_path / "right"], capture_output=True, text=True).stdout == ""
    done = subprocess.run([tmp_path / "wrong"], capture_output=True, text=True)
    assert done.returncode != 0 and "k is 255" in done.stdout
