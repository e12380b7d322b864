"""The comparison of two harnesses: order of runs, output, and failure."""

from __future__ import annotations

import json
import runpy
import sys

import pytest

from scripts.bench import harness_ratio

SHAPES = ((256, 4096, 7168), (512, 4096, 7168))


@pytest.fixture
def compared(monkeypatch, tmp_path, capsys):
    """Runs the program with harnesses that report these times in us; new over old is `ratio`."""

    def compare(ratio: float, *arguments: str, fails: bool = False):
        ran = []

        def run(checkout, cases, submission, device):
            ran.append((checkout.name, submission.name, device))
            if fails:
                raise RuntimeError("checkout, submission: exit code 1")
            us = 10.0 * (ratio if checkout == harness_ratio.ROOT else 1.0)
            lines = cases.read_text().splitlines()
            result = {
                "rounds_us": [us],
                "median_us": us,
                "single_us": [us + 1],
                "tolerance_us": 0.1,
                "doubted_rounds": 1,
            }
            return {"results": [dict(zip("mnk", shape, strict=True)) | result for shape in SHAPES[: len(lines)]]}

        (tmp_path / "old").mkdir(exist_ok=True)
        monkeypatch.setattr(harness_ratio, "run", run)
        monkeypatch.setattr(sys, "argv", ["harness_ratio", str(tmp_path / "old"), *arguments])
        return harness_ratio.main(), ran, capsys.readouterr().out

    return compare


def test_harnesses_take_turns_and_their_ratio_is_printed_and_written(compared, tmp_path):
    status, ran, said = compared(1.004, "--json", str(tmp_path / "runs.json"), "--device", "cpu", "--shapes", "1")
    new = harness_ratio.ROOT.name
    names = [path.name for path in harness_ratio.SUBMISSIONS.values()]
    assert ran == [(who, name, "cpu") for order in (("old", new), (new, "old")) for name in names for who in order]
    assert status == 0 and "256 4096 7168" in said and "512 4096 7168" not in said and "1.0040" in said
    written = json.loads((tmp_path / "runs.json").read_text())
    assert [one["harness"] for one in written] == ["old", "new", "old", "new", "new", "old", "new", "old"]
    assert {one["median_us"] for one in written} == {10.0, 10.04}


def test_a_failed_run_or_a_ratio_outside_the_range_is_a_failure(compared):
    assert [compared(ratio)[0] for ratio in (0.98, 0.995, 1.005, 1.02)] == [1, 0, 0, 1]
    status, ran, said = compared(1.0, fails=True)
    assert status == 1 and len(ran) == 1 and "exit code 1" in said


def test_it_is_a_program(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["harness_ratio", "--help"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(harness_ratio.__file__, run_name="__main__")
    assert "OLD is a checkout of an older commit" in capsys.readouterr().out
