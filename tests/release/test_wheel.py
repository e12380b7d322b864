"""`pip install .`: one package of its own name, the library inside, torch as a range."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile

import pytest


def made(command, folder, **environment):
    """The one file that a command of pip or setuptools leaves in a folder."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.iterdir()
    return path


def build_wheel(source, folder, **environment):
    options = ["--no-build-isolation", "--no-deps", "--no-index", "-w", folder]
    return made(["-m", "pip", "wheel", *options, source], folder, **environment)


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    """The wheel of this checkout, made without a network of the library that is built already."""
    for name, oldest in (("setuptools", 77), ("pip", 23)):
        version = importlib.metadata.version(name) if importlib.util.find_spec(name) else "0"
        if int(version.partition(".")[0]) < oldest:
            pytest.skip(f"{name} {oldest} or later is not installed")
    return build_wheel(root, tmp_path_factory.mktemp("wheel"))


def test_a_source_distribution_builds_the_same_wheel_and_has_every_source(root, wheel, tmp_path):
    folders = {name: tmp_path / name for name in ("scratch", "sdist", "wheel")}
    for folder in folders.values():
        folder.mkdir()
    program = "import os, sys; os.chdir(sys.argv[1]); import setuptools.build_meta as b; b.build_sdist(sys.argv[2])"
    archive = made(["-c", program, root, folders["sdist"]], folders["sdist"], BUILD=str(folders["scratch"]))
    with tarfile.open(archive) as content:
        held = {name.partition("/")[2] for name in content.getnames()}
    tracked = subprocess.run(["git", "-C", root, "ls-files", "submission"], capture_output=True, text=True).stdout
    assert held.issuperset(tracked.split())
    again = build_wheel(archive, folders["wheel"], GPU="0", CFLAGS="-O0")
    assert again.name == wheel.name
    first, second = (sorted(zipfile.ZipFile(path).namelist()) for path in (wheel, again))
    assert first == second


def test_the_wheel_holds_one_package_with_its_modules_and_the_library(root, wheel):
    folder = root / "submission"
    modules = {f"nvfp4_gemm/{path.relative_to(folder).as_posix()}" for path in folder.rglob("*.py")}
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == {*modules, "nvfp4_gemm/libcustom_kernel.so"}
    assert re.fullmatch(r"nvfp4_gemm-\d+\.\d+\.\d+-py3-none-linux_\w+\.whl", wheel.name)


def test_the_wheel_takes_a_range_of_torch(wheel):
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    lines = archive.read(metadata).decode().splitlines()
    assert [line for line in lines if line.startswith("Requires-Dist:") and "extra ==" not in line] == [
        "Requires-Dist: torch>=2.11"
    ]


# The example, then a problem of its own, in one process: torch takes longer than both.
PROGRAM = """
import runpy, sys
given, sys.argv = sys.argv, sys.argv[1:2]
runpy.run_path(given[1], run_name="__main__")
import nvfp4_gemm
sys.path.append(given[2])
from reference.reference import check_against_oracle, generate_input
data = generate_input(40, 72, 192, 1, 3, full=True, device="cpu")
print(check_against_oracle(data, nvfp4_gemm.custom_kernel(data)))
print(nvfp4_gemm.shim.library._name)
"""


def test_the_installed_package_runs_the_example_with_its_own_library(root, wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, root / "examples" / "torch_mlp.py", root],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    shapes, errors, right, library = done.stdout.splitlines()
    assert shapes == "cpu: (17, 256) -> (17, 256)"
    of_format, of_kernels = re.search(r"activations (\S+), of the kernels (\S+)$", errors).groups()
    assert float(of_kernels) < 0.005 < float(of_format) < 0.25
    assert right == "(True, '')" and library == str(tmp_path / "site" / "nvfp4_gemm" / "libcustom_kernel.so")


def test_the_package_has_the_librarys_version(root):
    number = re.search(r"#define CUSTOM_KERNEL_VERSION 0x(\w{8})u", (root / "submission/custom_kernel.h").read_text())
    major, minor, patch = (int(part, 16) for part in re.fullmatch(r"(\w{4})(\w\w)(\w\w)", number[1]).groups())
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["version"] == f"{major}.{minor}.{patch}"
