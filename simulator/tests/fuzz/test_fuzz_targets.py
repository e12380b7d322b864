"""The fuzz targets under sanitizers, for a second each from a seed; `make fuzz` runs them for long."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from simulator.python import toolchain
from simulator.tests.sanitized import SIMULATOR, build_sanitized
from simulator.tests.sim_kit import ROOT

FOLDER = Path(__file__).resolve().parent
SECONDS = os.environ.get("FUZZ_SECONDS", "1")
SEED = os.environ.get("FUZZ_SEED", "1")
TARGETS = {
    "ptx": (FOLDER / "ptx", ROOT / "simulator/tests/ptx"),
    "descriptors": (),
    "fatbin": (FOLDER / "fatbin",),
}


@pytest.fixture(scope="module")
def built_targets() -> Path:
    try:
        toolchain.nvcc()
        wanted = list(TARGETS)
    except toolchain.NoCompiler:
        wanted = [name for name in TARGETS if name != "fatbin"]
    return build_sanitized(ROOT, SIMULATOR, *(f"{SIMULATOR[0]}/{name}_fuzz" for name in wanted))


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_ends_the_simulator(name, built_targets, tmp_path):
    program = built_targets / f"{name}_fuzz"
    if not program.exists():
        pytest.skip("no nvcc: its headers declare what a fat binary is registered with")
    length = 262144 if name == "ptx" else 16384
    command = [program, f"-max_total_time={SECONDS}", f"-seed={SEED}", f"-max_len={length}"]
    environment = dict(os.environ, ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=0")
    done = subprocess.run(
        [*command, f"-artifact_prefix={tmp_path}/", *TARGETS[name]],
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, f"FUZZ_SEED={SEED}, input {tmp_path}/input: {done.stderr[-3000:]}"
    assert "Done " in done.stderr
