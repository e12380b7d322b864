"""A round without processes: both ends of the line in one."""

from __future__ import annotations

import json

import torch

from eval.lending.host import HostLender
from eval.lending.layout import Layout
from eval.workers import channel
from eval.workers.worker import Setup, Worker
from reference.problems.interface import BOARD

CPU = torch.device("cpu")
INPUTS = 3


class Pair:
    """A lender and a worker whose submission is `kernel`. A round's word is sent before the worker waits for it."""

    def __init__(self, kernel, shape):
        self.shape, self.layout = shape, Layout(shape)
        mine, theirs = channel.pair()
        self.parent, self.line = channel.Channel(mine), channel.Channel(theirs)
        self.lender = HostLender(self.layout, INPUTS)
        terms, descriptors = self.lender.terms()
        self.parent.send({"count": INPUTS, **terms}, descriptors)
        self.worker = Worker(Setup("", shape, "cpu"), self.line)
        self.worker._kernel = kernel

    def round(self, *seeds):
        """One round over inputs of these seeds; the outputs as they were taken."""
        self.staged = self.lender.stage(self.shape.generate(seed, BOARD, CPU) for seed in seeds)
        self.lender.begin(self.parent)
        self.worker.round(len(seeds))
        self.said = [json.loads(self.parent.receive()) for _ in range(2)]
        return self.lender.take(len(seeds))
