"""The bring-up protocol without a GPU: the whole run on the CPU backend; steps that fail, hang or are interrupted."""

from __future__ import annotations

import argparse
import json
import sys

import jsonschema
import pytest

from eval.cases import parse_case
from reference.problems import PROBLEMS
from scripts.bring_up import protocol, report, steps
from scripts.bring_up.steps import FAILED, PASSED, SKIPPED, TIMED_OUT, Session, Step
from tests.waiting import alive, until

SCHEMA = json.loads(report.SCHEMA.read_text())


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
    return Session(folder, seconds, lambda: None, lambda *said: None)


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


def test_a_tile_whose_check_hangs_is_not_timed(tmp_path, monkeypatch):
    day = protocol.Day(options(tmp_path), lambda *said: None)
    commands = {}

    def step(name, kind, *command, skip="", result=False, **environment):
        commands[name] = command
        hung = (TIMED_OUT, None)
        kinds = {"check m256n64": hung, "check tiles of dual_gemm": hung, "check dual_gemm": (FAILED, {"checks": []})}
        state, found = kinds.get(name, (PASSED, {"checks": [{"check": "edges", "passed": 2, "failures": ["x"]}]}))
        done = day.session.run(Step(name, python("pass"), 20))
        done.outcome, done.result = state, found
        return done

    monkeypatch.setattr(day, "step", step)
    monkeypatch.setattr(day, "prepare", lambda: None)
    day.report["configs"] = {"dual_gemm": ["m256n64", "m128n64"], "group_gemm": ["g1"]}
    day.run()
    assert "check dual_gemm without dependent launch" in commands  # runs because the first one failed
    variants = [commands[f"tiles {name}"][commands[f"tiles {name}"].index("--variants") + 1] for name in protocol.TILES]
    assert variants == ["auto,m128n64", "auto,g1"]
    outcomes = {check["step"]: (check["outcome"], check["failures"]) for check in day.report["checks"]}
    assert [outcomes[f"check {tile}"] for tile in ("m256n64", "m128n64")] == [(TIMED_OUT, []), (PASSED, ["edges: x"])]
    assert "check g1" not in outcomes, "tiles that are right together are not checked one by one"
    jsonschema.validate(json.loads((tmp_path / "report.json").read_text()), SCHEMA)


def test_each_step_is_announced_with_its_outcome(tmp_path):
    said = []
    running = Session(tmp_path, 600.0, lambda: None, lambda *words: said.append(words))
    running.run(Step("works", python("pass"), 100))
    running.run(Step("breaks", python("print('one'); print('the reason'); raise SystemExit(1)"), 100))
    running.run(Step("stays", python("pass"), 100, skip="needs a card"))
    assert [words for words in said if len(words) == 1] == [("works",), ("breaks",), ("stays: skipped: needs a card",)]
    ends = [words[1].rsplit(" (", 1)[0] for words in said if len(words) == 2]
    assert ends == ["passed", "failed: the reason"]


def test_times_are_set_against_the_cost_model_s_intervals(tmp_path, monkeypatch):
    costs = {
        "predictions": {"blackwell": {"1x2x3": {"us": 10.0, "low_us": 9.0, "high_us": 11.0, "tiles_us": {"t64": 20.0}}}}
    }
    monkeypatch.setattr(report, "COST_MODEL", tmp_path / "cost_model.json")
    report.COST_MODEL.write_text(json.dumps(costs))
    times = [
        {"problem": "dual_gemm", "shape": "1x2x3", "variant": "auto", "median_us": 12.5},
        {"problem": "dual_gemm", "shape": "1x2x3", "variant": "auto+again", "median_us": 10.0},
        {"problem": "dual_gemm", "shape": "1x2x3", "variant": "t64", "median_us": 21.0},
        {"problem": "dual_gemm", "shape": "4x5x6", "variant": "auto", "median_us": 1.0},
    ]
    rows = report.against_cost_model(times, "blackwell")
    assert [(row["variant"], row["predicted_us"], row["inside"]) for row in rows] == [
        ("auto", 10.0, False),
        ("t64", 20.0, True),
    ]
    assert [row["measured_over_predicted"] for row in rows] == [1.25, 1.05] and rows[1]["high_us"] == 22.0
    assert report.against_cost_model(times, "hopper") == []
    costs["predictions"]["blackwell"]["1x2x3"] |= {"low_us": 9.1234, "high_us": 11.2345}
    report.COST_MODEL.write_text(json.dumps(costs))
    found = report.against_cost_model([*times, times[0] | {"median_us": None}], "blackwell")
    assert [(row["low_us"], row["high_us"]) for row in found] == [(9.123, 11.235), (18.247, 22.469)]
    report.COST_MODEL.unlink()
    assert report.against_cost_model(times, "blackwell") == []


def test_a_dry_run_of_the_protocol_gives_a_report_that_fits_the_schema(tmp_path, library_path, capsys, monkeypatch):
    monkeypatch.setenv("NVFP4_LIBRARY", str(library_path))
    # A busy machine takes minutes for steps that take seconds next to a card.
    monkeypatch.setattr(protocol, "LIMITS", dict.fromkeys(protocol.LIMITS, 500))
    path = tmp_path / "report.json"
    judged = [f"eval {problem}" for problem in protocol.PEERS if problem != "dual_gemm"]  # by other tests, too
    words = ["--dry", "cpu", "--skip", ",".join(["build", *judged])]
    words += ["--json", str(path), "--folder", str(tmp_path / "logs")]
    status = protocol.main(words)
    said = capsys.readouterr()
    assert status == 0, (said, path.read_text())
    found = json.loads(path.read_text())
    jsonschema.validate(found, SCHEMA)
    assert len(found["steps"]) == protocol.STEPS_WITHOUT_FAULTS
    outcomes = {step["name"]: step["outcome"] for step in found["steps"]}
    assert {outcomes[name] for name in ("build", *judged, "tiles dual_gemm", "experts")} == {SKIPPED}
    every = [f"{kind} {problem}" for kind in ("check", "time", "eval") for problem in protocol.PEERS]
    assert {outcomes[name] for name in every if name not in judged} == {PASSED}
    for problem, case in protocol.DRY_CASES.items():
        assert parse_case(case.strip(), problem=PROBLEMS[problem]).problem is PROBLEMS[problem]
    assert found["checks"][0]["passed"] == 16
    assert {(entry["problem"], entry["variant"]) for entry in found["times"]} == {
        (problem, variant)
        for problem, peers in protocol.PEERS.items()
        for variant in ("auto", "auto+again", peers.split(",")[0])
    }
    assert all(len(entry["samples_us"]) == 3 for entry in found["times"])
    assert "dry run" in said.out and "27/27: sanitizer synccheck: skipped: needs a card" in said.err


@pytest.mark.parametrize("place", ["steps", "times", "environment"])
def test_the_schema_refuses_a_report_that_lost_a_part(place, tmp_path):
    day = protocol.Day(options(tmp_path, dry="cpu"), lambda *said: None)
    day.session.run(Step("one", python("pass"), 20))
    written = json.loads((tmp_path / "report.json").read_text())
    assert report.schema_problems(written) == []
    del written[place]
    assert report.schema_problems(written) != []
