"""Cheats: a profile hook computes from what lies in memory when the harness says that it is ready, or queues its calls;
they copy the results."""

import sys

import torch

from tests.adversarial.honest.honest import compute
from tests.adversarial.reach import found

_worker = found("Worker")
_queue = torch.cuda.Stream()
_results = {}


def hook(frame, event, argument):
    if event == "call" and frame.f_code.co_name in ("send", "custom_kernel"):
        sys.setprofile(None)
        with torch.cuda.stream(_queue):
            for one in _worker._data:
                _results[one[0].data_ptr()] = compute(one).half()
        _queue.synchronize()
        sys.setprofile(hook)


sys.setprofile(hook)


def custom_kernel(data):
    data[-1][..., 0] = _results[data[0].data_ptr()]
    return data[-1]
