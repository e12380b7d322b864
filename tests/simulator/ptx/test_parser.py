"""PTX that cannot be read: an error that names the line and the instruction, never a crash."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.simulator.sim_kit import HEADER, PTX, PtxError, Sim, aligned, body, built

BROKEN = {
    "frobnicate.u32 %r1, %r2;": r"line 9: instruction 'frobnicate.u32': unknown instruction",
    "add.s32.whatever %r1, %r2, %r3;": r"line 9: instruction 'add.s32.whatever': unknown modifier '.whatever'",
    "add.s32 %r1, %r2;": r"line 9: instruction 'add.s32': 2 operands",
    "add.s32 %r1, %r2, %rd3;": r"'%rd3' is a .b64 register",
    "add.s32 %r1, %r2, %zz;": r"'%zz' is not declared",
    "add.e4m3 %r1, %r2, %r3;": r"not with type .e4m3",
    "bra NOWHERE;": r"line 9: no label 'NOWHERE'",
    "mov.u32 %r1, 0x;": r"line 9: a malformed number",
    "mov.u32 %r1, 5": r"line 10: 'ret' where ','",
    "ld.shared.v4.u32 {%r1, %r2}, [%r3];": r"2 elements of .u32; expected 4",
    "setp.xx.u32 %p1, %r1, %r2;": r"no comparison",
    "wgmma.mma_async.sync.aligned.m64n7k16.f32.f16.f16 {%f1}, %rd1, %rd2, %p1, 1, 1, 0, 0;": r"instruction 'wgmma",
    "setmaxnreg.dec.sync.aligned.u32 41;": r"41 registers",
    "@%r1 bra NOWHERE;": r"the guard is not a predicate",
    '"text"': r"where an instruction was expected",
    "/* no end": r"a comment without an end",
    "call.uni absent, ();": r"only direct calls of declared functions",
    ".reg .b32 %x<99999999>;": r"more than \d+ registers",
    "tcgen05.nonsense.b32 %r1;": r"line 9: instruction 'tcgen05.nonsense.b32'",
}


@pytest.mark.parametrize("statement", BROKEN)
def test_broken_statements(statement):
    with pytest.raises(PtxError, match=BROKEN[statement]) as caught:
        Sim(body(statement))
    assert re.match(r"line \d+: ", str(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        ".version 9.0",
        ".version 9.0\n.target sm_90a\n.entry",
        HEADER + ".global .b8 x[-1];",
        HEADER + ".entry k() {",
        HEADER + ".entry k() { { ret; }",
        HEADER + ".shared .align 3 .b8 x[4];",
        HEADER + ".entry k() { ret; }\n.entry k() { ret; }",
        HEADER + "\x01",
        HEADER + ".func f(.param .b32 x;",
    ],
)
def test_broken_modules(text):
    with pytest.raises(PtxError, match=r"^line \d+: "):
        Sim(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "line 4: '5' where a directive was expected"),
        (f"{'x' * 100} 5", f"line 4: '{'x' * 60}' where a directive was expected"),
        (".entry k(x) { ret; }", "line 4: a parameter without .param"),
    ],
)
def test_a_module_that_breaks_off_is_told_by_its_place(text, message):
    with pytest.raises(PtxError) as caught:
        Sim(HEADER + text)
    assert str(caught.value) == message


def test_pragmas_are_read_and_change_nothing():
    sim = Sim(body('.pragma "nounroll";', "ld.param.u64 %rd1, [p];", "st.global.u32 [%rd1], 7;"))
    out = sim.register(aligned(1))
    assert sim.launch("k", out) == 0 and out.tolist() == [7]


def test_every_prefix_of_a_file_is_read_or_refused():
    text = (PTX / "pipeline.ptx").read_text()
    for length in range(0, len(text), 37):
        try:
            Sim(text[:length])
        except PtxError as error:
            assert str(error).startswith("line ")


def test_command_line(tmp_path):
    tool = built("ptxsim")
    done = subprocess.run(
        [tool, PTX / "vocabulary.ptx", "--json", "--", "buf:4096", "u64:0"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    import json

    report = json.loads(done.stdout)
    assert report["verdict"] == "clean"
    assert report["counters"]["instructions"] > 100
    assert report["counters"]["tma_load_bytes"] == 512
    broken = tmp_path / "broken.ptx"
    broken.write_text(body("frobnicate;"))
    done = subprocess.run([tool, broken], capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "line 9: instruction 'frobnicate'" in done.stderr
    dump = tmp_path / "c.bin"
    command = [tool, PTX / "add.ptx", "add", "--block", "64", "--dump", f"2={dump}", "--quiet", "--"]
    done = subprocess.run([*command, "buf:256", "buf:256", "buf:256", "u32:64"], check=False)
    assert done.returncode == 0
    assert dump.read_bytes() == bytes(256)
