"""make help, builds with missing tools, and rebuilds after a change of flags."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest


def make(folder, *arguments, **environment):
    """Runs make as from a shell, not as a child of the make that runs these tests."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("BUILD", "MAKEFLAGS", "MAKELEVEL")}
    return subprocess.run(
        ["make", "-C", str(folder), *arguments],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
    )


# A C compiler that writes empty files, so that a build takes a second.
WRITES_EMPTY_FILES = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" != -o ] || : > "$2"; shift; done
"""


@pytest.fixture
def sources(root, tmp_path):
    """A copy of the sources that make needs, next to a folder `bin` with a compiler that writes empty files."""
    target = tmp_path / "package"
    for folder in ("submission", "scripts", "eval/timing"):
        shutil.copytree(root / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "Makefile", target)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gcc").write_text(WRITES_EMPTY_FILES)
    (tmp_path / "bin" / "gcc").chmod(0o755)
    return target


def test_help_is_the_default_and_lists_the_two_commands(root):
    done = make(root)
    assert done.returncode == 0
    for target in ("run", "test", "build", "bench", "format", "lint", "clean"):
        assert re.search(rf"^  make {target}\s+\w", done.stdout, re.MULTILINE), target


def test_an_unknown_problem_is_refused_before_anything_is_built(root):
    done = make(root, "run", "PROBLEM=gemmm")
    assert done.returncode == 2 and "PROBLEM is 'gemmm': expected one of dual_gemm group_gemm gemm gemv" in done.stderr
    assert make(root, "help", "PROBLEM=nvfp4_gemm").returncode == 0
    assert "BOARD is 'popcron': expected popcorn or sol-execbench" in make(root, "bundle", "BOARD=popcron").stderr
    board = ("bundle", "BOARD=sol-execbench")
    assert "PROBLEM is 'gemv': BOARD=sol-execbench takes dual_gemm alone" in make(root, *board, "PROBLEM=gemv").stderr
    assert "--target cpu" in make(root, "-n", *board, "TARGET=cpu").stdout  # for the program to refuse


@pytest.mark.parametrize("folder", ["a folder", ""])
def test_a_build_folder_with_a_space_in_its_name_is_refused_in_one_line(sources, folder):
    done = make(sources, "build", f"BUILD={folder}", "GPU=0")
    said = done.stderr.splitlines()
    assert done.returncode == 2 and len(said) == 1, said
    assert f"BUILD is '{folder}': expected a folder whose name has no space" in said[0]


def test_without_nvcc_the_build_says_so_and_builds_the_cpu_backend(sources, tmp_path):
    tools = tmp_path / "bin"
    for name in [
        "sh",
        "make",
        "mkdir",
        "cmp",
        "cat",
        "awk",
        "git",
        "mktemp",
        "rm",
        "grep",
        "echo",
        "dirname",
        "sed",
        "xargs",
        "ln",
    ]:
        found = shutil.which(name, path="/usr/bin:/bin") or shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    (tools / "python3").symlink_to(sys.executable)
    script = sources / "scripts" / "find_nvcc.sh"
    script.write_text(script.read_text().replace("/usr/local/cuda/", "/nonexistent/"))
    done = make(sources, "build", PATH=str(tools), CUDA_HOME="")
    assert done.returncode == 0, done.stderr
    assert "cpu        built" in done.stdout
    assert "hopper     not built: no nvcc in PATH" in done.stdout
    assert (sources / "build" / "libcustom_kernel.so").exists()


def test_programs_that_tests_run_are_built_before_them(root, tmp_path):
    done = make(root, "-n", "test-programs", f"BUILD={tmp_path}", "GPU=0", "V=1")
    linked = set(re.findall(rf"\s-o {tmp_path}/(\S+) ", done.stdout))
    assert linked >= {"ptxsim", "libptxsim.so", "libtensor_test.so", "ptxsim_no_memory"}, done.stdout + done.stderr


def test_changed_flags_rebuild_the_objects(sources, tmp_path):
    gcc = f"CC={tmp_path / 'bin' / 'gcc'}"
    first = make(sources, "library", "GPU=0", gcc)
    again = make(sources, "library", "GPU=0", gcc)
    changed = make(sources, "library", "GPU=0", gcc, "CFLAGS=-O1", "V=1")
    assert first.returncode == again.returncode == changed.returncode == 0, first.stderr + changed.stderr
    assert "\n  CC\tsubmission/core/custom_kernel.c\n" in first.stdout and "-O3" not in first.stdout
    assert "custom_kernel.c" not in again.stdout
    assert changed.stdout.count("-O1") == first.stdout.count("  CC\t") > 5 and "-shared" in changed.stdout


def test_targets_with_their_own_flags_do_not_rebuild_shared_objects(root, sources, tmp_path):
    shutil.copytree(root / "simulator", sources / "simulator", ignore=shutil.ignore_patterns("__pycache__"))
    gcc = f"CC={tmp_path / 'bin' / 'gcc'}"
    for target in ("library", "simulator"):
        assert make(sources, target, "GPU=0", gcc).returncode == 0
    for target in ("library", "build/libptxsim.so", "simulator"):
        again = make(sources, target, "GPU=0", gcc)
        assert again.returncode == 0 and "  CC\t" not in again.stdout, (target, again.stdout)


def test_the_simulator_builds_without_the_package(root, tmp_path):
    for folder in ("simulator", "scripts"):
        shutil.copytree(root / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "gcc").write_text(WRITES_EMPTY_FILES)
    (tmp_path / "gcc").chmod(0o755)
    done = make(tmp_path / "simulator", "GPU=0", f"CC={tmp_path / 'gcc'}")
    assert done.returncode == 0 and "built build/ptxsim" in done.stdout, done.stderr
    assert (tmp_path / "build" / "libptxsim.so").exists()
