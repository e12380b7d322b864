"""The bundles of the GEMM and the GEMV, which share a shim."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from reference.problems import PROBLEMS
from scripts.release import bundle
from scripts.release.bundle import lint, make_bundle
from scripts.release.bundle_targets import TARGETS


@pytest.mark.parametrize("name", ["gemm", "gemv"])
def test_each_is_of_its_own_leaderboard_clean_and_right(name, root, copies, tmp_path):
    made = make_bundle("cpu", problem=PROBLEMS[name])
    assert made.text.startswith(f"#!POPCORN leaderboard nvfp4_{name}\n#!POPCORN gpu CPU\n")
    assert lint(made.text.encode())[0] == []
    names = [node.name for node in ast.parse(made.text).body if hasattr(node, "name")]
    assert len(names) == len(set(names)) and "_check_groups" not in names
    (tmp_path / "submission.py").write_text(made.text)
    environment = {**os.environ, "CC": copies, "NVFP4_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", bundle.TRIAL, "submission.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.splitlines()[1].startswith("cpu"), done.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_both(target):
    for name in ("gemm", "gemv"):
        assert lint(make_bundle(target, problem=PROBLEMS[name]).text.encode())[0] == []
