"""C code under AddressSanitizer and UndefinedBehaviorSanitizer: malformed structs, random tensor core operations."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SEEDS = range(2)
CALLS = 400


FUZZED_TENSOR_CORE = ["tests/simulator/tensorcore/test_fuzz.py", "-k", "not random_mmas or 0"]  # one seed of four


@pytest.fixture(scope="module")
def sanitized(root):
    """Builds a target with both sanitizers in build/sanitize; returns that folder."""
    probe = subprocess.run(
        ["gcc", "-fsanitize=address,undefined", "-x", "c", "-", "-o", os.devnull],
        input="int main(void) { return 0; }",
        text=True,
        capture_output=True,
    )
    if probe.returncode != 0:
        pytest.skip(f"gcc has no sanitizers: {probe.stderr.strip()[:200]}")

    def make(target: str) -> Path:
        command = ["make", "-C", str(root), "BUILD=build/sanitize", "GPU=0", "CFLAGS=-O1"]
        subprocess.run([*command, "SANITIZE=address,undefined", target], check=True, capture_output=True)
        return root / "build" / "sanitize"

    return make


@pytest.fixture(scope="module")
def fuzzer(sanitized):
    return sanitized("build/sanitize/abi_fuzz") / "abi_fuzz"


def test_random_tensor_core_operations_stay_in_bounds(root, sanitized):
    build = sanitized("tensor-test-library")
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    environment = {
        **os.environ,
        "BUILD": str(build.relative_to(root)),
        "NVFP4_TESTS_BUILT": "1",
        "LD_PRELOAD": runtime.stdout.strip(),  # Python is not built with it, but its buffers must be watched
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0", *FUZZED_TENSOR_CORE]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout


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
