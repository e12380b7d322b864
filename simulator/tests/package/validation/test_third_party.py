"""The table of third-party kernels: its rules hold for what is committed, and each rule finds its fault."""

from __future__ import annotations

import copy
import os
import signal

import numpy as np
import pytest

from simulator.validation.report import corpus as recorded_corpus
from simulator.validation.third_party.judgements import judgement
from simulator.validation.third_party.outcome import cases_of, compare, in_a_child, merged
from simulator.validation.third_party.third_party_page import faults, in_order, page, summary
from simulator.validation.third_party.third_party_rows import key, load


@pytest.fixture(scope="module")
def rows():
    return load()


@pytest.fixture(scope="module")
def corpus():
    return recorded_corpus()


def test_the_recorded_rows_keep_their_rules(rows, corpus):
    assert faults(rows, corpus) == []


def test_each_project_and_each_ruling_has_a_line_of_the_page(rows, corpus):
    text = summary(rows, corpus)
    for project in {row["project"] for row in rows}:
        mine = [row for row in rows if row["project"] == project]
        right = sum(all(run["wrong"] == 0 for run in row["runs"]) for row in mine)
        assert f"| {project} | `{mine[0]['version'][:12]}` | {len(mine)} | {right} |" in text
    for row in rows:
        for finding in row["findings"]:
            found = judgement(row["project"], row["name"], finding)
            assert f"| {found.ruling} | {finding['kind']} | {found.sentence}. |" in text


def test_rows_of_another_simulator_than_most_are_named(rows, corpus):
    changed = copy.deepcopy(rows)
    changed[1]["simulator"] = "0123abc"
    assert "`0123abc`" in summary(changed, corpus) and "`0123abc`" not in summary(rows, corpus)


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
        (lambda row: row["runs"][0].update(wrong=1, verdict="review"), "silently wrong in mode eager"),
        (lambda row: row["runs"][2].update(wrong=1, verdict="clean"), "silently wrong in mode reverse"),
        (lambda row: row["findings"].append(a_finding()), "new-kind at a.cu:1 is not judged"),
        (lambda row: row.update(runs=[], not_built="no nvcc"), "no reason is named: no nvcc"),
        (lambda row: row["runs"][1].update(failed="refused"), "no reason is named: refused"),
    ],
)
def test_a_row_that_breaks_a_rule_is_reported(rows, corpus, change, said):
    changed = copy.deepcopy(rows)
    change(changed[0])
    named = faults(changed, corpus)
    assert len(named) == 1 and named[0].endswith(said) and changed[0]["name"] in named[0]


def test_rows_of_cases_outside_the_tree_stay_last_and_are_marked(rows, corpus, tmp_path):
    file = tmp_path / "own.py"
    file.write_text(
        "from simulator.validation.third_party.outcome import Case\n"
        "def cases():\n    yield Case('they/them', 'theirs', 'a product', '64', '100a', None)\n"
    )
    assert [(case.name, case.outside) for case in cases_of(file)] == [("theirs", True)]
    theirs = {**copy.deepcopy(rows[0]), "project": "they/them", "name": "theirs", "outside": True}
    gone = {**copy.deepcopy(rows[0]), "name": "gone"}
    inside = [row for row in rows if not row.get("outside")]
    kept = in_order([theirs, gone, *reversed(inside)], [key(row) for row in inside])
    assert kept == [*inside, theirs]
    assert "| them `theirs`* |" in page(kept, corpus)


def test_wrong_values_under_an_error_are_no_fault_of_the_table(rows, corpus):
    changed = copy.deepcopy(rows)
    changed[0]["runs"][0].update(wrong=1, verdict="error")
    assert faults(changed, corpus) == []


def test_what_does_not_run_is_named_without_its_owner(rows, corpus):
    refused = [row for row in rows if not row["runs"]]
    one = {**copy.deepcopy((refused or rows)[0]), "project": "they/them", "name": "theirs", "arch": "90a"}
    one |= {"runs": [], "not_built": "no nvcc", "findings": []}
    assert "| them `theirs` | 90a | not judged. |" in page([*rows, one], corpus)


