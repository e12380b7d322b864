"""Cheats: takes nine tenths off each call's time with the harness's own clock, and leaves no trace."""

import sys
import time

from tests.adversarial.honest.honest import custom_kernel as honest_kernel

SLOW_S = 0.2
_real = sys.modules["eval.timing"].now_ns


def custom_kernel(data):
    timing = sys.modules["eval.timing"]
    time.sleep(SLOW_S)
    output = honest_kernel(data)

    def once():
        timing.now_ns = _real
        return _real() - int(0.9e9 * SLOW_S)

    timing.now_ns = once
    return output
