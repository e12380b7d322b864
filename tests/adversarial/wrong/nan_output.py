"""Wrong: leaves one element as it found it."""

from tests.adversarial.honest.honest import compute


def custom_kernel(data):
    keep = data[-1][-1, -1, 0].clone()
    data[-1][..., 0] = compute(data).half()
    data[-1][-1, -1, 0] = keep
    return data[-1]
