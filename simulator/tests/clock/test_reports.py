"""Reports of timed launches: the critical chain in a sentence, and a timeline for Perfetto."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import numpy as np
import pytest

from simulator.tests.sim_kit import Sim, body, compile_cuda

from .clock_kit import BARRIER, CHIP, INIT, MMA, OPERANDS, SHARED, SPIN, copy

TENSOR = "wgmma.fence.sync.aligned;" + MMA * 60 + "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"


def last_launch(sim: Sim, tmp_path) -> dict:
    """The last launch of the JSON report."""
    return json.loads(sim.report(tmp_path / "report.json"))["time"]["launches"][-1]


def test_the_chain_of_a_launch_adds_up_and_names_what_it_hung_on(tmp_path):
    sim = Sim(
        body("ld.param.u64 %rd1, [p];", OPERANDS, TENSOR, registers=SHARED), chip="h200", timeline=True
    )  # fmt: skip
    assert sim.launch("k", sim.buffer(np.zeros(64, np.uint64)), block=128) == 0
    launch = last_launch(sim, tmp_path)
    assert sum(launch["chain"].values()) == pytest.approx(sim.time.kernel_cycles + CHIP["cta_start"], abs=300)
    tensor = 60 * (CHIP["wgmma_read_a"] + 8 * CHIP["wgmma_read_column"])
    assert launch["chain"]["tensor cores"] == pytest.approx(tensor, rel=0.1)
    assert launch["critical"].startswith(("tensor cores", "tensor cores set the pace"))
    share = 100 * launch["chain"]["tensor cores"] / sum(launch["chain"].values())
    assert f"tensor cores {share:.0f} %" in launch["critical"] or f"tensor cores: {share:.0f} %" in launch["critical"]


def copied(copies: int, spins: int) -> Sim:
    """Warp 0 makes copies one after another; warp 1 waits for the last and then computes."""
    work = "shf.l.wrap.b32 %r5, %r5, %r5, %r5;" * spins + "st.shared.u32 [%r2], %r5;"
    lines = ["ld.param.u64 %rd5, [p]; mov.u32 %r9, %tid.x; setp.ne.u32 %p3, %r9, 0;",
             INIT.replace("mbarrier.init", "@!%p3 mbarrier.init"), "bar.sync 0; @%p3 bra DONE;",
             *(copy(65536 * i, 4096, i % 2, i) for i in range(copies)), "DONE: bar.sync 0;",
             "setp.lt.u32 %p3, %r9, 32; @%p3 bra OUT;", work, "OUT:"]  # fmt: skip
    sim = Sim(body(*lines, registers=BARRIER), chip="h200", timeline=True)
    assert sim.launch("k", sim.buffer(np.zeros(1 << 20, np.uint8)), block=64) == 0, sim.findings
    return sim


def test_a_wait_is_followed_back_to_the_copy_that_ended_it(tmp_path):
    launch = last_launch(copied(8, 10), tmp_path)
    far = dict(CHIP["copy_latency_hbm"])[4096]
    assert launch["chain"]["latency of copies"] == pytest.approx(8 * far, rel=0.05)  # by warp 1, which issued none
    assert launch["critical"].startswith("latency of copies")
    assert "instructions of warp 1" in last_launch(copied(1, 3000), tmp_path)["critical"].split(",")[0]


def looped(count: int, *statements: str, block: int = 32, before: str = "", registers: str = "", report: Path) -> dict:
    """The last launch of a kernel whose warp 0 repeats `statements`, one a line, while the others wait for it."""
    loop = "\n".join(("LOOP:", *statements, "add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, %r10; @%p1 bra LOOP;"))
    start = "mov.u32 %r9, 0; mov.f32 %f1, 0f3F800000; ld.param.u64 %rd1, [p]; mov.u64 %rd5, %rd1; mov.u32 %r1, %tid.x;"
    sim = Sim(
        body(start, before, f"mov.u32 %r10, {count}; setp.ge.u32 %p2, %r1, 32; @%p2 bra WAIT;", loop,
             "WAIT: bar.sync 0;", registers=registers),
        chip="h200",
    )  # fmt: skip
    assert sim.launch("k", sim.buffer(np.zeros(64, np.uint64)), block=block) == 0, sim.findings
    return last_launch(sim, report)


def cost(launch: dict, ptx: str) -> tuple[str, float]:
    """What the costliest line with that text took time for, and how many cycles."""
    line = next(line for line in launch["lines"] if line["ptx"].startswith(ptx))
    return line["cost"], line["share"] * sum(launch["chain"].values())


@pytest.mark.parametrize("block", [32, 64])
def test_the_lines_that_cost_most_are_those_of_the_warp_that_others_wait_for(tmp_path, block: int):
    chain = ("rcp.approx.f32 %f2, %f1;", "rcp.approx.f32 %f3, %f2;", "rcp.approx.f32 %f1, %f3;")
    launch = looped(1000, *chain, block=block, report=tmp_path)
    of = {**dict.fromkeys(chain[:2], ("latency of its result", CHIP["special_latency"])),
          "@%p1": ("until the next one issues", CHIP["branch_interval"])}  # fmt: skip
    for ptx, (name, cycles) in of.items():
        assert cost(launch, ptx) == (name, pytest.approx(1000 * cycles, rel=0.15))
    assert not [line for line in launch["lines"] if line["ptx"].startswith("bar.sync")]
    costs = [line["cost"] for line in launch["lines"] if line["ptx"] == chain[0]]
    assert costs == ["latency of its result", "until the next one issues"]


def test_the_writer_of_a_predicate_is_a_line_of_its_own(tmp_path):
    launch = looped(500, report=tmp_path)
    assert cost(launch, "setp.") == ("latency of its result", pytest.approx(500 * CHIP["alu_latency"], rel=0.2))


def test_shares_are_of_the_time_from_the_end_of_the_launch_before(tmp_path):
    short = looped(5, "rcp.approx.f32 %f1, %f1;", report=tmp_path)
    steps = short["chain"]
    assert steps["starts of CTAs"] == pytest.approx(CHIP["cta_start"], rel=0.1)  # more than the loop
    left = 1 - steps["starts of CTAs"] / sum(steps.values())
    assert 0.7 * left < sum(line["share"] for line in short["lines"]) <= 1.1 * left
    sim = Sim(body("griddepcontrol.launch_dependents; griddepcontrol.wait;", SPIN), chip="h200")
    for dependent in (0, 1):
        assert sim.launch("k", 0, block=1, dependent=dependent) == 0
    assert sum(line["share"] for line in last_launch(sim, tmp_path)["lines"]) == pytest.approx(1, abs=0.05)


def test_a_barrier_s_wake_up_is_a_cost_of_the_line_that_waited(tmp_path):
    """Two warps that are late by turns, each of which then waits for the other."""
    waits, completes = "bar.sync 1, 64;", "barrier.sync.aligned 1, 64;"
    late = "rcp.approx.f32 %f1, %f1;\n"
    again = "add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 100; @%p1 bra"
    text = body(
        "mov.u32 %r9, 0; mov.f32 %f1, 0f3F800000; mov.u32 %r1, %tid.x; setp.ge.u32 %p2, %r1, 32; @%p2 bra SECOND;",
        f"FIRST:\n{late}{completes}\n{waits}\n{again} FIRST; bra END;",
        f"SECOND:\n{waits}\n{late}{completes}\n{again} SECOND; END:",
    )
    sim = Sim(text, chip="h200")
    assert sim.launch("k", 0, block=64) == 0, sim.findings
    launch = last_launch(sim, tmp_path)
    woken = {line["ptx"] for line in launch["lines"] if line["cost"] == "barriers' wake-ups"}
    assert launch["chain"]["barriers' wake-ups"] > 0 and woken == {waits}, launch["lines"]


def test_a_load_of_shared_memory_is_a_line_with_the_latency_of_its_result(tmp_path):
    load, use = "ld.shared.u32 %r5, [%r5];", "add.u32 %r5, %r5, %r6;"
    before = "mov.u32 %r5, tile; mov.u32 %r6, tile; st.shared.u32 [%r5], 0; bar.sync 0;"
    launch = looped(100, load, use, before=before, registers=SHARED, report=tmp_path)
    latency = ("latency of its result", pytest.approx(100 * CHIP["shared_latency"], rel=0.1))
    assert cost(launch, load) == latency and "loads of global memory" not in launch["chain"]


def test_a_load_is_the_line_that_costs_most_only_if_something_waits_for_it(tmp_path):
    load, use = "ld.global.cg.u64 %rd5, [%rd5];", "add.u64 %rd5, %rd5, %rd1;"
    waits = looped(100, load, use, report=tmp_path)
    assert waits["lines"][0]["ptx"] == load
    assert cost(waits, "ld.") == ("loads of global memory", pytest.approx(100 * CHIP["l2_latency"], rel=0.1))
    moved = looped(100, load, "mov.b64 %rd6, %rd5;", "mov.b64 %rd5, %rd6;", use, report=tmp_path)
    assert moved["lines"][0]["ptx"] == load  # and not the move, which takes no time
    hidden = looped(100, load, "rcp.approx.f32 %f1, %f1;\n" * 40, use, report=tmp_path)
    assert hidden["lines"][0]["ptx"].startswith("rcp.")
    assert hidden["chain"].get("loads of global memory", 0) < 100


UNROLLED = r"""
extern "C" __global__ void k(float *p) {
    float x = 2;
#pragma unroll
    for (int i = 0; i < 200; i++)
        asm volatile("rcp.approx.f32 %0, %0;\nex2.approx.f32 %0, %0;" : "+f"(x));
    *p = x;
}
"""


def test_copies_of_an_instruction_that_unrolling_made_are_one_line(tmp_path):
    text = compile_cuda(UNROLLED, tmp_path)
    sim = Sim(text, chip="h200")
    assert sim.launch("k", sim.buffer(np.zeros(4, np.float32)), block=32) == 0
    launch = last_launch(sim, tmp_path)
    for ptx in ("rcp.", "ex2."):  # of one source line
        latency = ("latency of its result", pytest.approx(200 * CHIP["special_latency"], rel=0.1))
        assert cost(launch, ptx) == latency
    first = next(line for line in launch["lines"] if line["ptx"].startswith("rcp."))
    numbers = [i for i, line in enumerate(text.splitlines(), 1) if "rcp.approx" in line]
    assert first["ptx_line"] in numbers[:20] and len(numbers) == 200
    written = next(i for i, line in enumerate(UNROLLED.splitlines(), 1) if "rcp.approx" in line)
    assert first["source"].endswith(f":{written}")


def test_a_copy_that_was_waited_for_is_the_line_that_costs_most(tmp_path):
    launch = last_launch(copied(8, 10), tmp_path)
    copies = launch["chain"]["latency of copies"] / sum(launch["chain"].values())
    for line in launch["lines"]:
        assert line["ptx"].startswith("cp.async.bulk") and line["cost"] == "latency of copies"
        assert line["share"] == pytest.approx(copies / 8, abs=0.03)


def test_the_text_has_the_costliest_lines_with_the_line_of_the_ptx(tmp_path):
    text = body("mov.u32 %r9, 0;\nLOOP: add.u32 %r9, %r9, 1;", "setp.lt.u32 %p1, %r9, 500;\n@%p1 bra LOOP;")
    sim = Sim(text, chip="h200")
    assert sim.launch("k", 0, block=32) == 0
    lines = sim.report(tmp_path / "report.txt", "sim_print_summary").splitlines()
    number = 1 + text[: text.index("@%p1")].count("\n")
    first = lines[lines.index("simulated, lines of that chain:") + 1]
    assert first.split(" %  ")[1] == f"PTX line {number}, until the next one issues: @%p1 bra LOOP;"


def test_a_dependent_launch_does_not_count_what_it_spends_beside_the_one_before(tmp_path):
    sim = Sim(body("griddepcontrol.launch_dependents; griddepcontrol.wait;", SPIN), chip="h200")
    for dependent in (0, 1):
        assert sim.launch("k", 0, block=1, dependent=dependent) == 0
    launch = last_launch(sim, tmp_path)
    assert launch["chain"]["the launch before"] > 15000
    assert launch["critical"].startswith("instructions of warp 0: 100 %")


def test_every_report_says_that_it_is_simulated_and_how_far_off(tmp_path):
    sim = copied(1, 10)
    time = json.loads(sim.report(tmp_path / "report.json"))["time"]
    assert (time["evidence"], time["chip"]) == ("simulated", "h200")
    assert "%" in time["error"]
    lines = sim.report(tmp_path / "report.txt", "sim_print_summary").splitlines()
    assert any(line.startswith("simulated, critical: latency of copies") for line in lines)
    assert any(line.startswith("simulated, not measured") and time["error"] in line for line in lines)
    assert [line for line in lines if "cycles" in line] == [
        line for line in lines if "cycles" in line and line.startswith("simulated")
    ]
    trace = json.loads(sim.report(tmp_path / "trace.json", "sim_print_timeline"))
    assert trace["otherData"]["evidence"] == "simulated" and trace["otherData"]["error"] == time["error"]


# Members that the trace-event format requires in each phase, besides ph, name and pid.
MEMBERS = {"X": {"tid", "ts", "dur"}, "b": {"cat", "id", "ts"}, "e": {"cat", "id", "ts"}, "C": {"ts", "args"},
           "M": {"args"}}  # fmt: skip


def test_the_timeline_has_the_members_of_the_trace_event_format(tmp_path):
    sim = copied(3, 500)
    trace = json.loads(sim.report(tmp_path / "trace.json", "sim_print_timeline"))
    events = trace["traceEvents"]
    assert {event["ph"] for event in events} == set(MEMBERS)
    open_slices = set()
    for event in events:
        assert {"ph", "name", "pid"} | MEMBERS[event["ph"]] <= set(event)
        assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0
        if event["ph"] == "b":
            open_slices.add((event["cat"], event["id"]))
        elif event["ph"] == "e":
            open_slices.remove((event["cat"], event["id"]))
    assert not open_slices and trace["otherData"]["events_lost"] == 0
    loads = [event for event in events if event["ph"] == "b" and event["name"] == "bulk load"]
    assert len(loads) == 3
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names >= {"warp 0", "warp 1", "CTA 0 (simulated)", "units of CTA 0's SM (simulated)", "chip (simulated)"}
    # A warp's waits lie within its life.
    lives = {event["tid"]: event for event in events if event["name"] == "warp"}
    for event in events:
        if event["ph"] == "X":
            life = lives[event["tid"]]
            assert life["ts"] - 1e-3 <= event["ts"]
            assert event["ts"] + event["dur"] <= life["ts"] + life["dur"] + 1e-3


def test_a_timeline_is_bounded_and_says_what_it_lost():
    sim = Sim(body("mov.u32 %r9, 0; L: bar.sync 0; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 1100; @%p1 bra L;"),
              chip="h200", timeline=True)  # fmt: skip
    assert sim.launch("k", 0, block=1024) == 0
    assert sim.lib.sim_spans_lost(sim.sim) > 1000
    last, room = (1 << 15) - 1, ctypes.create_string_buffer(256)
    assert [sim.lib.sim_span(sim.sim, ctypes.c_size_t(at), room) & 1 for at in (last, last + 1)] == [1, 0]
