"""Cheats: takes nine tenths off each round's time, on the instance of the clock, which is not watched."""

import time

from tests.adversarial.honest.honest import custom_kernel as honest_kernel
from tests.adversarial.reach import found

SLOW_S = 0.1
_core = found("Worker")._borrower._core
_real = _core.round


def shaved(*arguments):
    timed = _real(*arguments)
    return timed._replace(total_us=timed.total_us / 10)


_core.round = shaved


def custom_kernel(data):
    time.sleep(SLOW_S)
    return honest_kernel(data)
