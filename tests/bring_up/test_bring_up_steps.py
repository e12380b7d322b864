"""The bring-up's steps as processes, and its facts about the machine."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from scripts.bring_up import environment, steps
from scripts.bring_up.steps import FAILED, SKIPPED, TIMED_OUT, Session, Step


def python(text):
    return (sys.executable, "-c", text)


def test_a_step_gets_the_lesser_of_its_limit_and_what_is_left(tmp_path, monkeypatch):
    limits = []
    done = steps.Outcome("", "", steps.PASSED, 0, 0.0, 1.0, "")
    monkeypatch.setattr(steps, "run_step", lambda step, log, limit: limits.append((limit, log.name)) or done)
    session = Session(tmp_path, 100.0, lambda: None, lambda *said: None)
    session.run(Step("check a+b, C", (), 20.0))
    session.run(Step("x", (), 500.0))
    assert limits[0] == (20.0, "01-check-a-b-c.log")
    assert 90 < limits[1][0] <= 100 and limits[1][1] == "02-x.log"
    session._end = steps.time.monotonic() + 4.9
    assert session.run(Step("y", (), 1.0)).log_tail == "no time left"
    session._end = steps.time.monotonic() + 8.0
    session.run(Step("z", (), 1.0))
    assert limits[2] == (1.0, "04-z.log")


def test_an_interrupt_ends_the_steps_but_not_the_day(tmp_path, monkeypatch):
    def interrupted(step, log, limit):
        raise KeyboardInterrupt

    session = Session(tmp_path, 100.0, lambda: None, lambda *said: None)
    monkeypatch.setattr(steps, "run_step", interrupted)
    found = [session.run(Step(name, (), 20.0)) for name in "ab"]
    assert [(step.outcome, step.log_tail) for step in found] == [(FAILED, "interrupted"), (SKIPPED, "interrupted")]


def test_a_step_has_its_environment_the_checkout_and_no_input(tmp_path):
    text = "import os, sys; print(os.environ['A'], os.getcwd(), repr(sys.stdin.read()), file=sys.stderr)"
    outcome = steps.run_step(Step("x", python(text), 20.0, {"A": "1"}), tmp_path / "log", 59.96)
    assert outcome.log_tail == f"1 {steps.ROOT} ''\n" and (tmp_path / "log").read_text() == outcome.log_tail
    assert outcome.limit_s == 60.0 and outcome.exit_status == 0 and 0 < outcome.seconds < 60
    long = steps.run_step(Step("y", python("print('x' * 5000, end='y')"), 20.0), tmp_path / "log", 60.0)
    assert long.log_tail == "x" * 3999 + "y"


def test_a_process_is_asked_before_it_is_ended(tmp_path):
    polite = (
        "import signal, sys, time\n"
        "def end(*_):\n    print('written', flush=True)\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    for limit_s in (0.5, 4.0, 32.0):  # a busy machine starts it late
        outcome = steps.run_step(Step("x", python(polite), 20.0), tmp_path / "log", limit_s)
        if "ready" in outcome.log_tail:
            break
    assert (outcome.outcome, outcome.log_tail) == (TIMED_OUT, "ready\nwritten\n")


# --- the machine -----------------------------------------------------------------------------------------------


def test_an_answer_is_what_a_command_prints_or_nothing():
    assert environment.answer("sh", "-c", "echo ' a'; pwd; echo b >&2") == f"a\n{environment.ROOT}"
    assert environment.answer("sh", "-c", "echo a; exit 1") is None
    assert environment.answer("/no/such/program") is None


def test_a_tool_is_looked_for_in_path_and_beside_nvcc(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert environment.tool("a-tool", None) is None
    for place in ("nvcc", "path"):  # the last one is searched first
        tool = tmp_path / place / "a-tool"
        tool.parent.mkdir()
        tool.write_text("")
        tool.chmod(0o755)
        assert environment.tool("a-tool", str(tmp_path / "nvcc" / "nvcc")) == str(tool)


def test_the_device_is_torchs_first(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
    assert environment.devices() == versions | {"device": None, "reason": "torch sees no CUDA device"}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    card = SimpleNamespace(name="N", major=9, minor=1, multi_processor_count=132, total_memory=5, L2_cache_size=6)
    monkeypatch.setattr(torch.cuda, "get_device_properties", {0: card}.__getitem__)
    device = {"name": "N", "capability": [9, 1], "sms": 132, "memory_bytes": 5, "l2_bytes": 6}
    assert environment.devices() == versions | {"device": device}
    monkeypatch.setitem(sys.modules, "torch", None)
    found = environment.devices()
    assert found["torch"] is None and found["device"] is None and "torch" in found["reason"]


@pytest.mark.parametrize(
    ("words", "device", "status"),
    [
        (("machine",), None, 1),
        (("machine",), {"name": "x"}, 0),
        (("machine", "--without-device"), None, 0),
        (("library",), None, 0),
    ],
)
def test_its_exit_status_says_whether_anything_can_be_measured(monkeypatch, tmp_path, capsys, words, device, status):
    reason = {} if device or words == ("library",) else {"reason": "no card"}
    monkeypatch.setattr(environment, "machine", lambda: {"device": device, **reason})
    monkeypatch.setattr(environment, "library", lambda: {"backends": []})
    what, *rest = words
    assert environment.main([what, str(tmp_path / "x.json"), *rest]) == status
    written = json.loads((tmp_path / "x.json").read_text())
    assert written == ({"device": device, **reason} if what == "machine" else {"backends": []})
    said = capsys.readouterr()
    assert json.loads(said.out) == written and said.err == ("no card\n" if reason else "")
