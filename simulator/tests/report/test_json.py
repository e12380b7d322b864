"""The JSON report has a key for each member of the structs in sim.h, and escapes special characters."""

from __future__ import annotations

import ctypes
import json
import re

import numpy as np
import pytest

from simulator.tests.report.test_report_counters import CLASSES
from simulator.tests.sim_kit import ROOT, Counters, Sim, body

HEADER = (ROOT / "simulator/sim.h").read_text()


def members(struct: str) -> list[str]:
    """The names that a struct of sim.h declares, in order."""
    text = HEADER[HEADER.index(f"struct {struct} {{") :]
    text = re.sub(r"/\*.*?\*/", "", text[: text.index("};")], flags=re.S)
    names = []
    for declaration in re.findall(r"^\s*(?:const |enum |struct )?\w+ ([^;{]+);", text, flags=re.M):
        names += [re.sub(r"\[.*", "", name).strip(" *") for name in declaration.split(",")]
    return names


def everything_counted(tmp_path) -> Sim:
    """Runs a kernel that makes every counter nonzero."""
    sim = Sim(
        body(
            "mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; mov.u32 %r3, tile; add.u32 %r4, %r3, %r2; mov.u32 %r5, 0;",
            "ld.param.u64 %rd1, [p]; ld.global.u32 %r6, [%rd1]; st.global.u32 [%rd1], %r6; st.local.u32 [depot], %r1;",
            "st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5}; fence.proxy.async; bar.sync 0; ld.shared.u32 %r6, [%r3];",
            "shr.u32 %r7, %r3, 4; cvt.u64.u32 %rd5, %r7;"
            " or.b64 %rd5, %rd5, 0x0000000800080000; mov.f32 %f9, 0f00000000;",
            "add.f32 %f9, %f9, %f9; atom.global.add.u32 %r8, [%rd1+64], 1; shfl.sync.idx.b32 %r8, %r1, 0, 31, -1;",
            "setp.ne.u32 %p1, %r5, 0; setp.ne.u32 %p2, %r1, 0; wgmma.fence.sync.aligned;",
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd5, %rd5, %p1, 1, 1, 0, 0;",
            "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mov.u32 %r9, bar; @%p2 bra END;",
            "mbarrier.init.shared.b64 [%r9], 1; fence.mbarrier_init.release.cluster;",
            "mbarrier.arrive.expect_tx.shared.b64 _, [%r9], 16;",
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 16, [%r9];",
            "TRY: mbarrier.try_wait.parity.shared.b64 %p3, [%r9], 0; @!%p3 bra TRY;",
            "cp.async.bulk.global.shared::cta.bulk_group [%rd1+128], [%r3], 16; cp.async.bulk.commit_group;",
            "cp.async.bulk.wait_group 0; END:",
            registers=".shared .align 128 .b8 tile[2048]; .shared .align 8 .b8 bar[8]; .local .align 8 .b8 depot[8];",
        )
    )
    assert sim.launch("k", sim.buffer(np.zeros(256, np.uint32)), block=128, grid=2) == 0, sim.findings
    return sim


def test_every_counter_is_in_the_report_by_its_name(tmp_path):
    sim = everything_counted(tmp_path)
    report = json.loads(sim.report(tmp_path / "report.json"))
    assert list(report) == ["verdict", "counters", "findings", "found", "suppressions", "not_checked"]
    assert report["not_checked"] == ["races on global memory between lanes of one warp in no regular order"]
    renamed = {"by_class": "instructions_by_class", "by_warp": "instructions_by_warp"}
    names = members("sim_counters")
    assert [name for name, _ in Counters._fields_] == names
    assert set(report["counters"]) == {renamed.get(name, name) for name in names}
    counters = sim.counters
    for name in names:
        if name not in renamed and name not in ("seconds", "cpu_seconds"):
            assert report["counters"][name] == getattr(counters, name) > 0, name
    assert report["counters"]["seconds"] == pytest.approx(counters.seconds, abs=1e-6)
    by_class = report["counters"]["instructions_by_class"]
    assert list(by_class) == CLASSES
    assert list(by_class.values()) == list(counters.by_class)[: len(CLASSES)]
    assert all(by_class.values()), by_class
    for at, warp in enumerate(report["counters"]["instructions_by_warp"]):
        assert warp.pop("index") == at
        assert warp.pop("instructions") == sum(counters.by_warp[at])
        assert warp == {CLASSES[i]: n for i, n in enumerate(counters.by_warp[at]) if n > 0}


AWKWARD = 'a "quoted" back\\slash,\ta tab,\na line and \x01'
FOUND = body(
    '.file 1 "first.cu"\n.file 2 "second.cuh"\n',
    "mov.u32 %r1, %tid.x; mov.u32 %r2, cell; setp.lt.u32 %p1, %r1, 32;\n.loc 1 11 3",
    "@%p1 st.shared.u32 [%r2], %r2;\n.loc 2 22 5",
    "@!%p1 ld.shared.u32 %r3, [%r2];",
    registers=".shared .align 8 .b8 cell[8];",
).replace('.file 1 "first.cu"\n.file 2 "second.cuh"\n', "")
FOUND += '.file 1 "first.cu"\n.file 2 "second.cuh"\n'


