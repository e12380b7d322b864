"""Small PTX microbenchmarks (arithmetic and wgmma) on the simulated H200 compared with a card's measurements."""

from __future__ import annotations

import re
from statistics import median

import numpy as np
import pytest

from simulator.calibration import packed
from simulator.tests.clock.clock_kit import SHARED
from simulator.tests.sim_kit import ROOT, Sim, body

ALU = (ROOT / "simulator/calibration/benchmarks/alu.cu").read_text()
FAMILIES = {
    name: (int(count), text) for name, count, text in re.findall(r"FAMILY\(\s*(\w+),\s*(\d),\s*\"([^\"]+)\"\)", ALU)
}
CHAINS = 4  # independent chains of a warp whose rate is measured


@pytest.fixture(scope="module")
def measured():
    """Returns a function from a microbenchmark's name and parameters to the value that the card measured."""
    _, rows = packed.read("h200_micro")
    found = {(row["name"], row["parameters"]): float(row["value"]) for row in rows}
    return lambda name, **parameters: found[name, packed.parameters_text(parameters)]


def off(predicted: float, value: float) -> float:
    """Deviation in percent, without its sign."""
    return abs(100 * (predicted / value - 1))


def cycles(before: str, lines: str, registers: str, block: int) -> int:
    """Cycles from one barrier of all threads to the next, with `lines` in between."""
    text = body(
        "ld.param.u64 %rd1, [p];", before, "bar.sync 0; mov.u64 %rd2, %clock64;", lines,
        "bar.sync 0; mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2; mov.u32 %r1, %tid.x; setp.eq.u32 %p5, %r1, 0;",
        "@%p5 st.global.u64 [%rd1], %rd4;",
        registers=registers,
    )  # fmt: skip
    sim = Sim(text, chip="h200")
    out = sim.buffer(np.zeros(1 << 10, np.uint64))
    assert sim.launch("k", out, block=block) == 0, sim.findings
    return int(out[0])


def alu_cycles(text: str, steps: int, warps: int, chains: int) -> int:
    """Cycles of a number of steps of each chain."""

    def step(chain: int) -> str:
        return "{" + re.sub(r"%([0-3])", lambda at: f"%v{(10 + chain, 1, 2, 3)[int(at[1])]}", text) + "}"

    lines = "".join(step(chain) for _ in range(steps) for chain in range(chains))
    values = "mov.u32 %v1, 0x3f8ccccd; mov.u32 %v2, 0x3f99999a; mov.u32 %v3, 0x01020304;"
    chained = "".join(f"mov.u32 %v{10 + chain}, %tid.x;" for chain in range(chains))
    return cycles(values + chained, lines, ".reg .b32 %v<20>;", 32 * warps)


@pytest.mark.parametrize("family", FAMILIES)
def test_dependent_instructions_take_their_latency(measured, family):
    _, text = FAMILIES[family]
    latency = (alu_cycles(text, 48, 1, 1) - alu_cycles(text, 16, 1, 1)) / 32
    assert off(latency, measured("alu_latency_cycles", family=family)) < 5


def alu_rate(family: str, warps: int) -> float:
    """Warp instructions issued in a cycle."""
    count, text = FAMILIES[family]
    took = alu_cycles(text, 64, warps, CHAINS) - alu_cycles(text, 32, warps, CHAINS)
    return warps * count * 32 * CHAINS / took


def test_independent_instructions_share_their_pipes(measured):
    """Not every measured row: a card also waits for instruction fetches, which are not modelled."""
    for warps, limit in ((4, 4), (16, 10)):
        errors = [off(alu_rate(family, warps), measured("alu_rate", family=family, warps=warps)) for family in FAMILIES]
        assert median(errors) < limit
    for family in ("shfl", "vote", "redux", "popc", "mul_f16x2", "mad_wide_high"):  # slower than the issue of 16 warps
        assert off(alu_rate(family, 16), measured("alu_rate", family=family, warps=16)) < 15, family


# ---- wgmma ----

OPERANDS = (
    "mov.u32 %r2, tile; fence.proxy.async; bar.sync 0; shr.u32 %r5, %r2, 4; cvt.u64.u32 %rd5, %r5;"
    "or.b64 %rd5, %rd5, 0x0000000800080000; setp.ne.u32 %p1, 0, 0; st.global.u64 [%rd1+64], %rd5;"
    "mov.b32 %r6, 0; mov.b32 %r7, 0; mov.b32 %r8, 0; mov.b32 %r9, 0;"
)
FEW, MANY = 4, 20


def wgmma_cycles(n: int, a: str, warpgroups: int, count: int) -> int:
    """A group of MMAs of each warpgroup, from its fence to the end of its wait."""
    sums = ", ".join(f"%sum{i}" for i in range(n // 2))
    first, last = ("{%r6, %r7, %r8, %r9}", "0") if a == "registers" else ("%rd5", "0, 0")
    mma = f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{sums}}}, {first}, %rd5, %p1, 1, 1, {last};"
    lines = (
        "wgmma.fence.sync.aligned;" + mma * count + "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
    )
    return cycles(OPERANDS, lines, SHARED + f" .reg .f32 %sum<{n // 2}>;", 128 * warpgroups)


@pytest.mark.parametrize("a", ["shared", "registers"])
@pytest.mark.parametrize("n", [8, 64, 128, 256])
def test_mmas_of_a_warpgroup_take_their_interval_and_their_latency(measured, n, a):
    few, many = (wgmma_cycles(n, a, 1, count) for count in (FEW, MANY))
    interval = (many - few) / (MANY - FEW)
    row = {"kind": "f16", "a": a, "n": n, "warpgroups": 1}
    assert interval == pytest.approx(measured("wgmma_interval_cycles", **row), rel=0.01)
    latency = few - (FEW - 1) * interval
    assert latency == pytest.approx(measured("wgmma_latency_cycles", **row), abs=12)  # the card's kernel stores, too


@pytest.mark.parametrize("n", [64, 128, 256])
def test_tensor_cores_lose_time_between_mmas_of_two_warpgroups(measured, n):
    few, many = (wgmma_cycles(n, "shared", 2, count) for count in (FEW, MANY))
    interval = (many - few) / (MANY - FEW) / 2
    assert interval > n / 2 + 2
    assert off(interval, measured("wgmma_interval_cycles", kind="f16", a="shared", n=n, warpgroups=2)) < 7
