"""Simulated time, by machine code, of MMAs with A in registers and of what issues during them, and limits by registers.
Expected times are worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from simulator.python.machine_code.ptx import marked
from simulator.tests.clock.clock_kit import CHIP, H200, SHARED, machine_run, record
from simulator.tests.sim_kit import Sim, body

SUMS = ", ".join(f"%sum{i}" for i in range(32))
ROOM = SHARED + " .reg .f32 %sum<32>;"
TILE = "mov.u32 %r2, tile; shr.u32 %r5, %r2, 4; cvt.u64.u32 %rd5, %r5; or.b64 %rd5, %rd5, 0x0000000800080000;"
ZERO = "".join(f"mov.b32 %r{i}, 0;" for i in (6, 7, 8, 9)) + "setp.ne.u32 %p1, 0, 0;"
START = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; fence.proxy.async; bar.sync 0; mov.u64 %rd2, %clock64;"
STOP = "mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2; shr.u32 %r10, %r1, 7; mad.wide.u32 %rd6, %r10, 8, %rd1;"
FENCE, COMMIT = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"
WAIT = "wgmma.wait_group.sync.aligned 0;"
MMA = "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%s}, %s, %%rd5, %%p1, 1, 1, %s;"
REGISTERS = MMA % (SUMS, "{%r6, %r7, %r8, %r9}", "0")
FROM_SHARED = MMA % (SUMS, "%rd5", "0, 0")
WORK = "shf.l.wrap.b32 %r11, %r6, %r7, 3;"
STEP = 64 * CHIP["wgmma_column"]
LATENCY = json.loads(H200.read_text())["parameters"]["wgmma_latency_registers"]["machine"]


def left(folder: Path, *lines: str, groups: int = 1, stalls: dict[str, int] | None = None, **of_work) -> list[int]:
    """Cycles of each warpgroup from START to STOP; every instruction takes one slot, those of WORK also the given
    charges."""
    text = body(START.replace("mov.u64 %rd2", TILE + ZERO + "mov.u64 %rd2"), *lines, registers=ROOM)
    stalls = stalls or {}

    def say(place: int, statement) -> str:
        own = of_work if statement.text == WORK else {}
        before = {"before": stalls.get(statement.text, 1)}
        return record(statement.line, statement.nth, place, **({"slots": 1} | before | own))

    folder.mkdir()
    return machine_run(text, folder, say, block=128 * groups)[:groups].astype(int).tolist()


def stored(*lines: str) -> tuple[str, ...]:
    """The lines and the clock after them, stored by each warpgroup's first warp."""
    return (*lines, STOP, WAIT, "and.b32 %r10, %r1, 127; setp.lt.u32 %p6, %r10, 32; @%p6 st.global.u64 [%rd6], %rd4;")


def start_of_mmas(folder: Path) -> float:
    """Cycles from the first warp's start until its warpgroup's MMA runs; the barrier releases the other warps later."""
    return left(folder, *stored(FENCE, REGISTERS, COMMIT, WAIT))[0] - STEP - LATENCY


@pytest.mark.parametrize("pipes", [{"alu": 1}, {"fma": 1}, {"half": 1}])
def test_beside_an_mma_with_a_in_registers_what_computes_issues_every_fourth_cycle(tmp_path, pipes):
    count = 60
    few = stored(FENCE, REGISTERS * 12, COMMIT)
    more = stored(FENCE, REGISTERS * 12, COMMIT, WORK * count)
    took = left(tmp_path / "more", *more, **pipes)[0] - left(tmp_path / "few", *few, **pipes)[0]
    each = {"alu": CHIP["alu_interval"], "fma": CHIP["fma_interval"], "half": CHIP["half_interval"]}[next(iter(pipes))]
    until = start_of_mmas(tmp_path / "start") - 12  # behind twelve slots of MMAs
    assert took == pytest.approx(until + (count - until / each) * CHIP["wgmma_dispatch"], abs=12)
    assert took < 12 * STEP


