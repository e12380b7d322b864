"""tcgen05.mma on the simulated B200 compared with published measurements; TMEM loads compared with the chip file."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simulator.calibration.rows import CHIPS, load, parameters_of
from simulator.tests.sim_kit import HEADER, Sim

B200 = {name: entry["value"] for name, entry in parameters_of("b200").items()}
ROWS = load("b200")
BYTES = 65536
KERNEL = (
    HEADER.replace("sm_90a", "sm_100a")
    + ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %rd<9>;\n"
    f".shared .align 1024 .b8 tile[{BYTES}]; .shared .align 8 .b8 bar[8]; .shared .align 4 .b32 slot;\n"
    "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; setp.ge.u32 %p2, %r1, 32; shr.u32 %r3, %r1, 5; mov.u32 %r4, tile;"
    " mov.u32 %r7, bar; ld.param.u64 %rd1, [p]; mov.u32 %r9, 0; mov.u32 %r10, %r1;\n"
    "Z: shl.b32 %r11, %r10, 2; add.u32 %r11, %r11, %r4; st.shared.u32 [%r11], %r9; add.u32 %r10, %r10, 128;"
    f" setp.lt.u32 %p3, %r10, {BYTES // 4}; @%p3 bra Z;\n"
    "@%p1 mbarrier.init.shared.b64 [%r7], 1; @%p1 fence.mbarrier_init.release.cluster; fence.proxy.async;\n"
    "@%p2 bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512; A: bar.sync 0;\n"
    "ld.shared.u32 %r5, [slot]; shl.b32 %r6, %r3, 21; add.u32 %r6, %r6, %r5; setp.ne.u32 %p6, 0, 0;\n"
    "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;\n"
    "mov.b64 %rd3, 0x0000400400010000; cvt.u64.u32 %rd4, %r4; shr.u64 %rd4, %rd4, 4; or.b64 %rd3, %rd3, %rd4;\n"
    "bar.sync 0; mov.u64 %rd5, %clock64;\nLINES\n"
    "mov.u64 %rd6, %clock64; sub.u64 %rd6, %rd6, %rd5; @%p1 st.global.u64 [%rd1], %rd6;\n"
    "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;\n"
    "@%p2 bra E; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 512; E: ret;\n}\n"
)
WAIT = (
    "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r7];"
    " T: mbarrier.try_wait.parity.shared.b64 %p4, [%r7], 0; @!%p4 bra T;"
)


def cycles(lines: str, chip: str = "b200") -> int:
    sim = Sim(KERNEL.replace("LINES", lines), chip=chip, no_values=True)
    out = sim.buffer(np.zeros(4, np.uint64))
    assert sim.launch("k", out, block=128) == 0, sim.findings
    return int(out[0])


def mma_cycles(m: int, n: int, a: str, count: int) -> int:
    """Cycles from the first MMA's issue to the end of the wait for all MMAs."""
    instruction = 0x10 | n // 8 << 17 | m // 16 << 24
    first = "%rd3" if a == "SS" else "[%r5+256]"
    return cycles(f"@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r5], {first}, %rd3, {instruction}, %p6;" * count + WAIT)


def pair_cycles(m: int, n: int, a: str, count: int) -> int:
    """mma_cycles of a pair of CTAs, whose first one issues."""
    instruction = 0x10 | n // 8 << 17 | m // 16 << 24
    first = "%rd3" if a == "SS" else "[%r5+256]"
    mma = f"@%p5 tcgen05.mma.cta_group::2.kind::f16 [%r5], {first}, %rd3, {instruction}, %p6;"
    issuer = "mov.u32 %r20, %cluster_ctarank; setp.eq.and.u32 %p5, %r20, 0, %p1; setp.ne.u32 %p7, %r20, 0;"
    met = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    text = KERNEL.replace("mov.u64 %rd5, %clock64;", issuer + met + "mov.u64 %rd5, %clock64;")
    wait = WAIT.replace("@%p1", "@%p5").replace("T:", "@%p7 bra OVER; T:") + " OVER:"
    text = text.replace("@%p1 st.global", "@%p5 st.global").replace("@%p2 bra E;", met + "@%p2 bra E;")
    text = text.replace("LINES", mma * count + wait).replace("cta_group::1", "cta_group::2")
    sim = Sim(text, chip="b200", no_values=True)
    out = sim.buffer(np.zeros(4, np.uint64))
    assert sim.launch("k", out, grid=2, block=128, cluster=2) == 0, sim.findings
    return int(out[0])


OWN_OVERHEAD = 8  # cycles that the published programs take more around an MMA than these kernels
FEW, MANY = 8, 24
HALF_OR_WHOLE = {1: (64, 128), 2: (128, 256)}
CASES = [(ctas, m, n, a) for ctas in (1, 2) for m in HALF_OR_WHOLE[ctas] for n in (64, 128, 256) for a in ("SS", "TS")]


@pytest.mark.parametrize(("ctas", "m", "n", "a"), CASES)
def test_an_mma_takes_its_published_latency_and_interval(ctas, m, n, a):
    took = mma_cycles if ctas == 1 else pair_cycles
    row = f"tcgen05.mma BF16 {a} CTAs {ctas} M {m} N {n}"
    assert took(m, n, a, 1) == pytest.approx(ROWS[f"latency {row}"].measured - OWN_OVERHEAD, abs=1)
    interval = (took(m, n, a, MANY) - took(m, n, a, FEW)) / (MANY - FEW)
    assert interval == pytest.approx(ROWS[f"throughput {row}"].measured, abs=3)


def test_block_scale_factors_lengthen_an_mma_as_published():
    def took(m: int, ctas: int) -> int:
        instruction = 1 << 7 | 1 << 10 | 64 // 8 << 17 | 1 << 23 | m // 128 << 27
        mma = f"tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [%r5], %rd3, %rd3, {instruction},"
        return cycles(f"@%p1 {mma} [%r5+256], [%r5+260], %p6;" + WAIT)

    row = "latency tcgen05.mma MXF4 SS CTAs 1 M 128 N 64"
    assert took(128, 1) == pytest.approx(ROWS[row].measured - OWN_OVERHEAD, abs=1)


def test_a_commit_with_nothing_to_wait_for_takes_its_latency(tmp_path):
    chip = json.loads((CHIPS / "b200.json").read_text())
    chip["parameters"]["tcgen05_commit_latency"]["value"] += 1000
    path = tmp_path / "slow.json"
    path.write_text(json.dumps(chip))
    assert cycles(WAIT, str(path)) - cycles(WAIT) == pytest.approx(1000, abs=8)


REGISTERS = "".join(f".reg .b32 %t{i}_<32>;" for i in range(4))
ROW = ", ".join(f"%t{{0}}_{register}" for register in range(32))


def test_a_copy_into_tmem_and_its_loads_take_the_chips_parameters():
    one, more = (cycles("@%p1 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r5+32], %rd3;" * n + WAIT) for n in (1, 9))
    assert more - one == 8 * B200["tcgen05_copy_interval"]
    loads = "".join(f"tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{ROW.format(i)}}}, [%r6];" for i in range(4))
    one, more = (cycles(f"{REGISTERS} {loads[: n * len(loads) // 4]} tcgen05.wait::ld.sync.aligned;") for n in (1, 4))
    each = 32 * 32 * 4 / B200["tcgen05_load_rate"]
    assert more - one == pytest.approx(3 * each, abs=8)
    assert one == pytest.approx(B200["tcgen05_load_latency"] + each, abs=16)
