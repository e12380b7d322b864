"""Input that once crashed the simulator or passed as valid: it is refused with a reason, or runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from simulator.tests.sim_kit import PTX, built

HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"
PIPELINE = PTX / "pipeline.ptx"


def entry(*lines: str, params: str = "", before: str = "") -> str:
    return f"{HEADER}{before}\n.visible .entry k({params})\n{{\n" + "\n".join(lines) + "\nret;\n}\n"


def ptxsim(text: str | Path, folder: Path, *words: object) -> subprocess.CompletedProcess[bytes]:
    path = text
    if isinstance(text, str):
        path = folder / "kernel.ptx"
        path.write_bytes(text.encode("latin-1"))
    command = [built("ptxsim"), path, *map(str, words)]
    return subprocess.run(command, capture_output=True, check=False, timeout=500, cwd=folder)


NOP = entry("")
MAP = ".param .u64 p, .param .align 64 .b8 map[128]"
ROOM = ".reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<2>; .shared .align 128 .b8 tile[2048];"
STORE = entry(
    ROOM,
    "mov.u32 %r1, 0; mov.u32 %r2, tile; mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;",
    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r1, %r1}], [%r2];",
    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
    params=MAP,
)
LOAD = entry(
    ROOM + ".shared .align 8 .b8 bar[8];",
    "mov.u32 %r1, 0; mov.u32 %r2, tile; mov.u32 %r3, bar; mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;",
    "mbarrier.init.shared::cta.b64 [%r3], 1; fence.mbarrier_init.release.cluster;",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 2048;",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    " [%r2], [%rd1, {%r1, %r1}], [%r3];",
    "TRY: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0; @!%p1 bra TRY;",
    params=MAP,
)
PREDICATES = entry(*(f".reg .pred %p{i}_<200000>;" for i in range(5369)))
FUNCTIONS = "\n".join(
    f".func f{i}()\n{{\n.reg .b64 %a<4>; .reg .b128 %q<200000>; mov.u64 %a1, 7; mov.b128 %q199999, {{%a1, %a1}};"
    "\nret;\n}"
    for i in range(20)
)
CHAIN = ".func f0()\n{\nret;\n}\n" + "\n".join(
    f".func f{i}()\n{{\ncall.uni f{i - 1}, ();\nret;\n}}" for i in range(1, 20_000)
)
LONG_MAP = "map:0:8:0:256,2:2048:256,1"

# PTX text, command-line words, exit status, and a part of the message or the report.
CASES = {
    "the longest row of a box, stored": (STORE, ["--block", 1, "--", "buf:4096", LONG_MAP], 0, "clean"),
    "the longest row of a box, loaded": (LOAD, ["--block", 1, "--", "buf:4096", LONG_MAP], 0, "clean"),
    "more predicates than 32 bits of bytes": (PREDICATES, [], 4, "more than 200000 registers"),
    "more registers than 32 bits of bytes": (
        entry(*(f"call.uni f{i}, ();" for i in range(20)), before=FUNCTIONS),
        [],
        4,
        "more registers, local memory or nested calls",
    ),
    "calls nested very deep": (entry("call.uni f19999, ();", before=CHAIN), [], 4, "nested calls"),
    "no arguments": (PIPELINE, ["--block", 64], 4, "the wrong number of arguments"),
    "an argument too few": (PIPELINE, ["--block", 64, "--", "buf:4096", "buf:4096"], 4, "the wrong number"),
    "a parameter of 32000 bytes": (
        entry("", params=".param .align 4 .b8 p[32000]"),
        ["--", "u32:1"],
        4,
        "parameter of more than 128 bytes",
    ),
    "a grid whose product wraps": (NOP, ["--grid", "2147483648,2147483648,4"], 4, "a grid beyond 2147483647"),
    "a grid too long in y": (NOP, ["--grid", "1,65536,1"], 4, "a grid beyond"),
    "a grid too long in z": (NOP, ["--grid", "1,1,65536"], 4, "a grid beyond"),
    "a block too long in z": (NOP, ["--block", "1,1,65"], 4, "more than 64 threads in z"),
    "a block whose product wraps": (NOP, ["--block", "4194304,4194304,1048576"], 4, "more threads in a block"),
    "a cluster whose product wraps": (
        NOP,
        ["--grid", "1073741824,32768,32768", "--cluster", "1073741824,32768,32768"],
        4,
        "more than 16 CTAs in a cluster",
    ),
    "vectors of vectors": (entry(".local " + ".v4 " * 16 + ".b8 x;"), [], 0, "clean"),
    "extents whose product wraps": (
        entry(".local .b8 x[1048576][1048576][1048576][16];"), [], 4, "a frame of more than 1048576 bytes"
    ),
    "a buffer of more than there is": (PIPELINE, ["--block", 64, "--", "buf:-1", "buf:4096", "u32:7"], 4, "buf:-1"),
    "an integer that is none": (PIPELINE, ["--", "buf:4096", "buf:4096", "u32:x"], 4, "u32:x"),
    "an integer beyond 32 bits": (PIPELINE, ["--", "buf:4096", "buf:4096", "u32:4294967296"], 4, "u32:4294967296"),
    "bytes with a unit": (PIPELINE, ["--", "buf:4k", "buf:4096", "u32:7"], 4, "buf:4k"),
    "a block of no number": (NOP, ["--block", "x"], 4, "--block takes X, X,Y or X,Y,Z, not: x"),
    "a grid of four numbers": (NOP, ["--grid", "1,2,3,4"], 4, "--grid takes X, X,Y or X,Y,Z, not: 1,2,3,4"),
    "no number of bytes": (NOP, ["--shared", "1k"], 4, "--shared takes a number of bytes, not: 1k"),
    "an address in an initialiser of 16 bytes": (
        entry("", before=".global .align 16 .b8 h[16];\n.global .align 16 .b128 g[1] = {h};"), [], 0, "clean"
    ),
    "a loop without an end": (entry("L: bra L;"), ["--limit", 100_000], 2, "runaway"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_hostile_input_is_refused_or_runs(name, tmp_path):
    text, words, status, said = CASES[name]
    done = ptxsim(text, tmp_path, *words)
    assert done.returncode == status, (done.returncode, done.stderr[-300:], done.stdout[:300])
    assert said in (done.stdout + done.stderr).decode()


def test_bytes_that_are_not_a_tensor_map_are_reported(tmp_path):
    """The bytes hold the magic number and nothing else, which once caused a division by an element stride of zero."""
    (tmp_path / "raw").write_bytes(b"TMAP\0\1" + bytes(122))
    text = entry(
        ROOM + ".shared .align 8 .b8 bar[8];",
        "mov.u32 %r1, 0; mov.u32 %r2, tile; mov.u32 %r3, bar; ld.param.u64 %rd1, [m];",
        "mbarrier.init.shared::cta.b64 [%r3], 1;",
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd1, {%r1}], [%r3];",
        params=".param .u64 p, .param .u64 m",
    )
    done = ptxsim(text, tmp_path, "--block", 1, "--", "buf:4096", "buf:128=raw")
    assert done.returncode == 2, done
    assert b"modified by something other than tensormap.replace" in done.stdout


def test_a_file_name_that_is_not_utf8_still_gives_json(tmp_path):
    text = entry(".reg .b32 %r<2>; .reg .b64 %rd<2>;\n.loc 1 3 0\nmov.u64 %rd1, 4096; st.global.u32 [%rd1], %r1;")
    text = text.replace(HEADER, HEADER + '.file 1 "ab\xff\xe2\x82.cu"\n')
    done = ptxsim(text, tmp_path, "--json")
    report = json.loads(done.stdout.decode())
    assert report["findings"][0]["source"] == "ab\ufffd\ufffd\ufffd.cu:3"


RACE = "st.shared.u32 [%r2+{}], %r3;"


@pytest.mark.parametrize("reviews", [0, 1100])
def test_an_error_after_a_full_list_of_reviews_is_listed_and_counts(reviews, tmp_path):
    """Each load is a separate finding; the list holds 1000."""
    text = entry(
        ".reg .b32 %r<8>; .shared .align 16 .b8 tile[16384]; mov.u32 %r2, tile;"
        "mov.u32 %r3, %tid.x; shr.u32 %r3, %r3, 5;",
        *(f"ld.shared.u32 %r4, [%r2+{4 * i}];" for i in range(reviews)),
        "st.shared.u32 [%r2+16100], %r3;",
    )
    done = ptxsim(text, tmp_path, "--block", 64, "--threads", 1, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["verdict"]) == (2, "error")
    assert "write-race" in {finding["kind"] for finding in report["findings"]}
    found = report["found"]
    assert found["review"] >= 2 * reviews
    assert found["error"] == 1
    listed = sum(finding["times"] for finding in report["findings"])
    assert listed + found["unlisted"] == found["review"] + found["error"]
    assert (found["unlisted"] > 0) == (reviews > 1000)
