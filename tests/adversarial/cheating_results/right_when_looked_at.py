"""Cheats: right in every call but one of three, once it has been checked."""

from tests.adversarial.honest.honest import custom_kernel as honest_kernel

_calls = 0


def custom_kernel(data):
    global _calls
    _calls += 1
    if _calls > 3 and _calls % 3 == 0:
        return data[-1].zero_()
    return honest_kernel(data)
