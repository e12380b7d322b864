"""The place that a finding names: exit status, verdict, kind, warp, lane, byte, PTX and source lines."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest

from simulator.tests.hazard.findings.finding_cases import BEGIN, INIT, ROOM, TRY
from simulator.tests.hazard.findings.test_each_finding import CASES, line_of, texts
from simulator.tests.sim_kit import VERDICTS, Sim, body, built

TILE = 1024  # the first variable follows the kilobyte that belongs to the system
CELL = TILE + 4096
BAR = CELL + 256
ALL = -1  # several lanes, or none in particular
# Thread 0 is lane 0 of warp 0, thread 32 lane 0 of warp 1.
# For each case: warp, lane and byte of shared memory, if it names one.
PLACES = {
    "two warps write": (1, 0, CELL),
    "two warps write the same": (1, 0, CELL),
    "two warps write vectors of which a part is the same": (1, 0, CELL + 4),
    "two warps write the same after another value": (1, 0, CELL),
    "a warp reads what another wrote": (1, 0, CELL),
    "a warp writes what another read": (0, 0, CELL),
    "an atomic and an ordinary write": (0, 0, CELL),
    "a barrier that only one side reaches": (1, 0, CELL),
    "a relaxed flag": (1, 0, CELL),
    "two lanes write": (0, 1, CELL),
    "a lane writes what another read": (0, 0, CELL),
    "memory that no thread has written": (0, ALL, CELL),
    "half of it written": (1, ALL, CELL + 4),
    "one lane signals for all": (1, 0, CELL),
    "a copy not waited for": (0, 0, TILE),
    "a copy over what is read": (0, ALL, TILE),
    "a write over what a store reads": (0, 0, TILE),
    "a store that the wait leaves out": (0, 0, TILE + 16),
    "a copy of a thread that the wait leaves out": (0, 0, TILE + 16),
    "two copies to one place": (0, ALL, TILE),
    "a fence of another thread before the barrier": (0, ALL, TILE),
    "another warp's stores copied out": (0, ALL, TILE),
    "an mbarrier without its fence": (0, 0, None),
    "an mbarrier with neither its fence nor a barrier": (0, 0, None),
    "an mbarrier that another warp initialises": (1, 0, None),
    "lanes of a warp initialise one mbarrier": (0, 1, None),
    "no mbarrier": (0, 0, None),
    "a misaligned mbarrier": (0, 0, None),
    "a copy of an odd size": (0, 0, None),
    "a load past the buffer": (0, 0, None),
    "shared memory of the system": (0, 0, None),
    "a misaligned vector": (0, 0, None),
    "a barrier of two counts": (1, ALL, None),
    "a mask without the executing lane": (0, 3, None),
    "a shuffle from a lane that is not there": (0, 3, None),
    "a trap": (0, 0, None),
    "a copy over what its own warp has read": (0, ALL, TILE),
}
VARIABLES = {  # declaration, the name in the PTX, the byte that two warps store to, what the report calls it
    "a local of a template": (".shared .align 4 .b8 {}[64];", "_ZZN2ns1kILi64EEEvPiE4room", 8, "room + 0x8"),
    "the second of a name": (".shared .align 4 .b8 {}[64];", "_ZZ6kernelPiE5count_0", 0, "count"),
    "of a namespace": (".shared .align 4 .b8 {}[64];", "_ZN2ns4tileE", 0, "tile"),
    "a name that is not mangled": (".shared .align 4 .b8 {}[64];", "x4tile", 60, "x4tile + 0x3c"),
    "past its end": (".shared .align 4 .b8 {}[4];", "cell", 8, ""),
    "of dynamic size": (".extern .shared .align 4 .b8 {}[];", "tail", 12, "tail + 0xc"),
    "in global memory": (".global .align 4 .b8 first[64]; .global .align 4 .b8 {}[64];", "_ZL5table", 4, "table + 0x4"),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_the_variable_that_holds_the_byte_is_named(name):
    declaration, symbol, byte, called = VARIABLES[name]
    space = "global" if ".global" in declaration else "shared"
    address = f"mov.u64 %rd2, {symbol}; st.{space}.u32 [%rd2+{byte}], %r1;"
    line = f"mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; setp.eq.u32 %p1, %r2, 0; @!%p1 exit; {address}"
    text = body(line).replace(".visible", f"{declaration.format(symbol)}\n.visible", 1)
    sim = Sim(text)
    sim.launch("k", sim.buffer(np.zeros(1, np.uint32)), block=64, shared=64)
    assert sim.verdict == "error"
    assert [finding["variable"] for finding in sim.findings] == [called]


HERE, OTHER = 100, 200  # lines of a source file


def located(text: str) -> str:
    """The kernel as -lineinfo makes it: the marked instructions are lines of kernel.cu."""
    lines = []
    for line in text.splitlines():
        for mark, source in (("//HERE", HERE), ("//OTHER", OTHER)):
            lines += [f".loc 1 {source} 3"] * line.rstrip().endswith(mark)
        lines.append(line)
    return "\n".join([*lines, '.file 1 "kernel.cu"', ""])


def report(text: str, folder, launch: dict) -> tuple[int, dict]:
    """Exit status and JSON report of ptxsim."""
    path = folder / "kernel.ptx"
    path.write_text(text)
    shape = [word for name, value in launch.items() for word in (f"--{name}", str(value))]
    command = [built("ptxsim"), path, "--threads", "1", "--json", *shape, "--", "buf:4096"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("name", PLACES)
def test_a_finding_names_its_place(name, tmp_path):
    case, (warp, lane, byte) = CASES[name], PLACES[name]
    text = located(texts(case)[0])
    status, described = report(text, tmp_path, {"block": 64} | case.launch)
    found = described["findings"][0]
    assert (status, described["verdict"]) == (VERDICTS.index(case.verdict), case.verdict)
    assert {finding["kind"] for finding in described["findings"]} == {case.kind}
    assert (found["kernel"], found["cta"], found["verdict"]) == ("k", [0, 0, 0], case.verdict)
    assert (found["warp"], found["lane"], found["offset"]) == (warp, lane, -1 if byte is None else byte)
    assert (found["ptx_line"], found["source"]) == (line_of(text, "//HERE"), f"kernel.cu:{HERE}")
    if other := line_of(text, "//OTHER"):
        assert (found["other_ptx_line"], found["other_source"]) == (other, f"kernel.cu:{OTHER}")
    assert found["ptx"] in text.replace("//HERE", "")
    assert found["message"] and found["advice"]


def test_a_deadlock_names_the_barriers_that_warps_wait_for(tmp_path):
    wait = "@!%p1 bar.sync 3, 96; @!%p1 bra END; " + TRY.format(0) + "END:"
    status, described = report(body(BEGIN, INIT, wait, registers=ROOM), tmp_path, {"block": 64})
    (found,) = described["findings"]
    assert (status, found["kind"], found["verdict"]) == (2, "deadlock", "error")
    first, second = found["message"].split("CTA 0,0,0 warp ")[1:]
    assert first.startswith("0 ") and f"mbarrier {BAR:#x} of CTA rank 0" in second + first
    assert second.startswith("1 ") and "barrier 3" in second + first
