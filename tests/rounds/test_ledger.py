"""The ledger's steps and checks, and a round's summary in words."""

from __future__ import annotations

import copy
import json
import shutil

import pytest

from scripts.history import data as history_data
from scripts.rounds import ledger
from scripts.rounds.model import Tank, write_json
from scripts.rounds.pages import words
from scripts.rounds.pages.round_page import state_text
from tests.rounds.rounds_kit import ROOT


@pytest.fixture
def tank(tmp_path):
    """A copy of this repository's record, without its git."""
    shutil.copytree(ROOT / "shark_tank", tmp_path / "shark_tank")
    return Tank(tmp_path)


def alter(tank, change):
    path = tank.dir / ledger.LEDGER_FILE
    data = json.loads(path.read_text())
    change(data)
    write_json(path, data)


def test_the_ledger_of_this_repository_adds_up():
    tank = Tank(ROOT)
    assert ledger.problems(tank) == []
    found = ledger.load(tank)
    assert found.first_us == pytest.approx(139.6, abs=0.05) and found.last_us == pytest.approx(44.1, abs=0.05)
    assert [step.number for step in found.steps][:3] == [9, 51, 10]
    if found.open:
        pytest.skip("a step waits for its measurement")
    product = found.first_us
    gaps = {after: gap for _, after, gap in found.gaps()}
    for step in found.steps:
        product *= step.ratio * gaps.get(step.number, 1.0)
    assert product == pytest.approx(found.last_us, rel=1e-3)


def test_an_adopted_round_is_a_step_or_has_a_reason(tank):
    alter(tank, lambda data: data["elsewhere"].pop("14"))
    assert any("round 14 was adopted" in problem for problem in ledger.problems(tank))


def test_a_drop_between_two_rounds_is_found(tank):
    def forget(data):
        data["steps"] = [step for step in data["steps"] if step["round"] not in (51, 17)]
        data["elsewhere"] |= {"51": "x", "17": "x"}

    alter(tank, forget)
    gone = [problem for problem in ledger.problems(tank) if "without a round" in problem]
    assert len(gone) == 2 and "between rounds 9 and 10 the time changes by -38.5%" in gone[0]
    assert "between rounds 16 and 18" in gone[1]


@pytest.mark.parametrize(
    ("change", "words_of"),
    [
        (lambda steps: steps.append({"round": 11, "variant": "4cc87a6/auto"}), "round 11 is a step but was rejected"),
        (lambda steps: steps.append({"round": 9999, "variant": "x/auto"}), "round 9999 does not exist"),
        (lambda steps: steps.append(steps[0]), "step 9 is used twice"),
        (lambda steps: steps[2].update(variant="8637071/f64x128c1"), "does not belong to round 10's candidate"),
    ],
)
def test_a_step_is_an_adopted_round_and_of_its_commit(tank, change, words_of):
    alter(tank, lambda data: change(data["steps"]))
    assert any(words_of in problem for problem in ledger.problems(tank))


def test_the_table_shows_each_step_and_why_two_numbers_differ(tank):
    text = ledger.ledger_table(tank)
    assert "| [0024](rounds/0024-split-k-in-a-cluster/round.md) |" in text and "139.6" in text
    sentence = ledger.why_two_numbers(tank, ledger.load(tank))
    assert "all in one run, us" in text and "the newest commit, in that run" in text
    alter(tank, lambda data: data["one_run"].update(run="none-yet"))
    alone = ledger.ledger_table(tank)
    assert "in one run" not in alone and "in that run" not in alone and "| [0024]" in alone
    assert "43.7 us" in sentence and "44.1 us" in sentence and "1.1 % apart" in sentence
    (tank.dir / ledger.LEDGER_FILE).unlink()
    assert ledger.load(tank) is None and ledger.ledger_table(tank) == "None yet." and ledger.problems(tank) == []


def test_one_run_of_all_steps_stands_beside_them(tank):
    """The run holds each step's variant, and the newest commit twice."""
    import gzip

    named = ["e19e106/auto", *(step["variant"] for step in ledger.read(tank)["steps"]), "abc/auto", "abc/auto+again"]
    lines = [
        json.dumps({"shape": [1, 2, 3], "variant": name, "repeat": 0, "us": 100.0 - at})
        for at, name in enumerate(named)
    ]
    tank.samples_path("h200-of-all").write_bytes(gzip.compress("\n".join(lines).encode()))
    alter(tank, lambda data: data["one_run"].update(run="h200-of-all"))
    found = ledger.load(tank)
    assert (found.first_one_run_us, found.now_one_run_us) == pytest.approx((100.0, 90.0))
    assert [step.one_run_us for step in found.steps] == pytest.approx([99.0 - at for at in range(9)])
    assert "all in one run, us" in ledger.ledger_table(
        tank
    ) and "the newest commit, in that run" in ledger.ledger_table(tank)


def test_a_rounds_change_can_be_seen():
    sides = {"base": {"commit": "a" * 40}, "candidate": {"commit": "b" * 40}}
    assert words.what_changed(sides) == "What changed: `git diff aaaaaaaaa bbbbbbbbb -- submission/`."
    one = copy.deepcopy(sides)
    one["candidate"]["commit"] = "a" * 40
    assert "one commit" in words.what_changed(one) and words.diff_command(one) == ""
    assert words.what_changed({"base": {"commit": None}, "candidate": {"commit": None}}) == ""


def test_the_evidence_of_an_adoption_is_shown():
    adopted = {"state": "adopted", "measurement": None}
    assert (
        state_text(adopted) == "adopted (unmeasured)"
        and state_text(adopted | {"model": {}}) == "adopted (by the clock)"
    )
    assert state_text(adopted | {"measurement": {}}) == state_text(adopted | {"inherited": {}}) == "adopted"
    assert state_text({"state": "superseded"}) == "superseded"


def test_no_gap_is_reported_next_to_a_step_that_waits():
    one, two, three = (
        ledger.Step(n, "", "", base, us, us / base) for n, base, us in ((1, 9.0, 8.0), (2, 8.5, 7.0), (4, 6.0, 5.0))
    )
    waits = ledger.Step(3, "", "", None, None, None)
    assert ledger.Ledger(9.0, "", [one, two, waits, three]).gaps() == [(1, 2, 8.5 / 8.0)]
    assert ledger.Ledger(9.0, "", [one, two, three]).gaps() == [(1, 2, 8.5 / 8.0), (2, 4, 6.0 / 7.0)]


# --- the order of commits ---------------------------------------------------------------------------------------


def test_rounds_stand_in_the_order_of_their_commits():
    tank = Tank(ROOT)
    order = [data["number"] for data in history_data.by_commit(tank, tank.all()) if data["base"]["commit"]]
    assert order[0] == 9 and order.index(24) < order.index(23)  # 23 builds on 24
    if 51 in order:
        assert order.index(9) < order.index(51) < order.index(10)


def test_without_git_the_order_is_the_one_noted(tank):
    assert not tank.has_history()
    noted = history_data.commit_times(tank)
    assert noted == history_data.commit_times(Tank(ROOT)) and len(noted) > 20
    own = [data["number"] for data in history_data.by_commit(Tank(ROOT), tank.all())]
    assert [data["number"] for data in history_data.by_commit(tank, tank.all())] == own
