"""Reading PTX files: cut-off files are refused with a line number, pragmas are accepted, and ptxsim's command line."""

from __future__ import annotations

import json
import subprocess

import pytest

from simulator.tests.sim_kit import HEADER, PTX, PtxError, Sim, aligned, body, built


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
def test_modules_cut_off_are_refused_with_a_line_number(text):
    with pytest.raises(PtxError, match=r"^line \d+: "):
        Sim(text)


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


def test_ptxsim_reports_json_refuses_bad_ptx_and_dumps_buffers(tmp_path):
    tool = built("ptxsim")
    done = subprocess.run(
        [tool, PTX / "vocabulary.ptx", "--json", "--", "buf:4096", "u64:0"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
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
