"""The bring-up protocol without a GPU: the whole run on the CPU backend; steps that fail, hang or are interrupted."""

from __future__ import annotations

import argparse
import json
import sys

import jsonschema
import pytest

from scripts.bring_up import protocol, steps
from scripts.bring_up.steps import FAILED, PASSED, SKIPPED, TIMED_OUT, Session, Step
from tests.waiting import alive, until

SCHEMA = json.loads(protocol.SCHEMA.read_text())


def python(text):
    return (sys.executable, "-c", text)


def until_it_started(running, name, command):
    """A step that hangs, with the least limit in which it has printed something: a busy machine starts it late."""
    for limit_s in (0.5, 4.0, 32.0):
        outcome = running.run(Step(name, command, limit_s))
        if outcome.log_tail:
            break
    return outcome


def session(folder, seconds=600.0):
    return Session(folder, seconds, lambda: None, lambda name: None)


def options(folder, **changes):
    given = {"json": folder / "report.json", "folder": folder, "minutes": 5.0, "configs": "", "skip": [], "dry": None}
    return argparse.Namespace(**given | changes)


def test_a_failing_and_a_hanging_step_are_recorded_and_the_next_one_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "TERMINATE_S", 0.3)
    running = session(tmp_path)
    hang = (  # ignores SIGTERM, and its child would outlive it
        "import signal, subprocess, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print(subprocess.Popen(['sleep', '1000']).pid, flush=True)\n"
        "time.sleep(1000)\n"
    )
    outcomes = [
        running.run(Step("breaks", python("import sys; print('the reason'); sys.exit(3)"), 100)),
        until_it_started(running, "hangs", python(hang)),
        running.run(Step("is missing", ("/no/such/program",), 100)),
        running.run(Step("dies", python("import os; os.abort()"), 100)),
        running.run(Step("works", python("print('fine')"), 100)),
    ]
    assert [found.outcome for found in outcomes] == [FAILED, TIMED_OUT, FAILED, FAILED, PASSED]
    assert (outcomes[0].exit_status, outcomes[0].log_tail) == (3, "the reason\n")
    assert outcomes[1].exit_status is None
    child = int(outcomes[1].log_tail)
    assert "FileNotFoundError" in outcomes[2].log_tail
    assert outcomes[3].exit_status == -6
    assert until(lambda: not alive(child))


def test_a_failed_steps_json_is_kept_but_never_an_earlier_steps(tmp_path):
    path = tmp_path / "result.json"
    path.write_text('"stale"')
    running = session(tmp_path)
    assert running.run(Step("writes none", python("pass"), 20, result=path)).result is None
    write = f"open({str(path)!r}, 'w').write('[1, 2]'); raise SystemExit(1)"
    outcome = running.run(Step("writes and fails", python(write), 20, result=path))
    assert (outcome.outcome, outcome.result) == (FAILED, [1, 2])
    broken = f"open({str(path)!r}, 'w').write('[1, ')"
    assert running.run(Step("writes half", python(broken), 20, result=path)).result is None


def test_a_step_that_does_not_fit_into_the_time_is_skipped_and_reported(tmp_path):
    running = session(tmp_path, seconds=1.0)
    outcome = running.run(Step("late", python("pass"), 20))
    assert (outcome.outcome, outcome.log_tail) == (SKIPPED, "no time left")


def test_a_configuration_whose_check_hangs_is_not_timed(tmp_path, monkeypatch):
    day = protocol.Day(options(tmp_path), lambda name: None)
    commands = {}

    def step(name, kind, *command, skip="", result=False, **environment):
        commands[name] = command
        hung = (TIMED_OUT, None)
        kinds = {"check m256n64": hung, "check every configuration": hung, "check auto": (FAILED, {"checks": []})}
        state, found = kinds.get(name, (PASSED, {"checks": [{"check": "edges", "passed": 2, "failures": ["x"]}]}))
        done = day.session.run(Step(name, python("pass"), 20))
        done.outcome, done.result = state, found
        return done

    monkeypatch.setattr(day, "step", step)
    day.report["configs"] = ["m256n64", "m128n64"]
    good = day.check()
    assert good == ["m128n64"]
    assert "check auto without dependent launch" in commands  # runs because auto failed
    day.time(good)
    variants = commands["time 256x4096x7168"][commands["time 256x4096x7168"].index("--variants") + 1]
    assert variants == "auto,auto+again,auto+plain,m128n64"
    assert [check["outcome"] for check in day.report["checks"]] == [FAILED, PASSED, TIMED_OUT, TIMED_OUT, PASSED]
    assert day.report["checks"][-1]["failures"] == ["edges: x"]
    day.save()
    jsonschema.validate(json.loads((tmp_path / "report.json").read_text()), SCHEMA)


