"""Cheats: leaves zeros in the last group of each timed call, once it has been checked."""

from examples.submission import custom_kernel as honest_kernel

_calls = 0


def custom_kernel(data):
    global _calls
    _calls += 1
    outputs = honest_kernel(data)
    if _calls > 3:
        outputs[-1].zero_()
    return outputs
