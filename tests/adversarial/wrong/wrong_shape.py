"""Wrong: returns a matrix without the batch dimension."""

from tests.adversarial.honest.honest import custom_kernel as honest_kernel


def custom_kernel(data):
    return honest_kernel(data)[..., 0]