def test_too_few_kernels_or_projects_are_reported(rows, corpus):
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
    assert [(each["source"], each["times"]) for each in merged([first, bare, second])] == [
        ("PTX line 7", 1),
        ("a.cu:1", 4),
    ]


def test_a_run_that_crashes_or_does_not_end_is_a_row_that_says_so():
    assert in_a_child(lambda: {"wrong": 0}).items() >= {"wrong": 0}.items()
    assert in_a_child(lambda: os.kill(os.getpid(), signal.SIGKILL))["failed"] == "ended by signal 9"
    assert in_a_child(lambda: signal.pause(), limit=1)["failed"] == "no end in 1 s"


def a_row(project, name, runs, findings=(), **more):
    row = {"project": project, "name": name, "arch": "90a", "size": "64", "shows": f"what {name} shows"}
    row |= {"simulator": "abc1234", "version": f"v of {project}", "outside": False, "not_built": ""}
    return row | {"runs": runs, "findings": list(findings)} | more


def a_run(mode, wrong=0, verdict="clean", **more):
    run = {"mode": mode, "status": 0, "wrong": wrong, "of": 8, "max_error": None, "verdict": verdict}
    return run | {"seconds": 1.04, "failed": ""} | more


def line(text, name):
    """The cells of the line that begins with a kernel's name."""
    return next([cell.strip(" |") for cell in each.split(" | ")] for each in text.splitlines() if f"| {name} |" in each)


def test_a_kernels_line_says_in_which_modes_it_is_wrong():
    rows = [
        a_row("o/ThunderKittens", "gemm",
            [a_run("eager", max_error=0.25, seconds=3.06), a_run("late", max_error=0.12345)],
            [a_finding(kind="mbarrier-init-fence", verdict="review", modes=["eager", "late"], source=f"tk.cu:{n}")
             for n in (9, 10, 101)]),
        a_row("p/other", "sum", [a_run("eager"), a_run("late", 3, "error"), a_run("poison", 3, "clean")],
            [a_finding(verdict="error", modes=["late"], source="PTX line 7"), a_finding(modes=["late", "poison"])]),
        a_row("p/other", "lost", [a_run("eager", None, "", failed="no such map", seconds=0.4)], outside=True),
        a_row("q/none", "absent", [], not_built="no nvcc"),
    ]  # fmt: skip
    corpus = {"project": "r/texts", "version": "v2", "texts": 9, "assembled": 7, "read": 5, "refused_by_both": 1}
    corpus |= {"unread": {"a/x.ptx": "odd", "a/y.ptx": "odd"}}
    text = page(rows, corpus)
    assert line(text, "ThunderKittens `gemm`")[4:] == [
        "0.123", "right", "clean", "3.1", "mbarrier-init-fence (review, 3 lines)",
    ]  # fmt: skip
    assert line(text, "other `sum`")[5:7] == [
        "right (eager); 3 of 8 wrong (late poison)", "clean (eager poison); error (late)",
    ]  # fmt: skip
    assert line(text, "other `lost`*")[5:] == ["none", "failed", "0.4", "no such map"]
    assert "no nvcc" in line(text, "none `absent`")
    sentence = judgement("o/ThunderKittens", "gemm", rows[0]["findings"][0]).sentence
    assert f"| ThunderKittens | mbarrier-init-fence | true | {sentence}. | tk.cu 9, 10, 101 |" in text
    assert "| other | new-kind | not judged | is new. | PTX line 7; a.cu 1 |" in text
    assert "| not judged | x.ptx, y.ptx |" in text
    assert "3 kernels of 2 projects: 1 right in every mode, 1 wrong without an error, 3 wrong or" in summary(
        rows, corpus
    )
