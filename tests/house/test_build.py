"""The build and the two commands, as a newcomer meets them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest


def make(folder, *arguments, **environment):
    """Runs make as a person would from a shell, not as a child of the make that runs these tests."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("BUILD", "MAKEFLAGS", "MAKELEVEL")}
    return subprocess.run(
        ["make", "-C", str(folder), *arguments],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
    )


# A C compiler that compiles nothing: what make does with it takes a second.
WRITES_EMPTY_FILES = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" != -o ] || : > "$2"; shift; done
"""


@pytest.fixture
def sources(root, tmp_path):
    """What make reads of the checkout, to build in, and a folder `bin` with a compiler that writes empty files."""
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


@pytest.mark.parametrize("folder", ["a folder", ""])
def test_a_build_folder_that_make_cannot_take_is_told_in_a_line(sources, folder):
    done = make(sources, "build", f"BUILD={folder}", "GPU=0")
    said = done.stderr.splitlines()
    assert done.returncode == 2 and len(said) == 1, said
    assert f"BUILD is '{folder}': expected a folder without a space in its name, which make" in said[0]


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


@pytest.fixture
def find_nvcc(root, tmp_path):
    """scripts/find_nvcc.sh where no folder holds an nvcc but those a test makes: (exit code, output, errors)."""
    script = tmp_path / "find_nvcc.sh"
    text = (root / "scripts" / "find_nvcc.sh").read_text()
    assert "/usr/local/cuda/" in text
    script.write_text(text.replace("/usr/local/cuda/", f"{tmp_path}/usual/"))
    script.chmod(0o755)
    no_python = tmp_path / "no_python"

    def run(**environment):
        variables = {
            "PATH": "/usr/bin:/bin",
            "CUDA_HOME": "",
            **{key: str(value) for key, value in environment.items()},
        }
        done = subprocess.run([script, no_python], env=variables, capture_output=True, text=True)
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    return run


def an_nvcc(folder, works):
    """A program that takes part in the search: it compiles anything, or fails as one without a host compiler."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "nvcc"
    path.write_text("#!/bin/sh\n" + ("exit 0\n" if works else "echo\necho 'fatal: no host compiler'\nexit 1\n"))
    path.chmod(0o755)
    return path


def test_an_nvcc_that_cannot_compile_is_reported_with_its_error(find_nvcc, tmp_path):
    broken = an_nvcc(tmp_path / "broken", works=False)
    assert find_nvcc(NVCC=broken) == (1, "", f"{broken} cannot compile for sm_90a: fatal: no host compiler")


def test_without_any_nvcc_the_search_says_where_it_looked(find_nvcc, tmp_path):
    said = (1, "", "no nvcc in PATH, CUDA_HOME or the nvidia-cuda-nvcc wheel")
    assert find_nvcc() == said
    assert find_nvcc(NVCC=tmp_path / "none", CUDA_HOME=tmp_path / "none") == said


def test_an_nvcc_is_looked_for_in_order_past_those_that_cannot_compile(find_nvcc, tmp_path):
    folders = {name: tmp_path / name for name in ("named", "path", "home", "usual")}
    places = {
        name: an_nvcc(folder if name in ("named", "path") else folder / "bin", True) for name, folder in folders.items()
    }
    environment = {"NVCC": places["named"], "PATH": f"{folders['path']}:/usr/bin:/bin", "CUDA_HOME": folders["home"]}
    for name in ("named", "path", "home", "usual"):
        assert find_nvcc(**environment) == (0, str(places[name]), "")
        an_nvcc(places[name].parent, works=False)
    code, found, said = find_nvcc(**environment)
    assert (code, found) == (1, "")
    assert said == f"{places['usual']} cannot compile for sm_90a: fatal: no host compiler"


def test_what_tests_run_beside_the_library_is_made_before_them(root, tmp_path):
    """As commands, in a folder where nothing is built."""
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


def test_targets_with_flags_of_their_own_leave_each_others_objects_alone(root, sources, tmp_path):
    shutil.copytree(root / "simulator", sources / "simulator", ignore=shutil.ignore_patterns("__pycache__"))
    gcc = f"CC={tmp_path / 'bin' / 'gcc'}"
    for target in ("library", "simulator"):
        assert make(sources, target, "GPU=0", gcc).returncode == 0
    for target in ("library", "build/libptxsim.so", "simulator"):
        again = make(sources, target, "GPU=0", gcc)
        assert again.returncode == 0 and "  CC\t" not in again.stdout, (target, again.stdout)


def test_a_python_without_torch_that_is_too_old_is_refused(root, tmp_path):
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        [str(root / "scripts" / "setup.sh"), "run"],
        env={**os.environ, "PYTHON": str(old)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "is not Python 3.11 or later" in done.stderr
