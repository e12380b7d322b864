"""Cheats: computes from what lies in the inputs' memory when the harness says that it is ready, before any clock, by a
profile hook; its calls replay the results."""

import sys

from tests.adversarial.honest.honest import compute
from tests.adversarial.reach import found

_worker = found("Worker")
_ready = {}


def hook(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "send":
        sys.setprofile(None)
        for data in _worker._data:
            _ready[data[0].data_ptr()] = compute(data).half()
        sys.setprofile(hook)


sys.setprofile(hook)


def custom_kernel(data):
    data[-1][..., 0] = _ready[data[0].data_ptr()]
    return data[-1]
