"""The C entry points under AddressSanitizer and UndefinedBehaviorSanitizer, with malformed and valid structs."""

from __future__ import annotations

import os
import subprocess

import pytest

from simulator.tests.sanitized import LIBRARY, build_sanitized

SEEDS = range(2)
CALLS = 400


@pytest.fixture(scope="module")
def fuzzer(root):
    return build_sanitized(root, LIBRARY, "build/sanitize/abi_fuzz") / "abi_fuzz"


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
    command = [str(fuzzer), f"-seed={seed}", f"-runs={CALLS}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if "NVFP4_CPU_ISA" in done.stderr and "cannot" in done.stderr:
        pytest.skip(f"this machine has no {isa}")
    assert done.returncode == 0, f"replay: NVFP4_CPU_ISA={isa} {' '.join(command)}\n{done.stderr[-3000:]}"
    assert f"Done {CALLS} runs" in done.stderr
