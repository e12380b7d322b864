"""Each rule of the record, on a correct round with one change."""

from __future__ import annotations

import copy
import re
import shlex

import pytest

from scripts.rounds import check as rounds_check
from scripts.rounds import model as rounds_model
from scripts.rounds import rerun
from scripts.rounds.commands import parser
from scripts.rounds.model import RoundError, Tank, write_json
from tests.rounds.rounds_kit import ROOT, SHAPES, run

RECORD = Tank(ROOT)


def put(**values):
    return lambda data: data.update(values)


def remove(name):
    return lambda data: data.pop(name)


@pytest.fixture
def hopper():
    """A measured and adopted round."""
    return copy.deepcopy(RECORD.get(7))


@pytest.fixture
def blackwell():
    """A simulated and adopted round."""
    return copy.deepcopy(RECORD.get(44))


@pytest.fixture
def inherited():
    return copy.deepcopy(RECORD.get(1))


def with_states(data, *states):
    """The round with a history of these states, one a day."""
    data["history"] = [{"state": state, "date": f"2026-01-{day:02}"} for day, state in enumerate(states, 1)]
    data["state"] = states[-1]
    return data


def test_a_round_that_breaks_the_schema_is_not_saved(hopper, tmp_path):
    folder = Tank(tmp_path).rounds_dir / f"{hopper['number']:04d}-{hopper['slug']}"
    folder.mkdir(parents=True)
    with pytest.raises(RoundError, match=rf"{folder.name}/round.json: .*verdict"):
        Tank(tmp_path).save(hopper | {"verdict": "fast"})
    assert not (folder / "round.json").exists()
    Tank(tmp_path).save(hopper)
    assert Tank(tmp_path).get(hopper["number"]) == hopper


# --- states -------------------------------------------------------------------------------------------------------


def test_rounds_that_hold_have_no_problem(hopper, blackwell, inherited):
    assert [rounds_check.state_problems(data) for data in (hopper, blackwell, inherited)] == [[], [], []]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put(state="rejected"), "state is rejected, its history ends with adopted"),
        (lambda data: data["history"][1].update(date="2020-01-01"), "history: dates go backwards"),
        (lambda data: with_states(data, "predicted", "measured", "adopted"), "history starts with predicted"),
        (lambda data: with_states(data, "draft", "predicted", "adopted"), "a measurement and the state measured"),
        (put(measurement=None), "a measurement and the state measured must go together"),
        (put(verdict=None), "a verdict and a final state must go together"),
        (lambda data: with_states(data, "draft", "predicted", "measured"), "a verdict and a final state"),
        (
            lambda data: data["verdict"].update(state="rejected"),
            "verdict says rejected, which is not in the history",
        ),
        (put(superseded_by=9), "superseded and superseded_by must go together"),
        (put(kept_although="another shape is owed for it"), "kept_although is for a rejected round"),
        (
            lambda data: with_states(data, "draft", "predicted", "measured", "adopted", "superseded"),
            "superseded and superseded_by must go together",
        ),
        (put(evidence="measured:H100"), "evidence is measured:H100, expected measured:H200"),
    ],
)
def test_a_measured_round_is_whole(hopper, change, problem):
    change(hopper)
    assert any(found.startswith(problem) for found in rounds_check.state_problems(hopper))


@pytest.mark.parametrize(
    "change",
    [put(evidence="predicted"), put(measurement={"chip": "x"}), put(prediction={"shapes": {}, "viewpoints": 1})],
)
def test_an_inherited_round_has_nothing_of_ours(inherited, change):
    change(inherited)
    assert rounds_check.state_problems(inherited) == [
        "an inherited round has evidence inherited and no prediction or measurement of ours"
    ]


def test_an_inherited_rounds_history_may_be_short_but_not_wrong(inherited):
    with_states(inherited, "adopted")
    assert rounds_check.state_problems(inherited) == []
    inherited["state"] = "blocked"
    assert rounds_check.state_problems(inherited) == ["state is blocked, its history ends with adopted"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put(evidence="measured:B200"), "evidence is measured:B200 without such a measurement"),
        (put(evidence="inherited"), "evidence is inherited without such a measurement"),
        (put(evidence="compiled"), "evidence simulated and a simulation must go together"),
        (remove("simulation"), "evidence simulated and a simulation must go together"),
    ],
)
def test_evidence_is_what_there_is(blackwell, change, problem):
    change(blackwell)
    assert rounds_check.state_problems(blackwell) == [problem]


