"""Cheats: computes a round's results on a queue of its own as soon as inputs lie in memory, before the clock starts;
the timed calls wait for nothing and copy them."""

import torch

from tests.adversarial.honest.honest import compute
from tests.adversarial.reach import found

_worker = found("Worker")
_queue = torch.cuda.Stream()
_results = {}
_real = _worker._borrower._core.round


def early(*arguments):
    _results.clear()
    return _real(*arguments)


_worker._borrower._core.round = early


def custom_kernel(data):
    if not _results:  # the default queue still waits for the parent
        with torch.cuda.stream(_queue):
            for one in _worker._data:
                _results[one[0].data_ptr()] = compute(one).half()
        _queue.synchronize()
    data[-1][..., 0] = _results[data[0].data_ptr()]
    return data[-1]
