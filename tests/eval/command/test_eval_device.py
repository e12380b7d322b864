"""Which device is judged where --device does not say: a GPU that no backend of the library can use is not."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from eval.hardware import device
from eval.hardware.device import OWN_SUBMISSION, device_for


@pytest.fixture
def with_a_gpu(monkeypatch):
    """A machine with an RTX 5090, and `says(text)`: what the library's GPU backends say of it."""
    for name in ("NVFP4_BACKEND", "NVFP4_SIMULATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(device, "default_device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA GeForce RTX 5090")
    return lambda text: monkeypatch.setattr(device, "why_no_gpu", lambda: text)


def test_a_gpu_that_no_backend_can_use_gives_the_cpu_and_one_loud_line(with_a_gpu, capsys):
    with_a_gpu("  hopper: it needs 9.0 (H100, H200)")
    assert device_for(OWN_SUBMISSION).type == "cpu"
    said = capsys.readouterr().err
    assert said.startswith("eval.py: NO BACKEND RUNS ON THIS GPU (NVIDIA GeForce RTX 5090), so the CPU is judged\n")
    assert "hopper: it needs 9.0 (H100, H200)" in said and "--device cpu" in said


def test_a_gpu_that_a_backend_can_use_is_taken(with_a_gpu, capsys):
    with_a_gpu("")
    assert device_for(OWN_SUBMISSION).type == "cuda" and capsys.readouterr().err == ""


def test_anothers_submission_runs_on_any_gpu(with_a_gpu, tmp_path):
    with_a_gpu("  hopper: it needs 9.0 (H100, H200)")
    assert device_for(tmp_path / "submission.py").type == "cuda"


@pytest.mark.parametrize(
    ("variable", "value", "kind"),
    [("NVFP4_BACKEND", "cpu", "cpu"), ("NVFP4_BACKEND", "hopper", "cuda"), ("NVFP4_SIMULATE", "1", "cpu")],
)
def test_a_backend_that_was_asked_for_decides(with_a_gpu, monkeypatch, variable, value, kind):
    with_a_gpu("  blackwell: not built")
    monkeypatch.setenv(variable, value)
    assert device_for(OWN_SUBMISSION).type == kind


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_the_library_is_asked_in_a_process_of_its_own():
    lines = device.why_no_gpu().splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ["blackwell", "hopper"]


def test_a_python_without_torch_is_told_of_one_that_has_it(root, tmp_path):
    done = subprocess.run(
        [sys.executable, "-S", root / "eval" / "eval.py", "test"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "has no torch; `./nvfp4 eval MODE` takes a Python that has it" in done.stderr
