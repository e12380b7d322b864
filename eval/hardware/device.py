"""Which device a submission is judged on where --device does not say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

from reference.reference import default_device

OWN_SUBMISSION = Path(__file__).resolve().parents[2] / "submission" / "submission.py"
# In a process of its own, because the harness's loads no submission.  A line a GPU backend that cannot run.
WHY_NO_GPU = """
from submission import backends
gpu = [backend for backend in backends() if backend.name != "cpu"]
if not any(backend.available for backend in gpu):
    print(*(f"  {backend.name}: {backend.detail}" for backend in gpu), sep="\\n")
"""
LIMIT_S = 120


def why_no_gpu() -> str:
    """A line for each GPU backend of the package's library with why it cannot run here; "" if one can, or none asks."""
    done = subprocess.run(
        [sys.executable, "-c", WHY_NO_GPU],
        cwd=OWN_SUBMISSION.parent.parent,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.stdout.rstrip() if done.returncode == 0 else ""  # what is wrong then, the tests tell


def device_for(submission: Path) -> torch.device:
    """CUDA's where there is one, else the CPU; for the package's own submission one that its library can run on.

    Where a GPU is there that no backend can use, the CPU is taken and standard error says so.
    """
    device = default_device()
    if device.type == "cpu" or submission.resolve() != OWN_SUBMISSION:
        return device
    asked = os.environ.get("NVFP4_BACKEND") or "auto"
    if asked == "cpu" or os.environ.get("NVFP4_SIMULATE") == "1":
        return torch.device("cpu")  # backends that take tensors in host memory
    if asked != "auto" or not (reasons := why_no_gpu()):
        return device
    print(
        f"eval.py: NO BACKEND RUNS ON THIS GPU ({torch.cuda.get_device_name()}), so the CPU is judged\n{reasons}\n"
        "  `--device cpu` takes the CPU without this; `--device cuda` tries the GPU all the same",
        file=sys.stderr,
    )
    return torch.device("cpu")
