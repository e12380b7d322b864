"""The bring-up protocol: its choice of backend, its fallbacks, its times and its exit status."""

from __future__ import annotations

import argparse
import json
import os
from types import SimpleNamespace

import pytest

from scripts.bring_up import protocol, report
from scripts.bring_up.steps import FAILED, PASSED, SKIPPED, TIMED_OUT, Outcome


class Recorder:
    """Records the steps instead of running them; has outcomes and results by name."""

    def __init__(self):
        self.steps, self.outcomes, self.answers = [], [], {}

    def run(self, step):
        outcome, result = (SKIPPED, None) if step.skip else self.answers.get(step.name, (PASSED, None))
        self.steps.append(step)
        self.outcomes.append(Outcome(step.name, "", outcome, 0, 0.0, step.limit_s, step.skip, result))
        return self.outcomes[-1]

    def as_json(self):
        return []


@pytest.fixture
def day(tmp_path, monkeypatch):
    """A protocol whose steps are only recorded."""
    monkeypatch.setattr(protocol.os, "sched_getaffinity", lambda pid: range(16))
    names = lambda backend: [f"{backend}1", f"{backend}2"]  # noqa: E731
    monkeypatch.setattr(
        protocol, "TILES", {problem: (names, *checks) for problem, (_, *checks) in protocol.TILES.items()}
    )

    def make(capability=None, sanitizer="/cuda/compute-sanitizer", **changes):
        given = {"json": tmp_path / "report.json", "folder": tmp_path, "minutes": 5.0, "configs": "", "skip": []}
        made = protocol.Day(argparse.Namespace(**({"dry": None} | given | changes)), lambda *said: None)
        made.session = Recorder()
        device = {"capability": capability} if capability else None
        made.session.answers["environment"] = (PASSED, {"device": device, "compute_sanitizer": sanitizer})
        return made

    return make


@pytest.mark.parametrize(
    ("capability", "backend"),
    [([9, 0], "hopper"), ([10, 0], "blackwell"), ([10, 3], "blackwell"), ([12, 1], "geforce"), ([8, 9], "blackwell")],
)
def test_the_backend_is_that_of_the_card(day, capability, backend):
    made = day(capability=capability, configs=f"{backend}2,none")
    made.prepare()
    assert (made.backend, made.report["backend"]) == (backend, backend)
    assert made.report["configs"] == {"dual_gemm": [f"{backend}2"], "group_gemm": [f"{backend}2"]}


def test_the_protocol_goes_on_without_facts_about_the_machine(day):
    made = day()
    made.session.answers["environment"] = (TIMED_OUT, None)
    made.run()
    assert made.report["environment"] is None and made.backend == "blackwell"
    assert [step.skip for step in made.session.steps if step.skip] == ["no compute-sanitizer here"] * 3


def test_without_a_device_the_protocol_ends_at_its_first_step(day, command):
    made = day(capability=None)
    with pytest.raises(protocol.NoDevice, match="torch sees no CUDA device"):
        made.run()
    assert [step.name for step in made.session.steps] == ["environment"]
    rehearsed = day(capability=None, dry="blackwell")
    rehearsed.run()
    assert len(rehearsed.session.steps) > 1
    done = command(error=protocol.NoDevice("no card"))
    assert done.status == 2 and done.said.err == "bring-up: no card\n" and done.said.out == ""


@pytest.mark.parametrize(("outcome", "again"), [(FAILED, True), (TIMED_OUT, True), (PASSED, False), (SKIPPED, False)])
def test_a_failing_choice_is_tried_without_dependent_launch(day, outcome, again):
    made = day(capability=[10, 0])
    made.prepare()
    made.session.answers["check dual_gemm"] = (outcome, None)
    made.check()
    extra = [step for step in made.session.steps if step.name == "check dual_gemm without dependent launch"]
    assert len(extra) == again
    for step in extra:
        assert step.environment == {"NVFP4_BLACKWELL_DEPENDENT_LAUNCH": "0"}
        assert "--only leaderboard,back_to_back" in " ".join(step.command)


def test_times_are_medians_of_their_samples(tmp_path):
    samples = tmp_path / "samples.jsonl"
    times = [("b", 3.0004), ("a", 10.0), ("a", 12.0), ("a", 11.0), ("a", 40.0)]
    lines = [json.dumps({"variant": name, "us": us, "shape": [1, "2,3", 4]}) + "\n" for name, us in times]
    samples.write_text("".join(lines))
    second, first, third = report.times_of("time gemm", "gemm", samples, {"c": "c: wrong"})
    assert (first["variant"], first["median_us"], first["samples_us"]) == ("a", 11.5, [10.0, 12.0, 11.0, 40.0])
    assert first["spread"] == round(report.relative_spread([10.0, 12.0, 11.0, 40.0]), 5) > 0
    same = {"step": "time gemm", "problem": "gemm", "shape": "1x2,3x4", "samples_us": [], "left_out": ""}
    assert second == same | {"variant": "b", "median_us": 3.0, "spread": 0.0, "samples_us": [3.0]}
    assert third == same | {"variant": "c", "median_us": None, "spread": None, "left_out": "c: wrong", "shape": ""}
    assert report.times_of("time gemm", "gemm", tmp_path / "none", {}) == []