def test_beside_an_mma_with_a_in_shared_memory_it_issues_as_always(tmp_path):
    few, more = stored(FENCE, FROM_SHARED * 8, COMMIT), stored(FENCE, FROM_SHARED * 8, COMMIT, WORK * 40)
    took = left(tmp_path / "more", *more, alu=1)[0] - left(tmp_path / "few", *few, alu=1)[0]
    assert took == pytest.approx(40 * CHIP["alu_interval"], abs=3)


def test_what_computes_nothing_comes_between_and_holds_nothing_up(tmp_path):
    """Instructions without a pipe between each two others; all of them fit into the cycles between the others."""
    other = "mov.u32 %r12, 5;"
    alone = stored(FENCE, REGISTERS * 12, COMMIT, WORK * 40)
    between = stored(FENCE, REGISTERS * 12, COMMIT, (WORK + other) * 40)
    took = left(tmp_path / "between", *between, alu=1)[0] - left(tmp_path / "alone", *alone, alu=1)[0]
    assert took <= CHIP["wgmma_start"]


def test_mmas_with_registers_leave_their_warp_at_once_and_run_one_after_another(tmp_path):
    issued = [left(tmp_path / f"{n}", *stored(FENCE, REGISTERS * n, COMMIT))[0] for n in (1, 9)]
    assert issued[1] - issued[0] == pytest.approx(8, abs=1)
    waited = [left(tmp_path / f"w{n}", *stored(FENCE, REGISTERS * n, COMMIT, WAIT))[0] for n in (1, 9)]
    assert waited[1] - waited[0] == pytest.approx(8 * STEP, abs=1)
    assert 0 <= waited[0] - (CHIP["wgmma_start"] + STEP + LATENCY) < 30  # the other warps are later


def test_a_warpgroup_keeps_the_tensor_cores_while_its_next_mma_comes_in_time(tmp_path):
    """Warpgroup 0 issues two MMAs between the first and the second one of warpgroup 1, which starts later."""
    second, between = (REGISTERS.replace("%p1, 1, 1", f"%p{i}, 1, 1") for i in (2, 3))
    lines = stored(
        "setp.ne.u32 %p2, 0, 0; setp.ne.u32 %p3, 0, 0; setp.ge.u32 %p5, %r1, 128; @%p5 bra ONE;",
        FENCE, between, REGISTERS, COMMIT, WAIT, "bra END; ONE:", FENCE, REGISTERS, second, COMMIT, WAIT, "END:",
    )  # fmt: skip
    other, kept = left(tmp_path / "both", *lines, groups=2, stalls={between: 45, second: 30})
    assert kept + STEP < other, "in the order of their issue its second one would be last"


@pytest.mark.parametrize(("count", "few"), [(2, True), (24, False)])
def test_few_loads_of_shared_memory_come_between_reads_of_mmas_and_many_behind(tmp_path, count, few):
    loads = "".join(f"ld.shared.v4.u32 {{%r12, %r13, %r14, %r15}}, [%r16+{i % 12 * 2048}];" for i in range(count))
    place = "shl.b32 %r16, %r1, 4; add.u32 %r16, %r16, %r2;"
    use = "add.u32 %r11, %r12, %r15;"
    took = []
    for mma in ("", REGISTERS * 28):
        spin = WORK * (12 if mma else 0)  # until the first one runs
        lines = stored(place, FENCE, mma, COMMIT, spin, "mov.u64 %rd2, %clock64;", loads, use)
        took.append(left(tmp_path / f"{len(took)}", *lines, alu=1)[0])
    wavefronts, ahead = count * 4 * 4, CHIP["wgmma_reads_ahead"]  # four warps, 512 bytes each time
    share = CHIP["wgmma_column"] / (CHIP["wgmma_column"] - CHIP["wgmma_read_column"])
    if few:
        assert took[1] == pytest.approx(took[0], abs=8)
    else:
        assert took[1] == pytest.approx(ahead + (wavefronts - ahead) * share + CHIP["shared_latency"], abs=24)
        assert took[0] < took[1] - 100


