"""Commands that make runs for a compiler, an nvcc and a processor: `make -n`, with shell scripts in their place."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

TOOLS = {
    "gcc": 'case "$*" in *-dumpmachine*) echo ${MACHINE:-x86_64}-linux-gnu ;; *syntax-only*)'
    ' for flag in $REFUSED; do case " $* " in *" $flag "*) exit 1 ;; esac; done ;; esac',
    "nvcc": 'case "$*" in *--list-gpu-arch*) for arch in ${ARCHS:-90 100 103 120 121}; do echo compute_$arch; done ;;'
    ' *--dryrun*) echo "#\\$ TOP=${TOOLKIT:-$(dirname "$0")/../toolkit}" >&2 ;; esac',
    "nproc": "echo 4",
}
CPU_KERNELS = "build/submission/cpu/kernels/kernels_{}.o"


class Checkout:
    """Links to the checkout's folders and files, but for what it has built."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self.package = folder, folder / "package"
        self.package.mkdir()
        for entry in root.iterdir():
            if entry.name not in ("build", ".git", ".venv"):
                (self.package / entry.name).symlink_to(entry)
        (folder / "bin").mkdir()
        for name, script in TOOLS.items():
            tool = folder / "bin" / name
            tool.write_text(f"#!/bin/sh\n{script}\n")
            tool.chmod(0o755)
        runtime = folder / "toolkit" / "lib64" / "libcudart_static.a"
        runtime.parent.mkdir(parents=True)
        runtime.touch()

    def make(self, *arguments: str, **environment: str) -> str:
        """The commands that make would run, each on one line."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["make", "--no-print-directory", "-n", "-j1", "PYTHON=python3", *arguments],
            cwd=self.package,
            env={"PATH": path, "LC_ALL": "C"} | environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return re.sub(r"\s*\\\n\s*", " ", done.stdout)

    def built(self, *arguments: str, **environment: str) -> dict[str, str]:
        """File that `make build` compiles or links -> its command."""
        commands = self.make("build", *arguments, **environment).splitlines()
        return {found[1]: line for line in commands if (found := re.search(r" -o (\S+)", line))}


@pytest.fixture(scope="module")
def checkout(root, tmp_path_factory):
    return Checkout(root, tmp_path_factory.mktemp("make"))


@pytest.fixture(scope="module")
def usual(checkout):
    return checkout.built()


def test_each_backend_is_compiled_for_its_chips(usual):
    for backend, chips in (("hopper", ["90a"]), ("blackwell", ["100a", "103a"]), ("geforce", ["120a", "121a"])):
        kernels = [command for file, command in usual.items() if re.search(rf"/{backend}/.*kernels\.o$", file)]
        assert kernels and all(re.findall(r"code=sm_(\w+)", command) == chips for command in kernels)


@pytest.mark.parametrize("isa", ["avx2", "avx512", "amx"])
def test_each_instruction_set_has_its_own_flags(usual, isa):
    command = usual[CPU_KERNELS.format(isa)]
    assert ("-mavx2" in command, "-mavx512f" in command, "-mamx-tile" in command) == (
        True,
        isa != "avx2",
        isa == "amx",
    )
    assert "-mavx2" not in usual["build/submission/core/custom_kernel.o"], "the rest runs on any processor"


def test_gpu_0_builds_without_nvcc(checkout):
    built = checkout.built("GPU=0")
    assert "build/libcustom_kernel.so" in built
    assert not any("nvcc" in command or "cudart" in command for command in built.values())


@pytest.mark.parametrize(
    ("archs", "chips"),
    [
        ("90", {"90a"}),
        ("90 100 120", {"90a", "100a", "120a"}),
    ],
)
def test_an_older_nvcc_builds_for_the_chips_that_it_knows(checkout, archs, chips):
    built = checkout.built(ARCHS=archs)
    assert set(re.findall(r"code=sm_(\w+)", " ".join(built.values()))) == chips


def test_a_toolkit_without_its_runtime_builds_the_cpu_backend_alone(checkout):
    built = checkout.built(TOOLKIT="/none")
    assert "build/libcustom_kernel.so" in built and not any("kernels.cu" in command for command in built.values())


@pytest.mark.parametrize(
    ("refused", "left"),
    [("-mamx-tile", {"avx2", "avx512"}), ("-mavx512f", {"avx2"}), ("-mavx2", set())],
)
def test_a_compiler_builds_the_instruction_sets_that_it_knows(checkout, refused, left):
    built = checkout.built("GPU=0", REFUSED=refused)
    assert {isa for isa in ("avx2", "avx512", "amx") if CPU_KERNELS.format(isa) in built} == left
    assert CPU_KERNELS.format("portable") in built


def test_on_an_arm_neon_is_built(checkout):
    built = checkout.built("GPU=0", MACHINE="aarch64", REFUSED="-mavx2")
    assert {isa for isa in ("avx2", "avx512", "amx", "neon") if CPU_KERNELS.format(isa) in built} == {"neon"}


def test_a_compiler_and_flags_of_ones_own_are_used(checkout):
    built = checkout.built("GPU=0", "CC=gcc -m64", "CFLAGS=-O1", "SANITIZE=address,undefined")
    command = built["build/submission/core/custom_kernel.o"]
    assert "gcc -m64 " in command and " -O1 " in command and "-O3" not in command and "-std=c11" in command
    assert "-fsanitize=address,undefined" in command
    assert "-fsanitize=address,undefined" in built["build/libcustom_kernel.so"]


def test_a_rerun_without_a_round_is_refused(checkout):
    path = f"{checkout.folder / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(["make", "-C", checkout.package, "rerun"], env={"PATH": path}, capture_output=True, text=True)
    assert done.returncode == 2 and "R=N" in done.stdout + done.stderr
