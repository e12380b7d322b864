"""Suppressed findings, and more findings than a report lists: which are kept, hidden and counted."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from simulator.tests.sim_kit import Sim, body

MOST = 1000  # the report lists so many findings
ROOM = ".shared .align 8 .b8 cell[8192];"
READ = "ld.shared.u32 %r1, [cell+{}];"  # nothing has written there


def suppress(sim: Sim, rules: str) -> str:
    """Adds suppressions; returns what is wrong with them, or an empty text."""
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
    """Kind, kernel, place, line and number of hidden findings of each rule."""
    sim.lib.sim_suppression.restype = ctypes.POINTER(Rule)
    found, at = [], 0
    while rule := sim.lib.sim_suppression(sim.sim, ctypes.c_size_t(at)):
        one = rule.contents
        found.append((one.kind.decode(), one.kernel.decode(), one.place.decode(), one.line, one.times))
        at += 1
    return found


@pytest.mark.parametrize(
    ("rules", "line", "named"),
    [
        ("a b c d", 1, "KIND [KERNEL [PLACE]]"),
        ("# none\n\nrace-*", 3, "KIND [KERNEL [PLACE]]"),
        ("rac?", 1, "KIND [KERNEL [PLACE]]"),
        ("[race", 1, "KIND [KERNEL [PLACE]]"),
        *(
            (f"write-race\n{kind} k", 2, kind)
            for kind in ("deadlock", "divergent-aligned", "runaway", "launch-refused", "no-mbarrier")
        ),
        ("\n" + "x" * 1500, 2, "1499"),
    ],
)
def test_an_invalid_rule_is_refused_with_its_line(rules, line, named):
    message = suppress(Sim(body("")), rules)
    assert message.startswith(f"line {line}: ") and named in message


def test_a_comment_may_be_as_long_as_a_line():
    assert suppress(Sim(body("")), "\n" + "# " + "x" * 1497) == ""


def test_each_rule_counts_the_findings_it_hides_until_they_are_cleared():
    lines = (READ.format(0), "bar.warp.sync -1;", READ.format(64), "bar.sync 3, 16;")
    sim = Sim(body(*lines, registers=ROOM))
    rules = "# judged\nuninitialised-read k ptx:9 # this one\n\nuninitialised-read other\nuninitialised-read * ptx:11"
    assert suppress(sim, rules) == ""
    assert suppress(sim, "barrier-count k") == ""
    expected = [("uninitialised-read", "k", "ptx:9", 2), ("uninitialised-read", "other", "*", 4)]
    expected += [("uninitialised-read", "*", "ptx:11", 5), ("barrier-count", "k", "*", 1)]
    for _ in range(2):
        assert sim.launch("k", 0, block=1) != 0
        # A finding that ends the run cannot be hidden.
        assert [f["kind"] for f in sim.findings] == ["barrier-count"]
        assert [rule[:4] for rule in rules_of(sim)] == expected
        assert [rule[4] for rule in rules_of(sim)] == [1, 0, 1, 0]
        sim.lib.sim_clear_findings(sim.sim)
        assert [rule[4] for rule in rules_of(sim)] == [0, 0, 0, 0]
        assert sim.findings == [] and sim.verdict == "clean"


def test_a_review_of_an_instruction_can_be_hidden():
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
    """The findings as printed text."""
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(str(path).encode(), b"w"))
    sim.lib.sim_print_findings(sim.sim, ctypes.c_size_t(0), file)
    libc.fclose(file)
    return path.read_text()


@pytest.mark.parametrize("more", [0, 1, 30])
def test_a_full_list_drops_reviews_for_errors_and_counts_them(more, tmp_path):
    reads = [READ.format(4 * i) for i in range(MOST + more)]
    sim = Sim(body("ld.param.u64 %rd1, [p];", *reads, "st.global.u32 [%rd1+4], %r1;", registers=ROOM))
    out = sim.buffer(np.zeros(1, np.uint32))
    for _ in range(2):  # again after clearing
        sim.launch("k", out, block=1)
        found = sim.findings
        assert len(found) == MOST and unlisted(sim) == more + 1
        assert [f["kind"] for f in found[:-1]] == ["uninitialised-read"] * (MOST - 1)
        assert found[-1]["kind"] == "out-of-bounds" and sim.verdict == "error"
        assert [f["ptx_line"] for f in found[:-1]] == list(range(10, 10 + MOST - 1))
        assert f"\n{more + 1} more findings are not listed" in printed(sim, tmp_path / "report")
        sim.lib.sim_clear_findings(sim.sim)
        assert unlisted(sim) == 0 and sim.findings == []
        assert "not listed" not in printed(sim, tmp_path / "report")


def test_a_list_full_of_errors_drops_none():
    begin = "mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r2, 32; @%p1 st.shared.u32 [cell], %r2;"
    races = ["@%p2 ld.shared.u32 %r1, [cell];"] * (MOST + 2)
    sim = Sim(body(begin, *races, READ.format(64), registers=ROOM))
    sim.launch("k", 0, block=64)
    assert {(f["kind"], f["verdict"]) for f in sim.findings} == {("read-after-write-race", "error")}
    assert [f["ptx_line"] for f in sim.findings] == list(range(10, 10 + MOST))
    assert unlisted(sim) == 4 and sim.verdict == "error"  # the last of them twice


def test_incomplete_findings_cannot_be_hidden():
    """A rule for such a kind would turn "not modelled" into "clean"."""
    unmodelled = "multimem.ld_reduce.relaxed.sys.global.add.f32 %f1, [%rd1];"
    sim = Sim(body("ld.param.u64 %rd1, [p];", unmodelled))
    assert suppress(sim, "multimem * *\n") == ""
    sim.launch("k", sim.buffer(np.zeros(4, np.uint32)))
    assert sim.verdict == "incomplete" and rules_of(sim)[0][-1] == 0
