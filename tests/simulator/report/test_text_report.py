"""The text report: findings of one kind and source line as one group, short kernel names, advice."""

from __future__ import annotations

import re
import subprocess

from tests.simulator.sim_kit import ROOT, built

HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"


def report(kernel: str, *lines: str, tmp_path) -> str:
    text = f"{HEADER}.visible .entry {kernel}()\n{{\n" + "\n".join(lines) + '\nret;\n}\n.file 1 "kernel.cu"\n'
    path = tmp_path / "kernel.ptx"
    path.write_text(text)
    done = subprocess.run([built("ptxsim"), path, "--block", "64"], capture_output=True, text=True, check=False)
    return done.stdout[: done.stdout.index("verdict:")]


READS = (
    ".reg .b32 %r<4>; .shared .align 16 .b8 cell[64]; mov.u32 %r1, cell;",
    ".loc 1 7 3",
    "ld.shared.u32 %r2, [%r1];",
    "ld.shared.u32 %r2, [%r1+4];",
    "ld.shared.u32 %r2, [%r1+8];",
    ".loc 1 8 3",
    "ld.shared.u32 %r2, [%r1+12];",
)


def test_findings_of_a_kind_at_a_line_are_one_group_with_a_count(tmp_path):
    text = report("k", *READS, tmp_path=tmp_path)
    assert text.count("review: uninitialised-read:") == 2
    first, second = text.split("review: ")[1:]
    assert "kernel.cu:7" in first
    assert "and 2 more pairs of PTX lines there\n  seen 6 times\n" in first
    assert "kernel.cu:8" in second
    assert "more pairs" not in second
    assert "seen 2 times" in second


def test_a_kernels_name_is_short_and_readable(tmp_path):
    names = {
        "_ZN7cutlass13device_kernelINS_4gemm6kernel4FooEEEvNT_6ParamsE": "cutlass::device_kernel<...>",
        "_Z5otherPi": "other",
        "_Z7reverseILi64ELb1ELin3EEEvPi": "reverse<64, true, -3>",
        "_Z4tileILj128EN4cute1CILi8EEEEvv": "tile<128, ...>",
        "_ZN12_GLOBAL__N_14makeEv": "(anonymous)::make",
        "_ZL6hiddenv": "hidden",
        "plain": "plain",
        "_Z999x": "_Z999x",
    }
    for mangled, name in names.items():
        text = report(mangled, *READS, tmp_path=tmp_path)
        assert f"  kernel {name}, CTA 0,0,0, warp 0, byte 0x400 of shared memory\n" in text, text


def test_each_kind_of_the_readme_has_advice(tmp_path):
    table = (ROOT / "simulator/README.md").read_text().split("| kind | what it means |")[1].split("\n\n")[0]
    kinds = set()
    for row in table.splitlines()[2:]:
        kinds |= {re.sub(r" \(.*", "", kind.strip()) for kind in row.split("|")[1].split(",")}
    advice = (ROOT / "simulator/report/advice.c").read_text()
    missing = {kind for kind in kinds - {"...", "matrix-descriptor"} if f'{{"{kind}",' not in advice}
    assert not missing
    assert re.search(
        r"\n  PTX: ld\.shared: .*\. Chips read .*\. Fix: write .*\.\n", report("k", *READS, tmp_path=tmp_path)
    )
