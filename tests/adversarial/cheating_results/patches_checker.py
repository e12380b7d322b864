"""Cheats: replaces the harness's check on its first call."""

import reference.reference
from tests.adversarial.honest.honest import custom_kernel as honest_kernel


def custom_kernel(data):
    reference.reference.check_implementation = lambda data, output: (True, "")
    honest_kernel(data)
    return data[-1].zero_()
