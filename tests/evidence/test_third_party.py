"""The table of third-party kernels: its rules hold for what is committed, and each rule finds its fault."""

from __future__ import annotations

import copy
import json
import os
import signal

import numpy as np
import pytest

from scripts.evidence.third_party.outcome import cases_of, compare, in_a_child, told
from scripts.evidence.third_party.render import faults, in_order, key, render


@pytest.fixture(scope="module")
def rows(root):
    return json.loads((root / "simulator/results/third_party/third_party.json").read_text())


@pytest.fixture(scope="module")
def corpus(root):
    return json.loads((root / "simulator/results/third_party/third_party_corpus.json").read_text())


def test_the_committed_table_keeps_its_rules(rows, corpus):
    assert faults(rows, corpus) == []


def test_the_committed_page_is_what_the_json_says(root, rows, corpus):
    assert (root / "simulator/results/third_party/THIRD_PARTY.md").read_text() == render(rows, corpus)


def test_rows_of_another_simulator_than_most_are_named(rows, corpus):
    changed = copy.deepcopy(rows)
    changed[1]["simulator"] = "0123abc"
    assert f"- `0123abc`: triton `{changed[1]['name']}` {changed[1]['arch']}\n" in render(changed, corpus)


def a_finding(**given):
    return {
        "kind": "new-kind",
        "source": "a.cu:1",
        "message": "is new",
        "verdict": "error",
        "times": 1,
        "modes": ["eager"],
    } | given


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: row["runs"][0].update(wrong=1, verdict="review"), "wrong in silence in mode eager"),
        (lambda row: row["runs"][2].update(wrong=1, verdict="clean"), "wrong in silence in mode reverse"),
        (lambda row: row["findings"].append(a_finding()), "new-kind at a.cu:1 is not judged"),
        (lambda row: row.update(runs=[], not_built="no nvcc"), "no reason is named: no nvcc"),
        (lambda row: row["runs"][1].update(failed="refused"), "no reason is named: refused"),
    ],
)
def test_a_fault_of_a_row_is_told(rows, corpus, change, said):
    changed = copy.deepcopy(rows)
    change(changed[0])
    told_of = faults(changed, corpus)
    assert len(told_of) == 1 and told_of[0].endswith(said) and changed[0]["name"] in told_of[0]


def test_rows_of_cases_outside_the_tree_stay_last_and_are_marked(rows, corpus, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(
        "from scripts.evidence.third_party.outcome import Case\n"
        "def cases():\n    yield Case('they/them', 'theirs', 'a product', '64', '100a', None)\n"
    )
    assert [(case.name, case.outside) for case in cases_of(file)] == [("theirs", True)]
    theirs = {**copy.deepcopy(rows[0]), "project": "they/them", "name": "theirs", "outside": True}
    gone = {**copy.deepcopy(rows[0]), "name": "gone"}
    inside = [row for row in rows if not row.get("outside")]
    kept = in_order([theirs, gone, *reversed(inside)], [key(row) for row in inside])
    assert kept == [*inside, theirs]
    assert "| them `theirs`* |" in render(kept, corpus)


def test_wrong_values_under_an_error_are_no_fault_of_the_table(rows, corpus):
    changed = copy.deepcopy(rows)
    changed[0]["runs"][0].update(wrong=1, verdict="error")
    assert faults(changed, corpus) == []


def test_what_does_not_run_is_named_without_its_owner(rows, corpus):
    refused = [row for row in rows if not row["runs"]]
    one = {**copy.deepcopy((refused or rows)[0]), "project": "they/them", "name": "theirs", "arch": "90a"}
    one |= {"runs": [], "not_built": "no nvcc", "findings": []}
    assert "| them `theirs` | 90a | not judged. |" in render([*rows, one], corpus)


def test_too_few_kernels_or_projects_are_told(rows, corpus):
    few = [row for row in rows if row["project"] == "triton"]
    assert faults(few[:59], corpus) == faults(few, corpus) == ["fewer than 60 kernels of 6 projects run"]


def test_a_text_that_ptxas_takes_is_read_or_has_its_reason(rows, corpus):
    changed = corpus | {"unread": corpus["unread"] | {"a.ptx": "line 1: unknown instruction"}}
    assert faults(rows, changed) == ["a.ptx is not read: line 1: unknown instruction"]


def test_what_is_not_a_number_is_a_wrong_value():
    got = np.array([1.0, np.nan, 3.0, 4.5])
    assert compare(got, np.array([1.0, 2.0, 3.0, 4.0]), 0.5) == {"wrong": 1, "of": 4, "max_error": 0.5}


def test_findings_of_a_line_are_one_with_their_count():
    first, second = (a_finding(source=s, ptx_line=1, times=2) for s in ("x/a.cu:1", "y.h:2 inlined at x/a.cu:1"))
    bare = a_finding(source="", ptx_line=7)
    assert [(each["source"], each["times"]) for each in told([first, bare, second])] == [
        ("PTX line 7", 1),
        ("a.cu:1", 4),
    ]


def test_a_run_that_crashes_or_does_not_end_is_a_row_that_says_so():
    assert in_a_child(lambda: {"wrong": 0}).items() >= {"wrong": 0}.items()
    assert in_a_child(lambda: os.kill(os.getpid(), signal.SIGKILL))["failed"] == "ended by signal 9"
    assert in_a_child(lambda: signal.pause(), limit=1)["failed"] == "no end in 1 s"