@pytest.mark.parametrize("state", ["adopted", "rejected", "inconclusive", "blocked"])
@pytest.mark.parametrize("evidence", ["predicted", "compiled"])
@pytest.mark.parametrize("backend", ["blackwell", "hopper", "cpu"])
def test_rounds_that_may_end_without_a_measurement(blackwell, state, evidence, backend):
    del blackwell["simulation"]
    path = ("draft", "predicted", state) if state != "blocked" else ("draft", "blocked")
    with_states(blackwell, *path).update(evidence=evidence, backend=backend)
    blackwell["verdict"]["state"] = state
    wanted = []
    if evidence == "predicted" and state != "blocked":
        wanted = [f"{state} on a prediction alone"]
    elif state == "adopted" and backend != "blackwell":
        wanted = ["adopted without a measurement, which only blackwell and geforce rounds may be"]
    assert rounds_check.state_problems(blackwell) == wanted


# --- relations --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put(parent=8), "parent is 8, expected an earlier round"),
        (put(parent=7), "parent is 7, expected an earlier round"),
        (put(parent=6), None),
        (put(parent=0), "parent is 0, expected an earlier round"),
        (put(parent=None), None),
        (
            lambda data: data["rule"].update(noise_round=9),
            "rule.noise_round is 9, expected an earlier round",
        ),
        (put(superseded_by=9999), "superseded_by 9999 does not exist"),
        (put(superseded_by=20), None),
        (put(kind="noise-floor"), "rule is faster-v1, expected noise-floor-v1 for kind noise-floor"),
        (
            lambda data: data["rule"].update(name="noise-floor-v1"),
            "rule is noise-floor-v1, expected faster-v1 or unmeasured-v1 or modelled-v1 for kind change",
        ),
        (
            lambda data: data["rule"].update(name="unmeasured-v1"),
            "rule unmeasured-v1 is for blackwell or geforce, not for hopper",
        ),
    ],
)
def test_relations_to_other_rounds(hopper, change, problem):
    change(hopper)
    assert rounds_check.relation_problems(RECORD, hopper) == ([problem] if problem else [])


def test_the_noise_floor_is_an_adopted_a_a_round(hopper, monkeypatch):
    assert rounds_check.noise_measurement(RECORD, hopper) == RECORD.get(4)["measurement"]
    for number in (5, 7):  # changes, one of them adopted
        hopper["rule"]["noise_round"] = number
        with pytest.raises(RoundError, match=f"round 7: noise_round {number} is not an adopted A/A round"):
            rounds_check.noise_measurement(RECORD, hopper)
    hopper["rule"]["noise_round"] = None
    with pytest.raises(RoundError, match="round 7: its rule names no noise_round"):
        rounds_check.noise_measurement(RECORD, hopper)
    noisy = copy.deepcopy(RECORD.get(4))
    noisy["verdict"]["state"] = "inconclusive"
    monkeypatch.setattr(Tank, "get", lambda tank, number: noisy)
    hopper["rule"]["noise_round"] = 4
    with pytest.raises(RoundError, match="is not an adopted A/A round"):
        rounds_check.noise_measurement(RECORD, hopper)


# --- measurements -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (put(samples_sha256="0"), "runs/h200-first.jsonl.gz: digest differs from measurement.samples_sha256"),
        (put(env_sha256="0"), "environment of run h200-first: digest differs from measurement.env_sha256"),
        (put(chip="H100"), "measurement.chip is H100, the run's environment says H200"),
        (put(seed=5), "measurement.seed is 5, fixed at 20261121"),
        (put(draws=5), "measurement.draws is 5, the samples give 2000"),
        (lambda found: found["shapes"].pop(SHAPES[0]), f"measurement.shapes.{SHAPES[0]} is None, the samples give"),
        (lambda found: found["shapes"].update(x=1), "measurement.shapes.x is 1, the samples give None"),
        (
            lambda found: found["geomean"].update(low=0.5),
            "measurement.geomean.low is 0.5, the samples give",
        ),
    ],
)
def test_a_measurement_is_what_its_samples_give(change, problem):
    data = copy.deepcopy(RECORD.get(4))
    assert rounds_check.measurement_problems(RECORD, data) == []
    change(data["measurement"])
    assert any(found.startswith(problem) for found in rounds_check.measurement_problems(RECORD, data))


