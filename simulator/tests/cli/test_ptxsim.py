"""The command ptxsim: options, arguments, exit status, output."""

from __future__ import annotations

import json
import re
import subprocess

import numpy as np
import pytest

from simulator.python import ptxsim as package
from simulator.tests.sim_kit import PTX, body, built

SHOW = body(  # stores the parameters and the shape of the launch
    "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [p]; ld.param.s32 %r2, [i];"
    " ld.param.u64 %rd2, [n]; ld.param.f32 %f1, [f];",
    "ld.param.f64 %fd1, [d]; setp.ne.u32 %p1, %r1, 0; @%p1 bra END; st.global.u32 [%rd1], %r2;",
    "st.global.u64 [%rd1+8], %rd2; st.global.f32 [%rd1+16], %f1; st.global.f64 [%rd1+24], %fd1;",
    "mov.u32 %r3, %nctaid.x; mov.u32 %r4, %nctaid.y; mov.u32 %r5, %nctaid.z; st.global.u32 [%rd1+32], %r3;",
    "st.global.u32 [%rd1+36], %r4; st.global.u32 [%rd1+40], %r5; mov.u32 %r3, %ntid.x; mov.u32 %r4, %ntid.y;",
    "st.global.u32 [%rd1+44], %r3; st.global.u32 [%rd1+48], %r4; mov.u32 %r3, %cluster_nctaid.x;",
    "st.global.u32 [%rd1+52], %r3; mov.u32 %r3, %dynamic_smem_size; st.global.u32 [%rd1+56], %r3; END:",
    params=".param .u64 p, .param .s32 i, .param .u64 n, .param .f32 f, .param .f64 d",
)
VERDICTS = {  # PTX, exit status, the finding's kind
    "clean": ("mov.u32 %r1, 1;", 0, None),
    "review": ("mov.u32 %r1, cell; ld.shared.u32 %r2, [%r1];", 1, "uninitialised-read"),
    "error": ("trap;", 2, "trap"),
    "incomplete": (
        "mov.u32 %r1, cell;" + "mbarrier.init.shared.b64 [%r1], 1; add.u32 %r1, %r1, 8;" * 513,
        3,
        "checks-exhausted",
    ),
}