def measured(step, shape, **us):
    """Entries of a step of the dual GEMM."""
    same = {"step": step, "problem": "dual_gemm", "shape": shape}
    return [same | {"variant": name, "median_us": time} for name, time in us.items()]


def test_the_benchmarks_are_summed_up_in_geometric_means():
    times = [
        *measured("time dual_gemm", "1", auto=2.0, peer=4.0, half=1.0),
        *measured("time dual_gemm", "2", auto=8.0, peer=4.0),
    ]
    times += measured("tiles dual_gemm", "1", auto=99.0)
    rows = report.mean_rows(times, "hopper")
    assert rows == [
        ["dual_gemm", "auto", "2.0, 8.0", "4.00", "1.000"],
        ["dual_gemm", "half", "1.0", "1.00", "-"],
        ["dual_gemm", "peer", "4.0, 4.0", "4.00", "1.000"],
    ]
    on_board = report.mean_rows(times, "blackwell")[3:]
    assert [row[1] for row in on_board] == ["simulated before", "best published, B200"] and len(on_board[1]) == 5


def test_the_fastest_tile_stands_beside_the_librarys_choice_and_the_clocks():
    times = measured("tiles dual_gemm", "1x2x3", auto=6.0, m1=8.0, m2=5.0)
    clock = [
        {"shape": "1x2x3", "variant": name, "predicted_us": us}
        for name, us in (("auto", 1.0), ("m1", 7.0), ("m2", 9.0))
    ]
    assert report.tile_rows(times, clock) == [["dual_gemm 1x2x3", "m2 5.0, m1 8.0", "6.0", "1.200", "m1 7.0"]]
    assert report.tile_rows(times, []) == [["dual_gemm 1x2x3", "m2 5.0, m1 8.0", "6.0", "1.200", ""]]
    assert report.tile_rows(measured("tiles dual_gemm", "1x2x3", auto=6.0), []) == []


def test_samples_of_an_earlier_day_are_not_taken(day, tmp_path):
    made = day(dry="cpu")
    (tmp_path / "time-gemv.jsonl").write_text('{"variant": "auto", "us": 1.0, "shape": [1]}\n')
    made.session.answers["time gemv"] = (PASSED, {"left_out": {"auto": "gone"}})
    made.time("time", "gemv", "auto", "copy")
    assert [(entry["variant"], entry["left_out"]) for entry in made.report["times"]] == [("auto", "gone")]


@pytest.fixture
def command(monkeypatch, tmp_path, capsys):
    """Runs the command line with a protocol that does nothing; returns its options, output and exit status."""

    def run(*words, outcomes=(), problems=(), error=None):
        seen = {}

        class Nothing:
            def __init__(self, options, announce):
                seen.update(options=options, environment=dict(os.environ), ran=False)
                self.report = {}
                self.session = SimpleNamespace(
                    outcomes=[SimpleNamespace(outcome=found, name="x") for found in outcomes]
                )

            def run(self):
                seen["ran"] = True
                if error:
                    raise error

        monkeypatch.setattr(protocol, "Day", Nothing)
        monkeypatch.setattr(protocol, "print_report", lambda report: print("the report"))
        monkeypatch.setattr(protocol, "schema_problems", lambda report: problems)
        seen["status"] = protocol.main(["--json", str(tmp_path / "new" / "report.json"), *words])
        return SimpleNamespace(**seen, said=capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("outcomes", "problems", "status"),
    [
        ((PASSED, SKIPPED), [], 0),
        ((PASSED, FAILED), [], 1),
        ((TIMED_OUT,), [], 0),
        ((PASSED,), ["steps: missing"], 1),
        ((PASSED,), None, 0),
    ],
)
def test_the_exit_status_says_whether_a_step_failed(command, tmp_path, outcomes, problems, status):
    done = command(outcomes=outcomes, problems=problems)
    assert done.status == status and done.ran and "the report\n" in done.said.out
    assert f"send back {tmp_path / 'new' / 'report.json'}\n" in done.said.out
    assert [line for line in done.said.out.splitlines() if line.endswith(": x")] == [
        f"{outcome}: x" for outcome in (FAILED, TIMED_OUT) if outcome in outcomes
    ]
    assert ("jsonschema is not installed" in done.said.out) == (problems is None)
    wanted = "the report breaks shark_tank/bring_up.schema.json: steps: missing"
    assert (wanted in done.said.err) == bool(problems)


def test_the_librarys_own_choices_are_reported(command, monkeypatch):
    for name in ("NVFP4_BACKEND", "NVFP4_HOPPER_CONFIG", "NVFP4_LIBRARY", "OTHER_NVFP4_"):
        monkeypatch.setenv(name, "x")
    kept = {name for name in command().environment if "NVFP4_" in name}
    assert {"NVFP4_LIBRARY", "OTHER_NVFP4_"} <= kept and not kept & {"NVFP4_BACKEND", "NVFP4_HOPPER_CONFIG"}
