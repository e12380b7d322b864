"""Cheats: does the timing core's part itself, and starts the clock when all results are there: plausible, but late."""

import ctypes

import torch

from eval.timing import Timed
from tests.adversarial.honest.honest import custom_kernel
from tests.adversarial.reach import found

REPEATS = 20
_borrower, _line = found("Worker")._borrower, found("Channel")
_runtime, _cuda = _borrower._runtime, _borrower._core._cuda


def late(kernel, returned, data, *rest):
    _line.receive()
    _runtime._call("cudaStreamWaitEvent", ctypes.c_void_p(0), ctypes.c_void_p(_cuda.lent), 0)
    for one in data:
        for _ in range(REPEATS):
            custom_kernel(one)
    _runtime.record(_cuda.start)
    for one in data:
        one[-1].mul_(1)
    _runtime.record(_cuda.stop)
    for one, kept in zip(data, _borrower.kept, strict=False):
        kept.copy_(one[-1])
    torch.cuda.synchronize()
    return Timed(_runtime.elapsed_us(_cuda.start, _cuda.stop), 0.0)


_borrower._core.round = late
