"""Cheats: replaces a function of the worker that looks at outputs."""

from honest import custom_kernel as honest_kernel

import eval.worker


def custom_kernel(data):
    eval.worker.output_problem = lambda *everything: None
    return honest_kernel(data)
