"""Simulated time by machine code: the charges of a record, and the order that ptxas chose."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from simulator.python.machine_code.ptx import marked
from simulator.tests.clock.clock_kit import ANSWERS, CHIP, END, H200, NO_ANSWER, SPIN, START, machine_run, record
from simulator.tests.sim_kit import Sim, body

BAD_ARGUMENT = 1  # enum sim_status


def cycles(folder: Path, *lines: str, **charges) -> int:
    """Cycles between two clocks, where the given lines have these charges and all other instructions one slot."""
    text = body(START, *lines, END)

    def say(place: int, statement) -> str:
        ours = statement.text in lines
        return record(statement.line, statement.nth, place, **({"slots": 1, "before": 1} | (charges if ours else {})))

    folder.mkdir()
    return int(machine_run(text, folder, say)[0])


def test_an_instruction_takes_the_cycles_and_slots_that_its_record_says(tmp_path):
    adds = [f"add.u32 %r{i}, %r1, {i};" for i in range(10, 20)]
    few = cycles(tmp_path / "few", *adds, slots=1, before=1)
    assert cycles(tmp_path / "stalls", *adds, slots=1, before=7) - few == len(adds) * 6
    assert cycles(tmp_path / "slots", *adds, slots=5, before=1) - few == pytest.approx(len(adds) * 4, abs=1)
    assert cycles(tmp_path / "pipe", *adds, slots=1, before=1, special=1) - few == pytest.approx(
        (len(adds) - 1) * (CHIP["special_interval"] - 1), abs=CHIP["special_interval"]
    )


def test_the_cycles_before_the_first_of_a_block_begin_where_the_block_does(tmp_path):
    branch, add = "bra.uni NEXT;", "add.u32 %r9, %r1, 1;"
    text = body(START, branch, "NEXT:", add, END)

    def span(folder: str, before: int) -> int:
        def say(place: int, statement) -> str:
            own = {branch: {"after": 20}, add: {"before": before}}.get(statement.text, {})
            return record(statement.line, statement.nth, place, **({"slots": 1, "before": 1} | own))

        (tmp_path / folder).mkdir()
        return int(machine_run(text, tmp_path / folder, say)[0])

    assert span("late", 7) - span("early", 0) == 7


@pytest.mark.parametrize("place, latency", list(enumerate(ANSWERS)))
def test_an_answer_that_was_just_asked_for_is_waited_for(place, latency, tmp_path):
    (add,) = ["add.u32 %r9, %r1, 1;"]

    def takes(name: str, since: int) -> int:
        asked = (*NO_ANSWER[:place], since, *NO_ANSWER[place + 1 :])
        return cycles(tmp_path / name, add, slots=1, before=1, asked=asked)

    late = takes("late", NO_ANSWER[place])
    assert takes("at_once", 0) - late == CHIP[latency]
    assert takes("a_while_ago", 5) - late == CHIP[latency] - 5


LETS_GO = "griddepcontrol.launch_dependents;"
PARAMETER_LINES = 32  # behind them LDC's, the grid's sizes first
ADDS = [f"add.u32 %r{i}, %r1, {i};" for i in range(10, 14)]


def parameters_read(folder: Path, *lines: int, block: int = 32) -> np.ndarray:
    """Cycles of each warp for adds that read these lines of the launch's parameters."""
    text = body(
        START, *ADDS, "mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2; shr.u32 %r9, %r1, 5;",
        "mad.wide.u32 %rd5, %r9, 8, %rd1; st.global.u64 [%rd5], %rd4;",
    )  # fmt: skip

    def say(place: int, statement) -> str:
        own = {"parameters": lines[ADDS.index(statement.text)]} if statement.text in ADDS[: len(lines)] else {}
        return record(statement.line, statement.nth, place, slots=1, before=1, **own)

    folder.mkdir()
    return machine_run(text, folder, say, block=block)[: block // 32].astype(int)


def test_an_sm_fetches_each_line_of_a_launchs_parameters_once(tmp_path):
    none = parameters_read(tmp_path / "none")[0]
    first = parameters_read(tmp_path / "first", 1)[0] - none
    assert first == CHIP["parameters_l2"]
    assert parameters_read(tmp_path / "again", 1, 1, 1)[0] - none == first
    assert parameters_read(tmp_path / "another", 1, 2)[0] - none == first + CHIP["parameter_line"]
    assert parameters_read(tmp_path / "together", 0b111)[0] - none == first + 2 * CHIP["parameter_line"]
    assert parameters_read(tmp_path / "other_way", 1, 1 << 32)[0] - none == first + CHIP["parameter_line"]
    warps = parameters_read(tmp_path / "warps", 1, 2, block=128) - none
    assert all(warps <= first + CHIP["parameter_line"] + 8), "they wait for the same line"


def test_parameters_are_asked_for_when_a_warp_comes_to_them_whatever_others_do(tmp_path):
    """Warps 0 and 4 share a pipe, which the first one occupies two cycles of three."""
    work, reads = "xor.b32 %r20, %r20, 5;", ADDS[0]
    text = body(
        START, "shr.u32 %r9, %r1, 5; setp.ne.u32 %p1, %r9, 4; @%p1 bra OTHERS;", reads, "bra.uni END;",
        "OTHERS:", work * 600, "END: mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2;",
        "mad.wide.u32 %rd5, %r9, 8, %rd1; st.global.u64 [%rd5], %rd4;",
    )  # fmt: skip

    def say(place: int, statement) -> str:
        own = {work: {"alu": 1, "before": 3}, reads: {"alu": 1, "parameters": 1}}.get(statement.text, {})
        return record(statement.line, statement.nth, place, **({"slots": 1, "before": 1} | own))

    took = machine_run(text, tmp_path, say, block=160).astype(int)
    assert took[0] >= 600 * 3
    assert took[4] == pytest.approx(CHIP["parameters_l2"], abs=30)


def test_a_warp_that_comes_before_the_first_line_is_there_waits_for_it(tmp_path, chip):
    """Warp 1 reads another line 500 cycles after warp 0, in a launch whose first line takes 2,000 cycles."""
    work, reads = "xor.b32 %r20, %r20, 5;", ADDS[:2]
    text = body(
        START, "shr.u32 %r9, %r1, 5; setp.ne.u32 %p1, %r9, 0; @%p1 bra OTHER;", reads[0], "bra.uni END;",
        "OTHER:", work * 50, reads[1], "END: mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2;",
        "mad.wide.u32 %rd5, %r9, 8, %rd1; st.global.u64 [%rd5], %rd4;",
    )  # fmt: skip

    def say(place: int, statement) -> str:
        own = {work: {"before": 10}, reads[0]: {"parameters": 1}, reads[1]: {"parameters": 2}}.get(statement.text, {})
        return record(statement.line, statement.nth, place, **({"slots": 1, "before": 1} | own))

    folder = tmp_path / "code"
    folder.mkdir()
    took = machine_run(text, folder, say, chip=chip(parameters_l2=2000), block=64).astype(int)
    assert took[0] == pytest.approx(2000, abs=30)
    assert took[1] == pytest.approx(2000 + CHIP["parameter_line"], abs=30)


@pytest.mark.parametrize(
    ("early", "then", "late", "counted", "latency"),
    [
        ("", "", LETS_GO, 1, "parameters_l2"),
        (LETS_GO, "", "", 1, "parameters_late"),
        (LETS_GO, "", "", 50000, "parameters_l2"),
        (ADDS[1] + LETS_GO, "", "", 1, "parameter_line"),
        (LETS_GO, ADDS[1], "", 1, "parameters_late"),
    ],
)
def test_parameters_first_read_by_a_running_dependent_launch_take_longer(
    tmp_path, chip, early, then, late, counted, latency
):
    """Unless the other way of reading has read the line before. The launch begins when the trigger has been counted."""
    text = body(START, early, SPIN, then, "mov.u64 %rd2, %clock64;", ADDS[0], late, END)

    def span(folder: str, parameters: int) -> int:
        def say(place: int, statement) -> str:
            asks = {ADDS[0]: parameters, ADDS[1]: 1 << PARAMETER_LINES + 1}.get(statement.text, 0)
            return record(statement.line, statement.nth, place, slots=1, before=1, parameters=asks)

        (tmp_path / folder).mkdir()
        return int(machine_run(text, tmp_path / folder, say, chip=chip(cta_count_interval=counted))[0])

    assert span("some", 1) - span("none", 0) == CHIP[latency]


def test_a_dependent_launch_begins_when_all_ctas_have_let_it_go(tmp_path):
    """CTA 0 reads about 10,000 cycles after its own trigger, but before CTA 1's trigger."""
    short = SPIN.replace("20000", "10000")
    text = body(
        START, "mov.u32 %r9, %ctaid.x; setp.ne.u32 %p3, %r9, 0; @%p3 bra LATE;",
        "griddepcontrol.launch_dependents;", short, "mov.u64 %rd2, %clock64;", ADDS[0], "bra.uni END; LATE:", SPIN,
        "griddepcontrol.launch_dependents; END:", END,
    )  # fmt: skip

    def span(folder: str, parameters: int) -> int:
        def say(place: int, statement) -> str:
            own = {"parameters": parameters} if statement.text == ADDS[0] else {}
            return record(statement.line, statement.nth, place, slots=1, before=1, **own)

        (tmp_path / folder).mkdir()
        return int(machine_run(text, tmp_path / folder, say, grid=2)[0])

    assert span("some", 1) - span("none", 0) == CHIP["parameters_l2"]


def test_a_line_that_an_instruction_without_a_lane_reads_is_there_for_the_next_one(tmp_path):
    """The instruction without a lane has a predicate that is never true."""
    skipped = "@%p7 " + ADDS[0]
    text = body(START, "setp.ne.u32 %p7, 0, 0;", *[skipped] * 6, END)

    def span(folder: str, parameters: int) -> int:
        def say(place: int, statement) -> str:
            own = {"parameters": parameters} if statement.text == skipped else {}
            return record(statement.line, statement.nth, place, slots=1, before=1, **own)

        (tmp_path / folder).mkdir()
        return int(machine_run(text, tmp_path / folder, say)[0])

    assert span("some", 1) - span("none", 0) == CHIP["parameters_l2"]


@pytest.mark.parametrize(("l2_bytes", "far"), [(24 << 16, False), (1 << 16, True)])
def test_parameters_come_from_hbm_behind_a_launch_that_read_more_than_l2_holds(tmp_path, l2_bytes: int, far: bool):
    """Four launches read the same 256 KB, more than the smaller L2 holds."""
    chip = json.loads(H200.read_text())
    chip["parameters"]["l2_bytes"]["value"] = l2_bytes
    (tmp_path / "small.json").write_text(json.dumps(chip))
    text = body(
        "ld.param.u64 %rd1, [p]; ld.param.u64 %rd5, [q]; mov.u32 %r1, %tid.x; mov.u32 %r2, 0;",
        "mad.wide.u32 %rd5, %r1, 16, %rd5; L: ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd5];",
        "add.u64 %rd5, %rd5, 512; add.u32 %r2, %r2, 512;",
        "setp.lt.u32 %p1, %r2, 262144; @%p1 bra L; mov.u64 %rd2, %clock64;", ADDS[0], END,
        params=".param .u64 p, .param .u64 q",
    )  # fmt: skip

    def spans(parameters: int) -> list[int]:
        said = [
            record(at.line, at.nth, i, slots=1, before=1, parameters=parameters if at.text == ADDS[0] else 0)
            for i, at in enumerate(marked(text).statements)
        ]
        for source in tmp_path.glob("*.ptx"):
            source.with_suffix(".machine").write_text("\n".join(["machine-code 4", "function k 32", *said]) + "\n")
        sim = Sim(text, chip=str(tmp_path / "small.json"), machine_code=str(tmp_path))
        out, data = sim.buffer(np.zeros(4, np.uint64)), sim.buffer(np.zeros(1 << 18, np.uint8))
        took = []
        for _ in range(4):
            assert sim.launch("k", out, data, block=32) == 0, sim.findings
            took.append(int(out[0]))
        return took

    spans(0)  # which leaves the text
    more = np.subtract(spans(1), spans(0))
    near, from_hbm = CHIP["parameters_l2"], CHIP["parameters_hbm"]
    assert more == pytest.approx([near, *([from_hbm if far else near] * 3)], abs=12)


@pytest.mark.parametrize(
    ("store", "more"), [("u32 [%rd1+128], %r1", 0), ("v4.u32 [%rd1+128], {%r1, %r1, %r1, %r1}", 3)]
)
def test_an_instruction_waits_until_the_operands_of_a_store_have_been_read(tmp_path, store: str, more: int):
    """Reading a store's operands takes longer for each further 4 bytes a lane."""
    lines = [f"st.global.{store};", "add.u32 %r9, %r1, 1;"]

    def span(folder: str, waits: int) -> int:
        text = body(START, *lines, END)

        def say(place: int, statement) -> str:
            own = {lines[0]: {"opens": 2}, lines[1]: {"waits": waits}}.get(statement.text, {})
            return record(statement.line, statement.nth, place, slots=1, before=1, **own)

        (tmp_path / folder).mkdir()
        return int(machine_run(text, tmp_path / folder, say)[0])

    read = CHIP["operand_read"] + more * CHIP["operand_read_more"]
    assert span("waits", 1 << 2) - span("other", 1 << 3) == pytest.approx(read - 1, abs=1 if more else 0)


def test_instructions_run_in_the_order_of_machine_code_as_far_as_values_allow(tmp_path):
    """Two clock reads surround ten adds; machine code performs the second read first. Values are still those of PTX."""
    adds = [f"add.u32 %r{i + 1}, %r{i}, 1;" for i in range(10, 20)]
    late = "mov.u64 %rd9, %clock64;"
    text = body(
        START, "mov.u32 %r10, 5;", *adds, late, "sub.u64 %rd8, %rd9, %rd2;", "ld.param.u64 %rd1, [p];",
        "st.global.u64 [%rd1], %rd8;", "cvt.u64.u32 %rd7, %r20;", "st.global.u64 [%rd1+8], %rd7;",
    )  # fmt: skip

    def say(place: int, statement) -> str:
        first = statement.text == late
        return record(statement.line, statement.nth, 31 if first else 10 * place + 10, slots=1, before=5)

    out = machine_run(text, tmp_path, say)
    assert out[1] == 15
    assert 0 < out[0] < 10 * 5, "none of the adds lies between the clocks"


def test_what_machine_code_lacks_takes_no_time_and_a_missing_branch_is_a_predicate(tmp_path):
    lines = ["setp.lt.u32 %p1, %r1, 4;", "@%p1 bra SKIP;", "mov.u32 %r9, 7;", "add.u32 %r9, %r9, %r1;", "SKIP:"]
    text = body(
        START, "mov.u32 %r9, 1;", *lines, "ld.param.u64 %rd1, [p];", "mul.wide.u32 %rd5, %r1, 8;",
        "add.u64 %rd5, %rd1, %rd5;", "cvt.u64.u32 %rd7, %r9;", "st.global.u64 [%rd5], %rd7;",
    )  # fmt: skip

    def say(place: int, statement) -> str | None:
        absent = statement.text.startswith(("@%p1 bra", "mov.u32 %r9", "cvt"))
        return None if absent else record(statement.line, statement.nth, place, slots=1, before=1)

    assert machine_run(text, tmp_path, say)[:32].tolist() == [1 if i < 4 else 7 + i for i in range(32)]


@pytest.mark.parametrize(
    "wrong",
    [
        "machine-code 3",
        "machine-code 4\nfunction k",
        "machine-code 4\nfunction k 32\n1 1 1 1",
        "machine-code 4\nfunction k 32\n9999 1 1 1 1 1 1 1 1 1 1 1 -1 0 999 999 999 0",
    ],
)
def test_a_file_that_is_not_of_the_module_is_refused_in_words(tmp_path, wrong: str):
    text = body(START, END)
    out = np.zeros(4, np.uint64)
    sim = Sim(text, chip="h200", machine_code=str(tmp_path))
    assert sim.launch("k", sim.buffer(out), block=1) == 0
    (left,) = tmp_path.glob("*.ptx")
    left.with_suffix(".machine").write_text(wrong + "\n")
    sim = Sim(text, chip="h200", machine_code=str(tmp_path))
    assert sim.launch("k", sim.buffer(out), block=1) == BAD_ARGUMENT
    assert f"{left.stem}.machine: line {1 + wrong.count(chr(10))} is not machine code of this module" in sim.message()
