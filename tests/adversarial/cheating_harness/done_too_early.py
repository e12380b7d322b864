"""Cheats: says that it is done as soon as it is called, and then computes."""

from tests.adversarial.honest.honest import compute
from tests.adversarial.reach import found

_calls = 0


def custom_kernel(data):
    global _calls
    _calls += 1
    if _calls > 1:
        found("Worker")._send({"done": 100.0})
    data[-1][..., 0] = compute(data).half()
    return data[-1]
