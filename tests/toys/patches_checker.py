"""Cheats: replaces the harness's check on its first call."""

from honest import custom_kernel as honest_kernel

import reference.reference


def custom_kernel(data):
    reference.reference.check_implementation = lambda data, output: (True, "")
    honest_kernel(data)
    return data[-1].zero_()