def test_every_member_of_a_finding_is_in_the_report(tmp_path):
    sim = Sim(FOUND)
    sim.launch("k", 0, block=64, grid=(1, 2, 3))
    sim.launch("k", 0, block=64)
    report = json.loads(sim.report(tmp_path / "report.json"))
    assert [set(f) for f in report["findings"]] == [set(members("sim_finding")) | {"name", "advice"}] * len(
        sim.findings
    )
    (found,), (finding,) = report["findings"], sim.findings
    for name in members("sim_finding"):
        assert found[name] == (list(finding[name]) if name == "cta" else finding[name]), name
    lines = FOUND.splitlines()
    at, other = (1 + next(i for i, line in enumerate(lines) if word in line) for word in ("ld.shared", "st.shared"))
    assert (found["verdict"], found["kind"], found["kernel"]) == ("error", "read-after-write-race", "k")
    assert (found["ptx_line"], found["other_ptx_line"]) == (at, other)
    assert (found["source"], found["other_source"]) == ("second.cuh:22", "first.cu:11")
    assert found["ptx"] == "@!%p1 ld.shared.u32 %r3, [%r2];"
    assert found["other_ptx"] == "@%p1 st.shared.u32 [%r2], %r2;"
    assert (found["warp"], found["lane"], found["offset"], found["times"]) == (1, -1, 1024, 7)
    assert found["cta"] == [0, 0, 0]
    assert report["verdict"] == "error"


INLINED = FOUND.replace(".loc 2 22 5", ".loc 2 22 5, function_name $name, inlined_at 1 33 7")


@pytest.mark.parametrize(
    ("text", "place", "hidden"),
    [
        (FOUND, "*", True),
        (FOUND, "second.cuh:22", True),
        (FOUND, "second.*", True),
        (FOUND, "second.cuh:2", False),
        (FOUND, "first.cu:11", True),  # the place of the other access
        (FOUND, "ptx:LINE", True),
        (FOUND, "ptx:1LINE", False),
        (INLINED, "second.cuh:22", True),
        (INLINED, "first.cu:33", True),
        (INLINED, "first.cu:12", False),
        (INLINED, "second.cuh:33", False),
    ],
)
def test_a_suppression_matches_source_ptx_and_caller_lines(text, place, hidden):
    line = 1 + next(i for i, words in enumerate(text.splitlines()) if "ld.shared" in words)
    sim = Sim(text)
    message = ctypes.create_string_buffer(200)
    rule = f"read-after-write-race k {place.replace('LINE', str(line))}"
    assert sim.lib.sim_suppress(sim.sim, rule.encode(), message, ctypes.c_size_t(len(message))) == 0, message.value
    sim.launch("k", 0, block=64)
    assert sim.verdict == ("clean" if hidden else "error"), sim.findings
    if text is INLINED and not hidden:
        assert sim.findings[0]["source"] == "second.cuh:22 inlined at first.cu:33"


def test_the_place_of_a_finding(tmp_path):
    text = body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z; setp.ne.u32 %p1, %r1, 37; @%p1 bra END;",
        "setp.ne.u32 %p1, %r2, 1; @%p1 bra END; setp.ne.u32 %p1, %r3, 2; @%p1 bra END; trap; END:",
    )
    sim = Sim(text)
    sim.launch("k", 0, block=64, grid=(1, 2, 3))
    (found,) = json.loads(sim.report(tmp_path / "report.json"))["findings"]
    assert (found["cta"], found["warp"], found["lane"]) == ([0, 1, 2], 1, 5)
    assert (found["other_ptx_line"], found["other_source"], found["source"]) == (0, "", "")


def test_awkward_characters_are_escaped(tmp_path):
    sim = Sim(body("ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1+32];"))
    array = sim.register(np.zeros(4, np.uint32), AWKWARD)
    sim.launch("k", array, block=1)
    text = sim.report(tmp_path / "report.json")
    (found,) = json.loads(text)["findings"]
    assert AWKWARD in sim.findings[0]["message"]
    assert found["message"] == sim.findings[0]["message"]
    assert "\n" not in text.rstrip("\n")


def test_the_verdict_is_the_worst_and_error_outranks_incomplete():
    registers = ".shared .align 8 .b8 cell[8];"
    review = "mov.u32 %r2, cell; ld.shared.u32 %r1, [%r2];"
    sim = Sim(body(review, registers=registers))
    assert sim.verdict == "clean"
    sim.launch("k", 0)
    assert (sim.verdict, sim.kinds) == ("review", {"uninitialised-read"})
    sim = Sim(body(review, "trap;", registers=registers))
    sim.launch("k", 0)
    assert (sim.verdict, sim.kinds) == ("error", {"uninitialised-read", "trap"})
    many = "".join("mbarrier.init.shared.b64 [%r2], 1; add.u32 %r2, %r2, 8;" for _ in range(513))
    sim = Sim(body("mov.u32 %r2, cell;", many, registers=".shared .align 8 .b8 cell[4200];"))
    sim.launch("k", 0, block=1)
    assert sim.verdict == "incomplete"
    sim.launch("nowhere")
    assert sim.verdict == "error"


def test_an_inlined_instruction_names_its_own_line_and_the_callers(tmp_path):
    text = body(".loc 1 11 3, function_name NAME, inlined_at 2 22 7\ntrap;", before=".global .u32 NAME;")
    text += '.file 1 "wrapper.cuh"\n.file 2 "kernel.cu"\n'
    sim = Sim(text)
    sim.launch("k", 0)
    (found,) = json.loads(sim.report(tmp_path / "report.json"))["findings"]
    assert found["source"] == "wrapper.cuh:11 inlined at kernel.cu:22"