def ptxsim(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([built("ptxsim"), *map(str, words)], capture_output=True, text=True, check=False, timeout=500)


@pytest.fixture
def file(tmp_path):
    def write(text: str):
        (tmp_path / "kernel.ptx").write_text(text)
        return tmp_path / "kernel.ptx"

    return write


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_exit_status_is_the_verdict(file, verdict):
    statement, status, kind = VERDICTS[verdict]
    path = file(body(statement, registers=".shared .align 8 .b8 cell[4200];"))
    plain = ptxsim(path, "--block", 1, "--", "u64:0")
    assert plain.returncode == status, plain.stderr
    *_, unchecked, last = plain.stdout.splitlines()
    assert unchecked.startswith("not checked: races on global memory between")
    assert re.fullmatch(rf"verdict: {verdict}(, \d+ x {verdict})?", last)
    if kind:
        assert plain.stdout.startswith(f"{verdict}: {kind}: ")
        assert "  kernel k, CTA 0,0,0, warp 0" in plain.stdout
    quiet = ptxsim(path, "--block", 1, "--quiet", "--", "u64:0")
    assert (quiet.returncode, quiet.stdout) == (status, "")
    report = ptxsim(path, "--block", 1, "--json", "--", "u64:0")
    assert report.returncode == status
    assert json.loads(report.stdout)["verdict"] == verdict
    assert [f["kind"] for f in json.loads(report.stdout)["findings"]] == [kind] * (kind is not None)


PASSING_ON = (  # by two warps of each CTA, through shared and global memory, and through an mbarrier
    "mov.u32 %r1, %tid.x; mov.u32 %r2, cell; mov.u32 %r3, %ctaid.x; shl.b32 %r3, %r3, 2; cvt.u64.u32 %rd2, %r3;"
    " ld.param.u64 %rd1, [p]; add.s64 %rd1, %rd1, %rd2; setp.eq.u32 %p1, %r1, 0;"
    " @%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;",
    "@%p1 st.shared.u32 [%r2+8], %r1; @%p1 st.global.u32 [%rd1], %r1;",
    "@%p1 mbarrier.arrive.shared.b64 _, [%r2]; {wait} setp.eq.u32 %p2, %r1, 32;",
    "@%p2 ld.shared.u32 %r4, [%r2+8]; @%p2 ld.global.u32 %r5, [%rd1];",
)
SEEN = "W: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra W;"


@pytest.mark.parametrize("mode", ["eager", "late"])
@pytest.mark.parametrize(
    ("asked", "cluster", "checked"), [(1, 1, 1), (5, 1, 5), (3, 2, 4), (5, 4, 8), (8, 1, 8), (9, 2, 8), (None, 1, 8)]
)
def test_of_a_grid_the_first_ctas_are_checked(file, asked, cluster, checked, mode):
    """Whole clusters of a grid of eight; an error is one wherever it is, but the rest is never clean."""
    count = () if asked is None else ("--ctas", asked)
    launch = ("--grid", 8, "--block", 64, "--cluster", cluster, "--mode", mode, *count, "--json", "--", "buf:32")
    for wait, found, status in (("", 2 * checked, 2), (SEEN, 0, 0 if checked == 8 else 3)):
        text = [line.format(wait=wait) for line in PASSING_ON]
        done = ptxsim(file(body(*text, registers=".shared .align 8 .b8 cell[16];")), *launch)
        report = json.loads(done.stdout)
        assert (done.returncode, report["found"]["error"]) == (status, found), report
        assert any("first ones" in line for line in report["not_checked"]) == (checked < 8)


@pytest.mark.parametrize("count", ["0", "-1", "4x", "", "99999999999999999999"])
def test_a_number_of_ctas_that_is_none_is_refused(file, count):
    for command in ((file(body("")), "--ctas", count), ("run", "--ctas", count, "--", "true")):
        done = ptxsim(*command)
        assert (done.returncode, "--ctas takes a number from 1 on" in done.stderr) == (4, True), done.stderr


def test_arguments_and_shape_reach_the_kernel(file, tmp_path):
    path, dump = file(SHOW), tmp_path / "out.bin"
    done = ptxsim(
        path, "k", "--grid", "4,3,2", "--block", "32,2", "--cluster", "2", "--shared", "512", "--dump", f"0={dump}",
        "--quiet", "--", "buf:64", "i32:-7", "u64:0x123456789abcdef0", "f32:1.5", "f64:-0.1",
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr  # a review: every CTA stores the same
    out = dump.read_bytes()
    assert len(out) == 64
    words = np.frombuffer(out, np.uint32)
    assert words[0] == 2**32 - 7
    assert np.frombuffer(out, np.uint64)[1] == 0x123456789ABCDEF0
    assert words[4:5].view(np.float32)[0] == np.float32(1.5)
    assert np.frombuffer(out, np.float64)[3] == -0.1
    assert words[8:15].tolist() == [4, 3, 2, 32, 2, 2, 512]


def test_a_buffer_is_filled_from_a_file_and_written_to_one(file, tmp_path):
    source, target, other = (tmp_path / name for name in ("in.bin", "out.bin", "other.bin"))
    values = np.arange(64, dtype=np.float32)
    source.write_bytes(values.tobytes())
    command = [PTX / "add.ptx", "add", "--block", 64, "--quiet", "--dump", f"2={target}", "--dump", f"0={other}", "--"]
    done = ptxsim(*command, f"buf:256={source}", f"buf:256={source}", "buf:256", "u32:64")
    assert done.returncode == 0, done.stderr
    assert other.read_bytes() == source.read_bytes()
    got = np.frombuffer(target.read_bytes(), np.uint32)
    assert (got.view(np.float32) == 2 * values).all() or (got == 2 * values.view(np.uint32)).all()


def test_a_tensor_map_argument(file, tmp_path):
    """map:BUFFER:TYPE:SWIZZLE:SIZES:STRIDES:BOX, here a box of 4 by 2 words out of 8 rows of 16."""
    path, source, target = file(LOAD), tmp_path / "in.bin", tmp_path / "out.bin"
    values = np.arange(128, dtype=np.uint32)
    source.write_bytes(values.tobytes())
    command = [path, "--block", 1, "--quiet", "--dump", f"1={target}", "--", f"buf:512={source}", "buf:32"]
    assert ptxsim(*command, "map:0:2:0:16,8:64:4,2").returncode == 0
    assert (np.frombuffer(target.read_bytes(), np.uint32) == values.reshape(8, 16)[3:5, 4:8].ravel()).all()
    for wrong in ("map:9:2:0:16,8:64:4,2", "map:0:2:0:16,8", "map:0:2:0:16,8,:64:4,2", "map:0:2:0:16,8:63:4,2"):
        done = ptxsim(*command, wrong)
        assert (done.returncode, f"bad argument: {wrong}" in done.stderr) == (4, True), wrong
    assert "tensor map: global stride 0 is 63 bytes" in done.stderr


LOAD = body(
    "mov.u32 %r2, tile; mov.u32 %r3, bar; mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;",
    "mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2; mov.u32 %r4, 4; mov.u32 %r5, 3; ld.param.u64 %rd1, [out];",
    "mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 32;",
    ""
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    " [%r2], [%rd2, {%r4, %r5}], [%r3];",
    "TRY: mbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0; @!%p1 bra TRY;",
    "ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r2]; st.global.v4.u32 [%rd1], {%r6, %r7, %r8, %r9};",
    "ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r2+16]; st.global.v4.u32 [%rd1+16], {%r6, %r7, %r8, %r9};",
    params=".param .u64 in, .param .u64 out, .param .align 64 .b8 map[128]",
    registers=".shared .align 128 .b8 tile[128]; .shared .align 8 .b8 bar[8];",
)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), ("PTX file",)),
        (("--json",), ("PTX file",)),
        (("FILE", "--mode", "hasty"), ("--mode", "eager", "late", "reverse", "random:SEED", "poison", "hasty")),
        (("FILE", "--mode", "late:3"), ("--mode", "late:3")),
        (("FILE", "--mode", "random:"), ("--mode", "random:\n")),
        (("FILE", "--mode", "random:3x"), ("--mode", "random:3x")),
        (("FILE", "--surprise", "1"), ("--surprise",)),
        (("FILE", "-x"), ("'x'",)),
        (("FILE", "--grid"), ("--grid",)),
        (("FILE", "--grid", "--", "u64:0"), ("--grid",)),
        (("FILE", "--json=1"), ("--json",)),
        (("FILE", "k", "more"), ("more",)),
        (("/nonexistent.ptx",), ("/nonexistent.ptx", "No such file or directory")),
        (("FILE", "absent", "--", "u64:0"), ("'absent'", "kernel.ptx", " first other\n")),
        (("FILE", "--block", "2048", "--", "u64:0"), ("launch refused", "threads")),
        (("FILE", "--", "u64:0", "u64:0"), ("launch refused", "arguments")),
        (("FILE", "--", "u65:0"), ("u65:0",)),
        (("FILE", "--", "7"), ("argument: 7",)),
        (("FILE", "--", "buf:16=/nonexistent"), ("buf:16=/nonexistent", "No such file or directory")),
        (("FILE", "--", "buf:-1"), ("buf:-1",)),
        (("FILE", "--", "buf:18446744073709551615"), ("buf:18446744073709551615", "out of memory")),
        (("FILE", "--dump", "0", "--", "buf:16"), ("--dump", "NUMBER=FILE", ": 0\n")),
        (("FILE", "--dump", "1=x", "--", "buf:16"), ("--dump", ": 1=x\n")),
        (("FILE", "--dump", "0=x", "--", "u64:1"), ("--dump", ": 0=x\n")),
        (("FILE", "--dump", "0=/nonexistent/x", "--", "buf:16"), ("/nonexistent/x",)),
    ],
)
def test_wrong_usage_is_named_and_exits_with_4(file, words, named):
    text = body("mov.u32 %r1, 1;").replace(" k(", " first(")
    path = file(text + ".visible .entry other() { ret; }\n")
    done = ptxsim(*(path if word == "FILE" else word for word in words))
    assert done.returncode == 4
    assert all(word in done.stderr for word in named), done.stderr
    assert len(done.stderr.splitlines()) == 1 or "buf" in words[-1]  # for a buffer: the reason, and the argument
    assert done.stdout == "" or "--dump" in words


