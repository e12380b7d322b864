"""Chooses the device for a submission when --device is not given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

from eval.output.outlets import whisper
from reference.device import default_device
from reference.problems import PROBLEMS

ROOT = Path(__file__).resolve().parents[2]
OWN_SUBMISSIONS = {ROOT / problem.submission for problem in PROBLEMS.values()}
# Runs in a separate process, because the harness's process loads no submission.
BACKENDS = """
import importlib, sys
for backend in importlib.import_module(sys.argv[1]).backends():
    print(backend.name, int(backend.available), backend.detail, sep="\\t")
"""
LIMIT_S = 120


def backends(submission: Path) -> list[tuple[str, bool, str]]:
    """Each backend of the package's library: its name, whether it can run this submission here, and on what or why not.

    Empty if the library cannot be asked.
    """
    module = ".".join(submission.resolve().relative_to(ROOT).with_suffix("").parts)
    done = subprocess.run(
        [sys.executable, "-c", BACKENDS, module], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode != 0:
        return []  # judging the submission reports the error
    lines = [line.split("\t", 2) for line in done.stdout.splitlines()]
    return [(name, available == "1", detail) for name, available, detail in lines]


def why_no_gpu(submission: Path) -> str:
    """For each GPU backend of the package's library a line that says why it cannot run here; "" if one can."""
    gpu = [backend for backend in backends(submission) if backend[0] != "cpu"]
    return "" if any(runs for _, runs, _ in gpu) else "\n".join(f"  {name}: {detail}" for name, _, detail in gpu)


def why_not_the_backend(submission: Path) -> str:
    """Why the package's own submission cannot use the backend of NVFP4_BACKEND; "" if it can or none is named."""
    asked = os.environ.get("NVFP4_BACKEND") or "auto"
    if asked == "auto" or os.environ.get("NVFP4_SIMULATE") == "1" or submission.resolve() not in OWN_SUBMISSIONS:
        return ""
    found = {name: (runs, detail) for name, runs, detail in backends(submission)}
    if not found:
        return ""
    if asked not in found:
        return f"NVFP4_BACKEND is '{asked}'; expected auto or one of {', '.join(found)}"
    runs, detail = found[asked]
    return "" if runs else f"NVFP4_BACKEND is '{asked}', which cannot run here: {detail}"


def device_for(submission: Path) -> torch.device:
    """CUDA's device if there is one, else the CPU; for the package's own submission a device that its library supports.

    If no backend can use the GPU, the CPU is used and standard error says so.
    """
    device = default_device()
    if device.type == "cpu" or submission.resolve() not in OWN_SUBMISSIONS:
        return device
    asked = os.environ.get("NVFP4_BACKEND") or "auto"
    if asked == "cpu" or os.environ.get("NVFP4_SIMULATE") == "1":
        return torch.device("cpu")  # these backends take tensors in host memory
    if asked != "auto" or not (reasons := why_no_gpu(submission)):
        return device
    whisper(
        f"nvfp4 eval: NO BACKEND RUNS ON THIS GPU ({torch.cuda.get_device_name()}), so the CPU is used\n{reasons}\n"
        "  `--device cpu` uses the CPU without this message; `--device cuda` tries the GPU anyway"
    )
    return torch.device("cpu")
