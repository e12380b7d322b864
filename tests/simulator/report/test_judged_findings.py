"""Findings that a user has judged, and more of them than a report lists: which are kept, hidden and counted."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from tests.simulator.sim_kit import Sim, body

MOST = 1000  # findings that a report lists
ROOM = ".shared .align 8 .b8 cell[8192];"
READ = "ld.shared.u32 %r1, [cell+{}];"  # nothing has written there


def suppress(sim: Sim, rules: str) -> str:
    """What is wrong with the rules; empty: nothing."""
    message = ctypes.create_string_buffer(200)
    status = sim.lib.sim_suppress(sim.sim, rules.encode(), message, ctypes.c_size_t(len(message)))
    assert (status != 0) == bool(message.value)
    return message.value.decode()


class Rule(ctypes.Structure):
    """struct sim_suppression of the library's header."""

    _fields_ = [
        ("kind", ctypes.c_char_p),
        ("kernel", ctypes.c_char_p),
        ("place", ctypes.c_char_p),
        ("line", ctypes.c_uint32),
        ("times", ctypes.c_uint64),
    ]


def rules_of(sim: Sim) -> list[tuple]:
    """Of each rule its words, its line and what it hid."""
    sim.lib.sim_suppression.restype = ctypes.POINTER(Rule)
    found, at = [], 0
    while rule := sim.lib.sim_suppression(sim.sim, ctypes.c_size_t(at)):
        one = rule.contents
        found.append((one.kind.decode(), one.kernel.decode(), one.place.decode(), one.line, one.times))
        at += 1
    return found


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("a b c d", "line 1: expected KIND [KERNEL [PLACE]], KIND as reports name it"),
        ("# none\n\nrace-*", "line 3: expected KIND [KERNEL [PLACE]], KIND as reports name it"),
        ("rac?", "line 1: expected KIND [KERNEL [PLACE]], KIND as reports name it"),
        ("[race", "line 1: expected KIND [KERNEL [PLACE]], KIND as reports name it"),
        *(
            (f"write-race\n{kind} k", f"line 2: {kind} ends the run and cannot be suppressed")
            for kind in ("deadlock", "divergent-aligned", "runaway", "launch-refused", "no-mbarrier")
        ),
        ("\n" + "# " + "x" * 1497, ""),
        ("\n" + "x" * 1500, "line 2: more than 1499 characters"),
    ],
)
def test_rules_that_cannot_be_used_are_told_by_their_line(rules, said):
    assert suppress(Sim(body("")), rules) == said


def test_each_rule_hides_its_own_and_counts_it_until_the_findings_are_cleared():
    lines = (READ.format(0), "bar.warp.sync -1;", READ.format(64), "bar.sync 3, 16;")
    sim = Sim(body(*lines, registers=ROOM))
    rules = "# judged\nuninitialised-read k ptx:9 # this one\n\nuninitialised-read other\nuninitialised-read * ptx:11"
    assert suppress(sim, rules) == ""
    assert suppress(sim, "barrier-count k") == ""
    told = [("uninitialised-read", "k", "ptx:9", 2), ("uninitialised-read", "other", "*", 4)]
    told += [("uninitialised-read", "*", "ptx:11", 5), ("barrier-count", "k", "*", 1)]
    for _ in range(2):
        assert sim.launch("k", 0, block=1) != 0
        # What ends a run is told, whatever the rules say.
        assert [f["kind"] for f in sim.findings] == ["barrier-count"]
        assert [rule[:4] for rule in rules_of(sim)] == told
        assert [rule[4] for rule in rules_of(sim)] == [1, 0, 1, 0]
        sim.lib.sim_clear_findings(sim.sim)
        assert [rule[4] for rule in rules_of(sim)] == [0, 0, 0, 0]
        assert sim.findings == [] and sim.verdict == "clean"


def test_what_an_instruction_is_to_be_looked_at_for_can_be_hidden():
    text = body("cvt.rs.satfinite.e2m1x4.f32 %rs1, {%f1, %f2, %f3, %f4}, %r1;").replace("sm_90a", "sm_100a")
    for rules, kinds in (("", ["cvt-random-bits"]), ("cvt-random-bits k ptx:9", []), ("cvt-random-bits k ptx:8", None)):
        sim = Sim(text)
        assert suppress(sim, rules) == ""
        assert sim.launch("k", 0) == 0
        assert [f["kind"] for f in sim.findings] == (["cvt-random-bits"] if kinds is None else kinds)


def unlisted(sim: Sim) -> int:
    sim.lib.sim_findings_unlisted.restype = ctypes.c_uint64
    return sim.lib.sim_findings_unlisted(sim.sim)


def printed(sim: Sim, path: Path) -> str:
    """The findings as text."""
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(str(path).encode(), b"w"))
    sim.lib.sim_print_findings(sim.sim, ctypes.c_size_t(0), file)
    libc.fclose(file)
    return path.read_text()


@pytest.mark.parametrize("more", [0, 1, 30])
def test_a_full_list_gives_up_reviews_for_errors_and_counts_what_it_leaves_out(more, tmp_path):
    reads = [READ.format(4 * i) for i in range(MOST + more)]
    sim = Sim(body("ld.param.u64 %rd1, [p];", *reads, "st.global.u32 [%rd1+4], %r1;", registers=ROOM))
    out = sim.buffer(np.zeros(1, np.uint32))
    for _ in range(2):  # the second time after all was cleared
        sim.launch("k", out, block=1)
        found = sim.findings
        assert len(found) == MOST and unlisted(sim) == more + 1
        assert [f["kind"] for f in found[:-1]] == ["uninitialised-read"] * (MOST - 1)
        assert found[-1]["kind"] == "out-of-bounds" and sim.verdict == "error"
        assert [f["ptx_line"] for f in found[:-1]] == list(range(10, 10 + MOST - 1))
        said = f"\n{more + 1} more findings are not listed; they count for the verdict\n"
        assert said in printed(sim, tmp_path / "report")
        sim.lib.sim_clear_findings(sim.sim)
        assert unlisted(sim) == 0 and sim.findings == []
        assert "not listed" not in printed(sim, tmp_path / "report")


def test_a_list_full_of_errors_gives_up_none():
    begin = "mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r2, 32; @%p1 st.shared.u32 [cell], %r2;"
    races = ["@%p2 ld.shared.u32 %r1, [cell];"] * (MOST + 2)
    sim = Sim(body(begin, *races, READ.format(64), registers=ROOM))
    sim.launch("k", 0, block=64)
    assert {(f["kind"], f["verdict"]) for f in sim.findings} == {("read-after-write-race", 2)}
    assert [f["ptx_line"] for f in sim.findings] == list(range(10, 10 + MOST))
    assert unlisted(sim) == 4 and sim.verdict == "error"  # the last of them twice


def test_what_the_simulator_cannot_judge_is_not_hidden_by_any_rule():
    """More than it models: a rule for that kind would turn "cannot say" into "clean"."""
    unmodelled = "multimem.ld_reduce.relaxed.sys.global.add.f32 %f1, [%rd1];"
    sim = Sim(body("ld.param.u64 %rd1, [p];", unmodelled))
    assert suppress(sim, "multimem * *\n") == ""
    sim.launch("k", sim.buffer(np.zeros(4, np.uint32)))
    assert sim.verdict == "incomplete" and rules_of(sim)[0][-1] == 0
