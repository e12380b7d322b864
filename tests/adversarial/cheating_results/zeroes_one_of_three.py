"""Cheats: leaves zeros in one call of each timed round, in the hope that another one is looked at."""

from tests.adversarial.honest.honest import custom_kernel as honest_kernel

_calls = 0


def custom_kernel(data):
    global _calls
    _calls += 1
    if _calls > 6 and data[-1].isnan().all() and _calls % 3 == 1:
        return data[-1].zero_()
    return honest_kernel(data)