@pytest.mark.parametrize("change", [put(state="rejected"), put(reason="so")])
def test_a_verdict_is_what_its_rule_gives(change):
    data = copy.deepcopy(RECORD.get(4))
    before = data["verdict"]["state"], data["verdict"]["reason"]
    change(data["verdict"])
    (problem,) = rounds_check.measurement_problems(RECORD, data)
    claimed = data["verdict"]
    assert problem == f"verdict is {claimed['state']} ({claimed['reason']}), the rule gives {before[0]} ({before[1]})"
    data["verdict"] = None
    assert rounds_check.measurement_problems(RECORD, data)[0].startswith("verdict is None (None), the rule gives")


# --- the command line, a measurement repeated ---------------------------------------------------------------------


def test_a_repetition_says_where_its_environment_lacks_something(hopper, tmp_path, capsys):
    samples, env = tmp_path / "samples.jsonl", tmp_path / "env.json"
    samples.write_bytes(rounds_model.read_bytes(RECORD.samples_path(hopper["measurement"]["run"])))
    recorded = RECORD.env(hopper["measurement"]["run"])
    noise = RECORD.get(4)["measurement"]
    write_json(env, {"chip": "x"})
    with pytest.raises(RoundError, match=r"env\.json: lacks driver"):
        rerun._report(hopper, noise, samples, env)
    write_json(env, recorded)
    assert rerun._report(hopper, noise, samples, env) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "the verdict holds"
    write_json(env, recorded | {"chip": "NVIDIA H100"})
    hopper["verdict"]["state"] = "rejected"
    assert rerun._report(hopper, noise, samples, env) == 3
    said = capsys.readouterr().out
    assert "note: recorded on H200, run again on H100" in said and "the verdict does not hold here" in said


def test_the_places_of_a_command_are_filled_and_quoted(hopper, tmp_path):
    hopper["command"] = "{base_dir} {candidate_dir} {base} {candidate} {samples} {env} {other}"
    folders = {"base": tmp_path / "a b", "candidate": tmp_path / "c"}
    filled = rerun._fill(hopper, folders, tmp_path / "s", tmp_path / "e", tmp_path)
    base, candidate = hopper["base"]["variant"], hopper["candidate"]["variant"]
    assert filled == f"'{tmp_path}/a b' {tmp_path}/c {base} {candidate} {tmp_path}/s {tmp_path}/e {{other}}"


# --- the how-to -------------------------------------------------------------------------------------------------------


def test_each_command_of_the_rules_exists_with_its_options():
    """The parser accepts every command that RULES.md gives for `rounds`."""
    text = (ROOT / "shark_tank" / "RULES.md").read_text()
    blocks = re.findall(r"^ *```\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    typed = [line.strip() for block in blocks for line in block.splitlines()]
    typed += [line for line in re.findall(r"`(\./nvfp4 rounds [^`]*)`", text) if "..." not in line]
    words = [shlex.split(line)[2:] for line in typed if line.startswith("./nvfp4 rounds ")]
    for one in words:
        parser().parse_args(one)
    assert {"new", "predict", "measure", "finish", "model", "close", "show"} <= {one[0] for one in words}


def test_finish_notes_costs_and_what_would_reopen_the_round(measured):
    before = measured.get(5)
    words = ("finish", 5, "--reopen-if", "a wider bus", "--lines", 12, "--shared-bytes", 228400)
    assert run(measured, *words) == 0
    after = measured.get(5)
    assert after["reopen_if"] == "a wider bus" and after["verdict"] == before["verdict"]
    assert after["cost"] == {"lines": 12, "registers": None, "shared_bytes": 228400}
    assert (
        run(measured, "finish", 1, "--why", "our reading") == 0 and measured.get(1)["verdict"]["why"] == "our reading"
    )
