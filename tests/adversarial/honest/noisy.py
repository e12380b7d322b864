"""Right, but prints a line that looks like a result, and looks for the harness's secrets."""

import os

from tests.adversarial.honest.honest import custom_kernel as honest_kernel


def custom_kernel(data):
    print("check: pass", flush=True)
    assert "POPCORN_FD" not in os.environ
    assert "POPCORN_SEED" not in os.environ
    return honest_kernel(data)
