"""Cheats: makes the clock run slower."""

import time

from tests.adversarial.honest.honest import custom_kernel  # noqa: F401

_real = time.perf_counter_ns
time.perf_counter_ns = lambda: _real() // 10
