"""Cheats: is right for the first call only, as long as anybody looks."""

from tests.adversarial.honest.honest import custom_kernel as honest_kernel

_calls = 0


def custom_kernel(data):
    global _calls
    _calls += 1
    if _calls > 1:
        data[-1].zero_()
        return data[-1]
    return honest_kernel(data)
