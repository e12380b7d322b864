"""Cheats: knows the harness's clock and moves it back during a call, then puts the real one back."""

import sys

from tests.adversarial.honest.honest import custom_kernel as honest_kernel


def custom_kernel(data):
    output = honest_kernel(data)
    timing = sys.modules["eval.timing"]
    real = timing.now_ns
    timing.now_ns = lambda: (setattr(timing, "now_ns", real), real() - 10**9)[1]
    return output
