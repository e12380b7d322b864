"""Cheats: knows the harness's clock and moves it by reaching into the timer's frame."""

import sys

from honest import custom_kernel as honest_kernel


def custom_kernel(data):
    output = honest_kernel(data)
    worker = sys.modules["eval.worker"]
    real = worker.now_ns
    worker.now_ns = lambda: (setattr(worker, "now_ns", real), real() - 10**9)[1]
    return output
