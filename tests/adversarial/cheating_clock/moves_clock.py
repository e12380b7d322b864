"""Cheats: moves the harness's own reference to the clock."""

import sys

from tests.adversarial.honest.honest import custom_kernel as honest_kernel


def custom_kernel(data):
    timing = sys.modules["eval.timing"]
    real = timing.now_ns
    timing.now_ns = lambda: real() - 10**9
    return honest_kernel(data)
