"""Right, with processes of its own that import it again under its name."""

import multiprocessing

from task import input_t, output_t  # noqa: F401


def square(x):
    return x * x, __name__


def custom_kernel(data):
    from tests.adversarial.honest.honest import custom_kernel as honest_kernel  # the pool's processes need no torch

    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(square, range(3)) == [(i * i, "submission") for i in range(3)]
    return honest_kernel(data)
