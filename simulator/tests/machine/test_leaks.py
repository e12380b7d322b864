"""A run leaks nothing: it frees its memory however it ends, and repeated runs hold no more files, memory or threads."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest

from simulator.tests.held import assert_all_is_given_back, print_what_stays
from simulator.tests.machine.test_no_memory import KERNELS, command, run
from simulator.tests.sim_kit import HEADER, MODES, PTX, ROOT, Sim

OPTIONS = {
    "as text": ["--counters"],
    "as JSON": ["--json", "--counters"],
    "on a clock": ["--time", "h200", "--json"],
    "with a timeline": ["--time", "b200", "--timeline", "{folder}/timeline.json"],
    "shrunk": ["--mode", "late", "--shrink"],
    "shrunk at random": ["--mode", "random:3", "--shrink"],
    "at random": ["--mode", "random:7", "--threads", "1"],
    "reversed": ["--mode", "reverse"],
    "with suppressions": ["--suppressions", "{folder}/judged"],
    "without checks": ["--no-checks", "--no-values"],
    "to a limit": ["--limit", "60"],
}
JUDGED = "race race\n# none of these\nlate-read * kernel.cu:7\nuninitialised everything ptx:30\n"


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", [name for name in KERNELS if " " not in name])
def test_a_run_frees_all_memory(name, option, tmp_path):
    (tmp_path / "judged").write_text(JUDGED)
    words = command(name, tmp_path)
    extra = [word.format(folder=tmp_path) for word in OPTIONS[option]]
    status, requests, live, said = run([words[0], *extra, *words[1:]], -1, False)
    assert live == 0 and requests > 0, (status, live, said[-1500:])
    assert status in (0, 1, 2, 3) or "expected" in said, said


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], ".visible .entry k(.param .u64 p) { .reg .b32 %r<3>; add.u32 %r1, %r2; ret; }"),
        ([], ".visible .entry k() { .reg .b32 %r<3>; .loc 1 2 3; L: bra M; }"),
        ([], '.file 1 "a.cu"\n.global .u32 t[2] = {1, 2, 3};'),
        ([], ".func (.param .b32 a) f(.param .b32 b) { ret; } .func (.param .b32 a) f(.param .b64 b) { ret; }"),
        ([], ".visible .entry k( { ret; }"),
        ([], ".visible .entry k() { ret; } $"),
        (["--", "buf:64", "u32:1"], ".visible .entry k(.param .u64 p) { ret; }"),
        (["--", "buf:64=/none"], ".visible .entry k(.param .u64 p) { ret; }"),
        (["--", "map:0:6:0:8,8:16:8,8"], ".visible .entry k(.param .align 64 .b8 p[128]) { ret; }"),
        (["--block", "2000"], ".visible .entry k() { ret; }"),
        (["--cluster", "3", "--grid", "4"], ".visible .entry k() { ret; }"),
        (["--shared", "999999"], ".visible .entry k() { ret; }"),
        (["--time", "/none"], ".visible .entry k() { ret; }"),
        (["--suppressions", "/none"], ".visible .entry k() { ret; }"),
        ([], ".visible .entry k() { .reg .pred %p<2>; .reg .b32 %r<2>; L: setp.eq.u32 %p1, %r1, %r1; @%p1 bra L; }"),
        ([], ".visible .entry k() { .shared .b8 a[4]; .reg .b32 %r<2>; ld.shared.u32 %r1, [a+4]; trap; }"),
    ],
)
def test_a_run_that_ends_early_frees_all_memory(arguments, text, tmp_path):
    path = tmp_path / "kernel.ptx"
    path.write_text(HEADER + text)
    status, _, live, said = run([path, "--limit", "100000", *arguments], -1, False)
    assert status in (2, 3, 4) and live == 0, (status, live, said[-1500:])


FLAGS, READERS = 200, 80
REGISTERS = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<5>; ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x;"
EACH_FLAG = "mov.u64 %rd2, %rd1; mov.u32 %r2, 0; {0}: {1} add.u64 %rd2, %rd2, 4; add.u32 %r2, %r2, 1;"
EACH_FLAG += f" setp.lt.u32 %p1, %r2, {FLAGS}; @%p1 bra {{0}};"
FULL = {  # code that fills a table of the run, and how many clusters run it
    "releases of clusters": (
        EACH_FLAG.format("A", "st.release.gpu.global.u32 [%rd2], %r2;")
        + EACH_FLAG.format("B", "ld.acquire.gpu.global.u32 %r3, [%rd2];"),
        3,
    ),
    "releases of many clusters": (
        "red.release.gpu.global.add.u32 [%rd1], 1; ld.acquire.gpu.global.u32 %r3, [%rd1];"
        " red.release.gpu.global.add.u32 [%rd1+4], 1; ld.acquire.gpu.global.u32 %r3, [%rd1+4];",
        100,
    ),
    "flags of a cluster": (
        EACH_FLAG.format("A", "st.release.cta.global.u32 [%rd2], %r2;")
        + EACH_FLAG.format("B", "ld.acquire.cta.global.u32 %r3, [%rd2]; fence.sc.cta;"),
        1,
    ),
    "readers of a word": ("ld.global.u32 %r3, [%rd1]; ld.global.u32 %r4, [%rd1+8];", READERS),
    "places of a line": ("".join(f"ld.global.u32 %r3, [%rd1+{4 * i}];" for i in range(40)), 3),
    "writers of a word": ("st.global.u32 [%rd1], %r1; atom.global.add.u32 %r3, [%rd1+4], 1;", 20),
    "numbers": ("".join(f"mov.u32 %r3, {i * 7919}; mov.u64 %rd3, {i << 33};" for i in range(1500)), 1),
    "findings": (".shared .b8 s[1024];" + "".join(f"ld.shared.u32 %r3, [s+{4 * i}];" for i in range(60)), 1),
    "groups of lanes": (
        "mov.u32 %r3, %laneid; and.b32 %r3, %r3, 7; T: .branchtargets A, B, C, D, E, F, G, H; brx.idx %r3, T; A: B: C:"
        " add.u32 %r4, %r4, 1; D: E: F: add.u32 %r4, %r4, 1; G: H: bar.warp.sync -1;",
        2,
    ),
    "instructions for the printer": ("cp.async.commit_group; cp.async.wait_all; membar.gl; fence.sc.gpu;", 2),
}


@pytest.mark.parametrize("name", FULL)
def test_a_run_that_fills_a_table_frees_all_memory(name, tmp_path):
    lines, grid = FULL[name]
    path = tmp_path / "kernel.ptx"
    path.write_text(HEADER + f".visible .entry k(.param .u64 p) {{ {REGISTERS}\n{lines}\nret; }}")
    status, _, live, said = run([path, "--grid", str(grid), "--block", "32", "--", "buf:8192"], -1, False)
    assert status in (0, 1, 2, 3) and live == 0, (status, live, said[-1500:])


def main() -> None:
    """Runs several launches in one simulator, in each mode, without and with a clock."""
    text = (PTX / "vocabulary.ptx").read_text()

    def once(mode: str, chip: str | None) -> None:
        sim = Sim(text, mode, threads=2, chip=chip)
        memory = sim.buffer(np.zeros(4096, np.uint8))
        for block in (32, 32, 64):
            sim.launch("vocabulary", memory, bytes(128), block=block)

    for mode, chip in itertools.product(MODES, (None, "h200")):
        print_what_stays(f"{mode} {chip}", partial(once, mode, chip))


def test_repeated_launches_do_not_grow():
    assert_all_is_given_back(ROOT, __name__, 2 * len(MODES))
