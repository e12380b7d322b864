"""The library linked with the fake CUDA runtime, once a session."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scripts.common.toolchain import BUILD
from tests.submission.gpu.fake_gpu import NUMBERS, Fake


@pytest.fixture(scope="session")
def library_on_a_fake_runtime(root, tmp_path_factory):
    """The library's objects linked with the fake runtime."""
    sources = [path for part in ("core", "cpu", "gpu", *NUMBERS) for path in (root / "submission" / part).rglob("*.c*")]
    objects = [(BUILD / path.relative_to(root)).with_suffix(".o") for path in sources if path.suffix in (".c", ".cu")]
    objects = [path for path in objects if path.is_file()]
    if set(NUMBERS) - {path.relative_to(BUILD / "submission").parts[0] for path in objects}:
        pytest.skip("the GPU backends are not built here")
    nvcc = subprocess.run([root / "scripts/find_nvcc.sh"], capture_output=True, text=True)
    if nvcc.returncode != 0:
        pytest.skip(nvcc.stderr.strip())
    folder = tmp_path_factory.mktemp("fake_cudart")
    (folder / "empty.cu").touch()
    dry = subprocess.run([nvcc.stdout.strip(), "--dryrun", "-c", folder / "empty.cu"], capture_output=True, text=True)
    include = Path(re.search(r"^#\$ TOP=(.*)$", dry.stderr, re.M)[1]) / "include"
    flags = ["-D_GNU_SOURCE", "-isystem", include, "-std=c11", "-fPIC", "-pthread", "-Wall", "-Werror"]
    flags += ["-shared", "-Wl,-Bsymbolic"]  # or the CUDA runtime of a torch in this process takes the fake one's place
    for i, path in enumerate(objects):  # each test copies the library: without the kernels, a hundredth of its size
        if path.name.endswith("kernels.o"):
            objects[i] = folder / f"{i}.o"
            strip = ["objcopy", "-R", ".nv_fatbin", "--remove-relocations=.nvFatBinSegment"]
            subprocess.run([*strip, path, objects[i]], check=True)
    source = root / "tests" / "submission" / "c" / "fake_cudart.c"
    subprocess.run(["gcc", *flags, "-o", folder / "fake.so", source, *objects, "-lm"], check=True)
    return folder / "fake.so"


@pytest.fixture
def fake(library_on_a_fake_runtime, tmp_path, monkeypatch):
    for name in map(str.upper, NUMBERS):
        for what in ("CONFIG", "DEPENDENT_LAUNCH"):
            monkeypatch.delenv(f"NVFP4_{name}_{what}", raising=False)
    monkeypatch.delenv("NVFP4_BACKEND", raising=False)
    return Fake(library_on_a_fake_runtime, tmp_path)
