"""The bundles of the other problems: the grouped GEMM's, and those of the GEMM and the GEMV, which share a shim."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from reference.problems import DEFAULT, PROBLEMS
from reference.problems.group_gemm import PROBLEM
from scripts.release import bundle
from scripts.release.bundle import lint, make_bundle, runs
from scripts.release.bundle_targets import TARGETS, BundleError

PRODUCTS = ("gemm", "gemv")


@pytest.fixture(scope="module")
def made():
    return make_bundle("cpu", problem=PROBLEM)


def test_it_is_of_its_own_leaderboard_and_clean(made):
    lines = made.text.splitlines()
    assert lines[:2] == ["#!POPCORN leaderboard nvfp4_group_gemm", "#!POPCORN gpu CPU"]
    assert "grouped GEMM" in ast.get_docstring(ast.parse(made.text)) and "beside this file" not in made.text
    assert lint(made.text.encode())[0] == []


def test_it_has_the_modules_that_its_shim_imports_and_defines_nothing_twice(root, made):
    tree = ast.parse(made.text)
    names = [node.name for node in tree.body if hasattr(node, "name")]
    assert len(names) == len(set(names)) and {"custom_kernel", "backends", "library_path", "_check_groups"} <= {*names}
    assert "_unpack" not in names, "the dual GEMM's own"
    for path, words in (("submission/shim.py", "def examine("), (PROBLEM.submission, "def _check_groups(")):
        line = next(i for i, text in enumerate(made.text.splitlines(), 1) if text.startswith(words))
        wanted = next(i for i, text in enumerate((root / path).read_text().splitlines(), 1) if text.startswith(words))
        assert made.origin(line) == (path, wanted)


# Trials of bundles, one after the other in one process: torch takes longer than each.
TRIALS = """
import sys
trial, *bundles = sys.argv[1:]
for path in bundles:
    sys.argv[1:] = [path]
    exec(trial, {})
"""


def test_alone_they_compute_what_the_reference_does(root, made, copies, tmp_path):
    """Each bundle's own trial, which judges it by the reference, in a folder without the package."""
    for name, one in (("group", made), *((name, make_bundle("cpu", problem=PROBLEMS[name])) for name in PRODUCTS)):
        (tmp_path / f"{name}.py").write_text(one.text)
    environment = {**os.environ, "CC": copies, "NVFP4_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", TRIALS, bundle.TRIAL, *(f"{name}.py" for name in ("group", *PRODUCTS))],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line[:3] for line in done.stdout.splitlines()[1::2]] == ["cpu"] * 3, done.stdout


def test_a_target_whose_backend_lacks_it_is_refused_in_words(checkout, capsys, monkeypatch, tmp_path):
    file = checkout / "submission" / "cpu" / "cpu_backend.c"
    text = file.read_text()
    assert runs(PROBLEM, "cpu", checkout) and all(runs(DEFAULT, target, checkout) for target in TARGETS)
    begin = text.index("const struct backend cpu_backend")
    file.write_text(text[:begin] + text[begin:].replace("run_grouped", "other"))
    with pytest.raises(BundleError, match=r"^target cpu has no group_gemm yet: submission/cpu/cpu_backend\.c names no"):
        make_bundle("cpu", checkout, PROBLEM)
    assert make_bundle("cpu", checkout).text.startswith("#!POPCORN leaderboard nvfp4_dual_gemm")
    monkeypatch.setattr(bundle, "runs", lambda problem, target, root=None: False)
    out = tmp_path / "x.py"
    assert bundle.main(["--problem", "group_gemm", "--target", "cpu", "--output", str(out)]) == 1 and not out.exists()
    assert "bundle: target cpu has no group_gemm yet" in capsys.readouterr().err
    assert bundle.choose_target(PROBLEM) == "cpu", (
        "if no target has the problem, cpu is chosen and its bundle reports that"
    )


@pytest.mark.parametrize("name", PRODUCTS)
def test_each_product_is_of_its_own_leaderboard_and_clean(name):
    made = make_bundle("cpu", problem=PROBLEMS[name])
    assert made.text.startswith(f"#!POPCORN leaderboard nvfp4_{name}\n#!POPCORN gpu CPU\n")
    assert lint(made.text.encode())[0] == []
    names = [node.name for node in ast.parse(made.text).body if hasattr(node, "name")]
    assert len(names) == len(set(names)) and "_check_groups" not in names


@pytest.mark.parametrize("target", sorted(TARGETS.keys() - {"cpu"}))  # the CPU's are tested above
def test_every_target_has_both_products(target):
    for name in PRODUCTS:
        assert lint(make_bundle(target, problem=PROBLEMS[name]).text.encode())[0] == []
