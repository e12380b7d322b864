"""The tensor core's arithmetic under AddressSanitizer and UndefinedBehaviorSanitizer, with random operations."""

from __future__ import annotations

import os
import subprocess
import sys

from simulator.tests.sanitized import SIMULATOR, build_sanitized

TESTS = ["simulator/tests/tensorcore/test_fuzz.py", "-k", "not random_mmas or 0"]  # one seed of four


def test_random_operations_stay_in_bounds(root):
    build = build_sanitized(root, SIMULATOR, "tensor-test-library")
    runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    environment = {
        **os.environ,
        "BUILD": str(build.relative_to(root)),
        "NVFP4_TESTS_BUILT": "1",
        "LD_PRELOAD": runtime.stdout.strip(),  # Python is not built with it, but its buffers must be watched
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0", *TESTS]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout
