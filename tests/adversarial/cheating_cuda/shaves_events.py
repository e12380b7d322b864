"""Cheats: takes nine tenths off each round's time on the instance of the clock, which is not watched."""

from tests.adversarial.honest.honest import custom_kernel as honest_kernel
from tests.adversarial.reach import found

REPEATS = 20
_core = found("Worker")._borrower._core
_real = _core.round
_core.round = lambda *arguments: (timed := _real(*arguments))._replace(total_us=timed.total_us / 10)


def custom_kernel(data):
    for _ in range(REPEATS):
        output = honest_kernel(data)
    return output
