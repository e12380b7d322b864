"""Cheats: takes the line to the parent from its caller and answers in the worker's place, with times of its own."""

import json
import mmap
import os
import time

import torch

from eval.lending.layout import Layout
from reference.problems.dual_gemm import DualGemm
from tests.adversarial.honest.honest import custom_kernel
from tests.adversarial.reach import found

SLOW_S = 0.1

worker, channel = found("Worker"), found("Channel")
shape = tuple(worker._cs[0].shape)
layout = Layout(DualGemm(shape[0], shape[1], worker._data[0][0].shape[1] * 2, 1))
channel.send({"ok": ""})
while (request := json.loads(channel.receive()))["request"] != "end":
    count = request["count"]
    channel.send({"ready": None})
    _, (lent,) = channel.receive_with_descriptors(1)
    memory = torch.frombuffer(mmap.mmap(lent, count * layout.input_bytes), dtype=torch.uint8)
    os.close(lent)
    for i in range(count):
        time.sleep(SLOW_S)
        custom_kernel((*layout.input(memory, i), worker._borrower.kept[i]))
    channel.send({"done": 5.0 * count})
    channel.send({"ok": None})
os._exit(0)