def test_help_lists_the_options():
    done = ptxsim("--help")
    assert done.returncode == 0 and done.stderr == ""
    for option in ("--grid", "--mode", "--limit", "--dump", "--no-checks", "--version", "exit status"):
        assert option in done.stdout


def test_the_tool_and_the_package_have_one_version():
    done = ptxsim("--version")
    assert (done.returncode, done.stdout) == (0, f"ptxsim {package.__version__}\n")
    assert re.fullmatch(r"\d+\.\d+\.\d+", package.__version__)


def test_options_may_come_first_and_take_an_equals_sign():
    done = ptxsim("--block=32", PTX / "add.ptx", "add", "--", *["buf:128"] * 3, "u32:32")
    assert done.returncode == 0 and "verdict: clean" in done.stdout


@pytest.mark.parametrize("mode", ["eager", "late", "reverse", "random:0", "random:7", "random", "poison"])
def test_every_mode_is_taken(file, mode):
    done = ptxsim(PTX / "pipeline.ptx", "--mode", mode, "--block", 64, "--", "buf:4096", "buf:4096", "u32:7")
    assert done.returncode == 0, done.stdout


def test_parse_only_reads_the_file(file):
    assert ptxsim(file(body("trap;")), "--parse").returncode == 0
    assert ptxsim(file(body("frobnicate;")), "--parse").returncode == 4


