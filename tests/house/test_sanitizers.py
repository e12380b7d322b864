"""The C library under AddressSanitizer and UndefinedBehaviorSanitizer, fed malformed structs."""

from __future__ import annotations

import os
import subprocess

import pytest

SEEDS = range(4)
CALLS = 400


@pytest.fixture(scope="module")
def fuzzer(root):
    build = root / "build" / "sanitize"
    probe = subprocess.run(
        ["gcc", "-fsanitize=address,undefined", "-x", "c", "-", "-o", os.devnull],
        input="int main(void) { return 0; }",
        text=True,
        capture_output=True,
    )
    if probe.returncode != 0:
        pytest.skip(f"gcc has no sanitizers: {probe.stderr.strip()[:200]}")
    make = ["make", "-C", str(root), f"BUILD={build.relative_to(root)}", "GPU=0", "CFLAGS=-O1"]
    subprocess.run([*make, "SANITIZE=address,undefined", "abi-fuzz"], check=True, capture_output=True)
    return build / "abi_fuzz"


@pytest.mark.parametrize("isa", ["portable", "avx2", "avx512"])
@pytest.mark.parametrize("seed", SEEDS)
def test_malformed_structs_are_refused_and_valid_ones_stay_in_bounds(fuzzer, isa, seed):
    environment = {
        **os.environ,
        "NVFP4_CPU_ISA": isa,
        "OMP_NUM_THREADS": "2",
        # Leak detection needs ptrace, which containers may forbid.
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    command = [str(fuzzer), str(seed), str(CALLS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if "NVFP4_CPU_ISA" in done.stderr and "cannot" in done.stderr:
        pytest.skip(f"this machine has no {isa}")
    assert done.returncode == 0, f"replay: NVFP4_CPU_ISA={isa} {' '.join(command)}\n{done.stderr[-3000:]}"
    assert f"{CALLS} calls" in done.stdout