def test_configurations_that_pass_together_are_not_checked_one_by_one(tmp_path, monkeypatch):
    day = protocol.Day(options(tmp_path), lambda name: None)
    names = []

    def step(name, kind, *command, **others):
        names.append(name)
        return day.session.run(Step(name, python("pass"), 20))

    monkeypatch.setattr(day, "step", step)
    day.report["configs"] = ["m256n64", "m128n64"]
    assert day.check() == ["m256n64", "m128n64"]
    assert names == ["check auto", "check every configuration"]


def test_times_are_set_against_the_cost_model_s_intervals(tmp_path, monkeypatch):
    costs = {
        "predictions": {"blackwell": {"1x2x3": {"us": 10.0, "low_us": 9.0, "high_us": 11.0, "tiles_us": {"t64": 20.0}}}}
    }
    monkeypatch.setattr(protocol, "COST_MODEL", tmp_path / "cost_model.json")
    protocol.COST_MODEL.write_text(json.dumps(costs))
    times = [
        {"shape": "1x2x3", "variant": "auto", "median_us": 12.5},
        {"shape": "1x2x3", "variant": "auto+again", "median_us": 10.0},
        {"shape": "1x2x3", "variant": "t64", "median_us": 21.0},
        {"shape": "4x5x6", "variant": "auto", "median_us": 1.0},
    ]
    rows = protocol.against_cost_model(times, "blackwell")
    assert [(row["variant"], row["predicted_us"], row["inside"]) for row in rows] == [
        ("auto", 10.0, False),
        ("t64", 20.0, True),
    ]
    assert [row["measured_over_predicted"] for row in rows] == [1.25, 1.05] and rows[1]["high_us"] == 22.0
    assert protocol.against_cost_model(times, "hopper") == []
    costs["predictions"]["blackwell"]["1x2x3"] |= {"low_us": 9.1234, "high_us": 11.2345}
    protocol.COST_MODEL.write_text(json.dumps(costs))
    found = protocol.against_cost_model([*times, times[0] | {"median_us": None}], "blackwell")
    assert [(row["low_us"], row["high_us"]) for row in found] == [(9.123, 11.235), (18.247, 22.469)]
    protocol.COST_MODEL.unlink()
    assert protocol.against_cost_model(times, "blackwell") == []


def test_a_dry_run_of_the_protocol_gives_a_report_that_fits_the_schema(tmp_path, library_path, capsys, monkeypatch):
    monkeypatch.setenv("NVFP4_LIBRARY", str(library_path))
    # A busy machine takes minutes for steps that take seconds next to a card.
    monkeypatch.setattr(protocol, "LIMITS", dict.fromkeys(protocol.LIMITS, 500))
    path = tmp_path / "report.json"
    words = ["--dry", "cpu", "--skip", "build,eval benchmark", "--json", str(path), "--folder", str(tmp_path / "logs")]
    assert protocol.main(words) == 0, (capsys.readouterr().out, path.read_text())
    report = json.loads(path.read_text())
    jsonschema.validate(report, SCHEMA)
    outcomes = {step["name"]: step["outcome"] for step in report["steps"]}
    assert {outcomes[name] for name in ("build", "eval benchmark", "sanitizer memcheck")} == {SKIPPED}
    assert {outcomes[name] for name in ("environment", "library", "check auto", "eval test")} == {PASSED}
    assert report["checks"][0]["passed"] == 16
    assert {entry["variant"] for entry in report["times"]} == {"auto", "auto+again", "cublas_one_gemm"}
    assert all(len(entry["samples_us"]) == 3 for entry in report["times"])
    assert "dry run" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["steps", "times", "environment"])
def test_the_schema_refuses_a_report_that_lost_a_part(place, tmp_path):
    day = protocol.Day(options(tmp_path, dry="cpu"), lambda name: None)
    day.session.run(Step("one", python("pass"), 20))
    report = json.loads((tmp_path / "report.json").read_text())
    assert protocol.schema_problems(report) == []
    del report[place]
    assert protocol.schema_problems(report) != []
