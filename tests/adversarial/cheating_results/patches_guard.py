"""Cheats: replaces a function of the worker that looks at outputs."""

import eval.workers.worker
from tests.adversarial.honest.honest import custom_kernel as honest_kernel


def custom_kernel(data):
    eval.workers.worker.output_problem = lambda *everything: None
    return honest_kernel(data)
