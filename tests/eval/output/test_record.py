"""The JSON record."""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path

import pytest
import torch

from eval.cases import parse_case
from eval.hardware import chip
from eval.output import outlets, record
from eval.output.origin import Library
from eval.output.record import Given
from eval.sandbox import State
from eval.supervisor import Result

SPEC = "m: 256; n: 4096; k: 7168; l: 1; seed: 1111"
CASE = parse_case(SPEC)
CPU = torch.device("cpu")
B200 = "NVIDIA B200"


def test_the_json_holds_everything_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(chip, "name", lambda device: B200)
    monkeypatch.setattr(torch, "__version__", "9.8")
    monkeypatch.setattr(record.platform, "python_version", lambda: "7.6")
    monkeypatch.setattr(record.origin, "driver", lambda device: "580.1")
    monkeypatch.setattr(record.origin, "clock_mhz", lambda device: 1980)
    submission = tmp_path / "s.py"
    submission.write_text("pass")
    first = Result(CASE, rounds_us=[10.0, 20.0, 60.0], single_us=[1.5, 2.5], inputs=50, checked=7)
    first.clock_mhz, first.printed, first.seconds, first.worst_error = 1500.0, "hello", 4.5, 0.25
    first.tolerance_us, first.doubted = 0.25, 1
    first.notes = ["one round does not count"]
    first.backend, first.sandbox, first.libraries = (
        "hopper",
        State({"part": "on"}, ["another"]),
        [Library("libx.so", "00ff")],
    )
    other = Result(parse_case("m: 3; n: 4; k: 64; l: 2; seed: 9"), rounds_us=[5.0], inputs=1, checked=2)
    found = record.run_record(
        Given("benchmark", "dual_gemm", submission, torch.device("cuda", 1), "board", 2), [first, other]
    )
    results = found.pop("results")
    assert found == {
        "mode": "benchmark",
        "problem": "dual_gemm",
        "data": "board",
        "submission": "s.py",
        "submission_sha256": hashlib.sha256(b"pass").hexdigest(),
        "device": "cuda",
        "chip": B200,
        "driver": "580.1",
        "clock_mhz": 1980,
        "backend": "hopper",
        "libraries": [{"name": "libx.so", "sha256": "00ff"}],
        "sandbox": "part (on); LACKING: another",
        "complete": True,
        "torch": "9.8",
        "python": "7.6",
        "geomean_median_us": pytest.approx(10.0),
    }
    assert results[0] == {
        "m": 256,
        "n": 4096,
        "k": 7168,
        "l": 1,
        "seed": 1111,
        "spec": SPEC,
        "passed": True,
        "error": "",
        "inputs": 50,
        "outputs_checked": 7,
        "seconds": 4.5,
        "worst_error": 0.25,
        "wrong": None,
        "rounds_us": [10.0, 20.0, 60.0],
        "median_us": 20.0,
        "mean_us": pytest.approx(30.0),
        "relative_spread": pytest.approx(25 / 2 / 20),
        "single_us": [1.5, 2.5],
        "tolerance_us": 0.25,
        "doubted_rounds": 1,
        "notes": ["one round does not count"],
        "span_us": None,
        "span_calls": 0,
        "sm_clock_mhz": 1500.0,
        "speed_of_light_us": 4.708,
        "speed_of_light_basis": "published with the task",
        "printed": "hello",
    }
    assert (results[1]["l"], results[1]["median_us"], results[1]["relative_spread"]) == (2, 5.0, 0.0)


def test_the_json_of_a_failure_has_no_times(monkeypatch):
    monkeypatch.setattr(chip, "name", lambda device: "some CPU")
    failed = Result(CASE, error="it broke", inputs=3)
    for results in ([failed], [Result(CASE, rounds_us=[1.0]), failed], [Result(CASE)]):
        found = record.run_record(Given("test", "gemm", Path("s.py"), CPU, "board", len(results)), results)
        assert found["geomean_median_us"] is None
    assert found["submission_sha256"] == "" and found["driver"] is None
    failed.worst_error, failed.wrong = math.inf, {"elements": 3}
    case = record.case_record(failed, "some CPU")
    assert (case["worst_error"], case["wrong"]) == (None, {"elements": 3})
    assert (case["passed"], case["error"]) == (False, "it broke")
    for key in ("median_us", "mean_us", "relative_spread", "speed_of_light_us", "speed_of_light_basis", "sm_clock_mhz"):
        assert case[key] is None, key


def test_a_record_of_some_of_the_cases_is_not_complete(monkeypatch):
    monkeypatch.setattr(chip, "name", lambda device: "some CPU")
    found = record.run_record(
        Given("benchmark", "gemv", Path("s.py"), CPU, "board", 2), [Result(CASE, rounds_us=[1.0])]
    )
    assert (found["complete"], found["geomean_median_us"]) == (False, None)
    assert found["results"][0]["median_us"] == 1.0


def test_a_pipe_gets_only_the_last_record_and_a_file_is_rewritten(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    file, pipe = (outlets.RecordFile(tmp_path / name) for name in ("file", "pipe"))
    for written, last in (({"long": "x" * 100}, False), ({"n": 1}, False), ({"n": 2}, True)):
        file.write(written, last)
        pipe.write(written, last)
        if not last:
            assert json.loads((tmp_path / "file").read_text()) == written
            with pytest.raises(BlockingIOError):
                os.read(reader, 1)
    assert os.read(reader, 1000).decode() == (tmp_path / "file").read_text() == '{\n  "n": 2\n}\n'
    os.close(reader)
