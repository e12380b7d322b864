"""scripts/find_nvcc.sh: the order of the places that it searches, and its reason when no nvcc works."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

# It writes down its arguments and keeps the program that it was given to compile.
WORKS = 'echo "$@" >> "$0.log"; for last; do :; done; cp "$last" "$0.probe"; exit 0'
FAILS = "echo; echo 'fatal: no host compiler'; exit 1"


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def find(root, tmp_path):
    """The script, its usual folder below tmp_path; returns (exit status, path, reason)."""
    usual = tmp_path / "usual" / "bin" / "nvcc"
    script = tmp_path / "find_nvcc.sh"
    text = (root / "scripts" / "find_nvcc.sh").read_text()
    assert text.count("/usr/local/cuda/bin/nvcc") == 1
    script.write_text(text.replace("/usr/local/cuda/bin/nvcc", str(usual)))
    script.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def run(python="no_python", **environment):
        base = {"PATH": "/usr/bin:/bin", "TMPDIR": str(scratch)}
        done = subprocess.run([script, python], env=base | environment, capture_output=True, text=True)
        assert list(scratch.iterdir()) == [], "the script removes its temporary files"
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    run.usual = usual
    return run


@pytest.fixture
def places(find, tmp_path):
    """The files that may be an nvcc, in the order of the search, and the settings that name them."""
    wheel = tmp_path / "site" / "nvidia" / "cu13" / "bin" / "nvcc"
    python = program(tmp_path / "python", f'PYTHONPATH={tmp_path / "site"} exec {sys.executable} "$@"')
    files = [tmp_path / "set/nvcc", tmp_path / "path/nvcc", tmp_path / "home/bin/nvcc", find.usual, wheel]
    settings = {
        "NVCC": str(files[0]),
        "PATH": f"{files[1].parent}:/usr/bin:/bin",
        "CUDA_HOME": str(tmp_path / "home"),
    }
    return SimpleNamespace(files=files, settings=settings, python=str(python))


def test_nvcc_is_searched_in_order_and_made_to_compile_for_hopper(find, places):
    for place in reversed(places.files):
        program(place, WORKS)
        assert find(places.python, **places.settings) == (0, str(place), "")
        (log,) = place.with_name("nvcc.log").read_text().splitlines()
        assert log.startswith("-gencode=arch=compute_90a,code=sm_90a -c -o ") and log.endswith("probe.cu")
        compiled = place.with_name("nvcc.probe").read_text()
        assert re.findall("cuda.h|cuda_runtime.h|__global__", compiled) == ["cuda.h", "cuda_runtime.h", "__global__"]


def test_an_nvcc_that_cannot_compile_is_passed_over(find, places):
    for place in places.files:
        program(place, WORKS)
    for place, after in zip(places.files, places.files[1:], strict=False):
        program(place, FAILS)
        assert find(places.python, **places.settings) == (0, str(after), "")
    program(places.files[-1], FAILS)
    status, path, reason = find(places.python, **places.settings)
    assert (status, path) == (1, "") and str(places.files[-1]) in reason and "no host compiler" in reason


def test_without_any_nvcc_the_search_says_where_it_looked(find, tmp_path):
    for environment in ({}, {"NVCC": str(tmp_path / "none"), "CUDA_HOME": str(tmp_path / "none")}):
        status, path, reason = find(**environment)
        assert (status, path) == (1, "") and all(place in reason for place in ("PATH", "CUDA_HOME", "nvidia-cuda-nvcc"))
