"""Cheats: replaces the function that times a round."""

import eval.timing
from tests.adversarial.honest.honest import custom_kernel  # noqa: F401

_real = eval.timing.Core.round


def faster(core, *arguments):
    timed = _real(core, *arguments)
    return timed._replace(total_us=timed.total_us / 10)


eval.timing.Core.round = faster
