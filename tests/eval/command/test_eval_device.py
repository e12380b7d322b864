"""Which device is judged where --device does not say: a GPU that no backend of the library can use is not."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from eval import command
from eval.hardware import device
from eval.hardware.device import OWN_SUBMISSIONS, device_for
from eval.workers import worker

(OWN, *_) = sorted(OWN_SUBMISSIONS, reverse=True)


@pytest.fixture
def with_a_gpu(monkeypatch):
    """A machine with an RTX 5090, and `says(text)`: what the library's GPU backends say of it."""
    for name in ("NVFP4_BACKEND", "NVFP4_SIMULATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(device, "default_device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA GeForce RTX 5090")
    return lambda text: monkeypatch.setattr(device, "why_no_gpu", lambda submission: text)


def test_a_gpu_that_no_backend_can_use_gives_the_cpu_and_one_loud_line(with_a_gpu, capsys):
    with_a_gpu("  hopper: it needs 9.0 (H100, H200)")
    assert device_for(OWN).type == "cpu"
    said = capsys.readouterr().err
    assert "NVIDIA GeForce RTX 5090" in said
    assert "hopper: it needs 9.0 (H100, H200)" in said and "--device cpu" in said


def test_a_gpu_that_a_backend_can_use_is_taken(with_a_gpu, capsys):
    with_a_gpu("")
    assert device_for(OWN).type == "cuda" and capsys.readouterr().err == ""


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
    assert device_for(OWN).type == kind


@pytest.fixture(scope="module")
def found():
    """The library's backends, asked for in a separate process."""
    return device.backends(OWN)


def test_the_library_is_asked_in_a_process_of_its_own(found, monkeypatch):
    assert [name for name, _, _ in found] == ["blackwell", "geforce", "hopper", "cpu"]
    assert found[-1][1] and "threads" in found[-1][2]
    monkeypatch.setattr(
        device, "backends", lambda submission: [("blackwell", False, "old"), ("hopper", False, "none"), *found[3:]]
    )
    assert device.why_no_gpu(OWN) == "  blackwell: old\n  hopper: none"
    monkeypatch.setattr(
        device, "backends", lambda submission: [("blackwell", False, "old"), ("hopper", True, "fits"), *found[3:]]
    )
    assert device.why_no_gpu(OWN) == ""
    monkeypatch.setattr(device, "backends", lambda submission: [])
    assert device.why_no_gpu(OWN) == ""


def test_a_library_that_fails_or_hangs_tells_no_backend(monkeypatch):
    asked = []

    def run(command, **given):
        asked.append((command[0] == sys.executable, command[1:], given))
        return SimpleNamespace(returncode=int(len(asked) > 1), stdout="hopper\t0\tnone\tat all\ncpu\t1\tsome threads\n")

    monkeypatch.setattr(device.subprocess, "run", run)
    assert device.backends(OWN) == [("hopper", False, "none\tat all"), ("cpu", True, "some threads")]
    assert device.backends(OWN) == []
    given = {"cwd": device.ROOT, "capture_output": True, "text": True, "timeout": 120, "check": False}
    assert asked == [(True, ["-c", device.BACKENDS, "submission.submission"], given)] * 2


@pytest.mark.parametrize(
    ("asked", "own", "reason"),
    [
        ("foo", True, "NVFP4_BACKEND is 'foo'; expected auto or one of hopper, cpu"),
        ("hopper", True, "NVFP4_BACKEND is 'hopper', which cannot run here: no CUDA device"),
        ("cpu", True, ""),
        ("auto", True, ""),
        ("", True, ""),
        ("foo", False, ""),
    ],
)
def test_a_backend_that_cannot_run_is_told_before_any_case(monkeypatch, tmp_path, capsys, asked, own, reason):
    monkeypatch.setattr(
        device, "backends", lambda submission: [("hopper", False, "no CUDA device"), ("cpu", True, "AVX2")]
    )
    monkeypatch.setenv("NVFP4_BACKEND", asked)
    monkeypatch.delenv("NVFP4_SIMULATE", raising=False)
    monkeypatch.delenv("POPCORN_FD", raising=False)
    anothers = tmp_path / "submission.py"
    anothers.write_text("")
    assert device.why_not_the_backend(OWN if own else anothers) == reason
    if reason:
        assert command.main(["test"]) == 2
        said = capsys.readouterr()
        assert said.err == f"nvfp4 eval: {reason}\n" and said.out == ""
        monkeypatch.setenv("NVFP4_SIMULATE", "1")
        assert device.why_not_the_backend(OWN) == "", "the simulator's library has others"


@pytest.mark.parametrize(
    ("asked", "kind", "named"),
    [
        ("auto", "cpu", "cpu (AVX2)"),
        ("auto", "cuda", "hopper"),
        ("cpu", "cuda", "cpu (AVX2)"),
        ("blackwell", "cuda", ""),
        ("foo", "cpu", ""),
    ],
)
def test_a_backend_is_named_if_it_can_run(monkeypatch, asked, kind, named):
    monkeypatch.setenv("NVFP4_BACKEND", asked)
    found = (("blackwell", False, "needs 10.0"), ("hopper", True, ""), ("cpu", True, "AVX2"))
    words = ("name", "available", "detail")
    module = SimpleNamespace(backends=lambda: [SimpleNamespace(**dict(zip(words, one, strict=True))) for one in found])
    assert worker._backend(module, torch.device(kind)) == named


def test_a_python_without_torch_is_told_of_one_that_has_it(root, tmp_path):
    done = subprocess.run(
        [sys.executable, "-S", root / "eval" / "eval.py", "test"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "no torch" in done.stderr and "./nvfp4 eval" in done.stderr
