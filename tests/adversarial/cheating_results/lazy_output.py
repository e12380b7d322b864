"""Cheats: returns a tensor subclass that would compute when somebody looks."""

import torch

from tests.adversarial.honest.honest import custom_kernel as honest_kernel


class Lazy(torch.Tensor):
    pass


def custom_kernel(data):
    return honest_kernel(data).as_subclass(Lazy)
