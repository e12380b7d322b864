"""Fixtures of the bundle tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from scripts.release.bundle import make_bundle
from tests.release.bundle_kit import TORCH, copying_compiler

IMPORT = "import submission; print(submission.library._name)"


@pytest.fixture(scope="session")
def cpu_text():
    return make_bundle("cpu").text


@pytest.fixture(scope="session")
def copies(library_path):
    """A C compiler that outputs this build's library, for tests that do not depend on compiling.

    It lies beside that library: the harness hides others' temporary files from a submission.
    """
    with tempfile.TemporaryDirectory(prefix="compiler-", dir=library_path.parent) as folder:
        yield copying_compiler(Path(folder) / "cc", library_path)


@pytest.fixture
def alone(tmp_path, cpu_text):
    """An empty folder with the CPU bundle and a stand-in for torch; a function that imports it in a process."""
    folder = tmp_path / "alone"
    folder.mkdir()
    (folder / "submission.py").write_text(cpu_text)
    (folder / "torch.py").write_text(TORCH)

    def start(cache=tmp_path / "cache", code=IMPORT, **environment):
        variables = {**os.environ, "NVFP4_CACHE": str(cache), **environment}
        variables.pop("PYTHONPATH", None)
        return subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=folder,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(*args, **kwargs):
        process = start(*args, **kwargs)
        output, errors = process.communicate()
        return process.returncode, output.strip(), errors

    run.start, run.folder, run.cache = start, folder, tmp_path / "cache"
    return run


@pytest.fixture
def checkout(root, tmp_path):
    """A copy of the files that the bundler reads, for tests that change them."""
    copy = tmp_path / "checkout"
    for folder in ("submission", "scripts/release", "scripts/common", "reference", "simulator/python"):
        shutil.copytree(root / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "scripts" / "__init__.py", copy / "scripts")
    return copy