def test_a_launch_begins_without_the_mmas_of_the_one_that_it_overlaps(tmp_path):
    """Slots and tensor cores that overlapping launches do share are tested in test_overlap.py."""
    text = body(
        START.replace("mov.u64 %rd2", TILE + ZERO + "mov.u64 %rd2"),
        "griddepcontrol.launch_dependents; ld.param.u64 %rd7, [q]; ld.global.u64 %rd7, [%rd7];"
        "setp.eq.u64 %p4, %rd7, 0; @%p4 bra COMPUTE; mov.u32 %r12, 0;",
        f"LOOP: {FENCE} {REGISTERS * 8} {COMMIT} {WAIT} add.u32 %r12, %r12, 1;",
        "setp.lt.u32 %p5, %r12, 200; @%p5 bra LOOP;",
        "bra END; COMPUTE: mov.u64 %rd2, %clock64;", WORK * 100, STOP, "st.global.u64 [%rd1], %rd4; END:",
        registers=ROOM, params=".param .u64 p, .param .u64 q",
    )  # fmt: skip
    chip = json.loads(H200.read_text())
    chip["parameters"]["sms"]["value"] = 1
    (tmp_path / "one.json").write_text(json.dumps(chip))
    took = []
    for launches in ([1, 0], [1, 0], [0]):
        sim = Sim(text, chip=str(tmp_path / "one.json"), machine_code=str(tmp_path))
        out = sim.buffer(np.zeros(8, np.uint64))
        for i, multiplies in enumerate(launches):
            flag = sim.buffer(np.array([multiplies], np.uint64))
            assert sim.launch("k", out, flag, block=128, dependent=i) == 0, sim.findings
        took.append(int(out[0]))
        for source in tmp_path.glob("*.ptx"):
            said = [
                record(at.line, at.nth, i, slots=1, before=1, alu=float(at.text == WORK))
                for i, at in enumerate(marked(text).statements)
            ]
            source.with_suffix(".machine").write_text("\n".join(["machine-code 4", "function k 32", *said]) + "\n")
    assert took[1] == took[2] == pytest.approx(100 * CHIP["alu_interval"], abs=8)


SPUN = 20000  # ns that a CTA stays
SPINS = (
    "ld.param.u64 %rd1, [p]; griddepcontrol.launch_dependents; mov.u64 %rd2, %globaltimer;"
    f"{{L: mov.u64 %rd3, %globaltimer; sub.u64 %rd3, %rd3, %rd2; setp.lt.u64 %p1, %rd3, {SPUN}; @%p1 bra L;}}"
    "mov.u32 %r1, %ctaid.x; mad.wide.u32 %rd1, %r1, 8, %rd1; st.global.u64 [%rd1], %rd2;"
)


