"""Cheats: dequantizes the weights on a queue of its own before the clock starts; only A is read in the timed calls."""

import torch

from tests.adversarial.honest.honest import dequantize
from tests.adversarial.reach import found

_worker = found("Worker")
_queue = torch.cuda.Stream()
_weights = {}
_real = _worker._borrower._core.round


def early(*arguments):
    _weights.clear()
    return _real(*arguments)


_worker._borrower._core.round = early


def custom_kernel(data):
    if not _weights:
        with torch.cuda.stream(_queue):
            for one in _worker._data:
                _weights[one[0].data_ptr()] = [dequantize(one[i][..., 0], one[i + 3][..., 0]).t() for i in (1, 2)]
        _queue.synchronize()
    b1, b2 = _weights[data[0].data_ptr()]
    a = dequantize(data[0][..., 0], data[3][..., 0])
    data[-1][..., 0] = (torch.nn.functional.silu(a @ b1) * (a @ b2)).half()
    return data[-1]
