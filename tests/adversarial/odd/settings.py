"""Right, and odd in all that is its own affair: other defaults, a long log, a slow import, its own print, gradients."""

import builtins
import sys
import time

import torch

from tests.adversarial.honest.honest import custom_kernel as honest_kernel

assert __name__ == "submission"
time.sleep(2)
for _ in range(23):
    sys.stderr.write("ptxas info    : 0 bytes gmem\n" * 3500)  # 2.3 MB of a compiler's log
builtins.print = lambda *words, **options: None
torch.set_default_dtype(torch.float16)
torch.manual_seed(1)
torch.set_grad_enabled(True)
sys.setrecursionlimit(5000)


def custom_kernel(data):
    torch.set_default_dtype(torch.float32)
    output = honest_kernel(data).clone(memory_format=torch.preserve_format).requires_grad_()
    torch.set_default_dtype(torch.float64)
    print("done")
    return output