@pytest.mark.parametrize(("registers", "beside"), [(128, True), (136, False)])
@pytest.mark.parametrize("launches", [1, 2])
def test_a_ctas_registers_have_to_be_free(tmp_path, launches: int, registers: int, beside: bool):
    """Two CTAs of 256 threads on one SM with 65,536 registers, of one launch or of two dependent ones."""
    chip = json.loads(H200.read_text())
    chip["parameters"]["sms"]["value"] = 1
    (tmp_path / "one.json").write_text(json.dumps(chip))
    apart = []
    for attempt in range(2):
        sim = Sim(body(SPINS), chip=str(tmp_path / "one.json"), machine_code=str(tmp_path))
        outs = [sim.buffer(np.zeros(8, np.uint64)) for _ in range(launches)]
        for i, out in enumerate(outs):
            assert sim.launch("k", out, block=256, grid=2 // launches, dependent=i) == 0, sim.findings
        starts = [int(start) for out in outs for start in out[: 2 // launches]]
        apart.append(starts[1] - starts[0])
        if attempt == 0:
            (source,) = tmp_path.glob("*.ptx")
            source.with_suffix(".machine").write_text(f"machine-code 4\nfunction k {registers}\n")
    assert apart[0] < SPUN, "their number is not known"
    assert (apart[1] < SPUN) == beside


@pytest.mark.parametrize("of_memory", [True, False])
def test_a_clusters_arrival_behind_copies_that_have_come_fences_those_of_memory(tmp_path, of_memory: bool):
    """With machine code, the arrival adds the difference to an idle fence, which is part of the barrier's latency."""
    machine = json.loads(H200.read_text())["parameters"]
    text = (
        "ld.param.u64 %rd1, [p]; ld.param.u64 %rd5, [q]; mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, full;"
        "setp.eq.u32 %p3, %r1, 0;"
        "@%p3 mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster; bar.sync 0;"
        "mov.u32 %r6, %cluster_ctarank; xor.b32 %r6, %r6, 1; add.u32 %r4, %r2, 1024;"
        "mapa.shared::cluster.u32 %r4, %r4, %r6; mapa.shared::cluster.u32 %r5, %r3, %r6;"
        "barrier.cluster.arrive.relaxed; barrier.cluster.wait.acquire;",
        "setp.ne.u32 %p1, %r1, 0; @%p1 bra W; mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 1024;"
        f"cp.async.bulk.shared::cluster.{'global' if of_memory else 'shared::cta'}.mbarrier::complete_tx::bytes "
        f"{'[%r2], [%rd5], 1024, [%r3]' if of_memory else '[%r4], [%r2], 1024, [%r5]'};",
        "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W; bar.sync 0;",
        "mov.u64 %rd2, %clock64; barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"
        "mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2; st.global.u64 [%rd1], %rd4;",
    )
    took = []
    for copies in (0, 1):
        whole = body(
            text[0], *(text[1:3] if copies else ()), text[3], params=".param .u64 p, .param .u64 q",
            registers=".shared .align 1024 .b8 tile[2048]; .shared .align 8 .b64 full;",
        )  # fmt: skip
        folder = tmp_path / f"{copies}"
        folder.mkdir()
        for _ in range(2):
            sim = Sim(whole, chip="h200", machine_code=str(folder))
            out = sim.buffer(np.zeros(8, np.uint64))
            assert sim.launch("k", out, sim.buffer(np.zeros(1024, np.uint8)), grid=2, block=256, cluster=2) == 0
            for source in folder.glob("*.ptx"):
                source.with_suffix(".machine").write_text("machine-code 4\nfunction k 32\n")
        took.append(int(out[0]))
    more = machine["fence_gpu_copies"]["machine"] - machine["fence_gpu"]["machine"] if of_memory else 0
    assert took[1] - took[0] == pytest.approx(more, abs=40)  # 256 threads arrive at different times


@pytest.mark.parametrize("mma", [REGISTERS, FROM_SHARED], ids=["registers", "shared"])
def test_a_warp_leaves_an_mma_when_the_last_one_of_its_warpgroup_is_there(tmp_path, mma: str):
    count = 400
    late = "setp.lt.u32 %p2, %r1, 96; @%p2 bra THERE;" + WORK * count + "THERE:"
    behind = "mov.u32 %r12, 5;"
    at_once = left(tmp_path / "at_once", *stored(FENCE, mma, behind))[0]
    apart = left(tmp_path / "apart", *stored(late, FENCE, mma, behind))[0]
    assert apart - at_once == pytest.approx(count, abs=20)


def test_a_warpgroup_does_not_wait_for_the_warps_of_another(tmp_path):
    late = "setp.lt.u32 %p2, %r1, 128; @%p2 bra THERE;" + WORK * 100 + "THERE:"
    lines = stored(late, FENCE, REGISTERS, "mov.u32 %r12, 5;")
    first, second = left(tmp_path / "two", *lines, groups=2, stalls={WORK: 4})
    assert first < 100 and second > 400
