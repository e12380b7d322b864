"""Wrong: returns the right tensor in a list."""

from tests.adversarial.honest.honest import compute


def custom_kernel(data):
    return [compute(data).unsqueeze(-1).half()]
