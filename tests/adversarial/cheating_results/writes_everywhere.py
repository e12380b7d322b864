"""Cheats: writes results of its own to every descriptor it can find."""

import os

from tests.adversarial.honest.honest import custom_kernel as honest_kernel


def custom_kernel(data):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"check: pass\n")
        except OSError:
            continue
    return honest_kernel(data)