def test_a_limit_of_instructions_and_no_checks(file):
    loop = file(body("mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 2000; @%p1 bra L;"))
    assert ptxsim(loop, "--limit", 100000, "--", "u64:0").returncode == 0
    assert ptxsim(loop, "--limit", 1000, "--", "u64:0").returncode == 2
    racy = file(
        body(
            "mov.u32 %r1, %tid.x; mov.u32 %r2, cell; st.shared.u32 [%r2], %r1;",
            registers=".shared .align 8 .b8 cell[8];",
        )
    )
    assert ptxsim(racy, "--block", 64, "--", "u64:0").returncode == 2
    assert ptxsim(racy, "--block", 64, "--no-checks", "--", "u64:0").returncode == 0


def test_findings_name_both_places_and_how_often(file):
    done = ptxsim(
        file(
            body(
                "mov.u32 %r1, %tid.x; mov.u32 %r2, cell; setp.lt.u32 %p1, %r1, 32;",
                "@%p1 st.shared.u32 [%r2], %r1;",
                "@!%p1 st.shared.u32 [%r2], %r1;",
                registers=".shared .align 8 .b8 cell[8];",
            )
        ),
        "--block", 64, "--grid", 3, "--threads", 1, "--", "u64:0",
    )  # fmt: skip
    assert done.returncode == 2
    place = "  kernel k, CTA 0,0,0, warp 1, byte 0x400 of shared memory (cell)\n"
    at = "  at PTX line 11\n    ptx | @!%p1 st.shared.u32 [%r2], %r1;\n"
    against = "  against PTX line 10\n    ptx | @%p1 st.shared.u32 [%r2], %r1;\n"
    assert f"{place}{at}{against}  seen 3 times\n" in done.stdout, done.stdout


def test_the_summary_lists_counters_classes_and_warps(file):
    done = ptxsim(
        file(body("mov.u32 %r1, 1; add.u32 %r1, %r1, 1;")), "--block", 32, "--grid", 2, "--counters", "--", "u64:0"
    )
    rows = dict(line.rsplit(None, 1) for line in done.stdout.splitlines()[:-2])
    rows = {name.strip(): value for name, value in rows.items()}
    assert (rows["ctas"], rows["launches"], rows["instructions"]) == ("2", "1", "6")
    assert (rows["integer"], rows["move"], rows["control"], rows["instructions of warp 0"]) == ("2", "2", "2", "6")
