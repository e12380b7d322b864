"""The Python package `ptxsim`: arrays and tensors, findings as objects, refused text and launches, its wheel."""

from __future__ import annotations

import dataclasses
import os
import re
import struct
import subprocess
import sys

import numpy as np
import pytest

from simulator.python import ptxsim
from simulator.tests.asynchronous.test_map_rules import MEMORY, encode
from simulator.tests.sim_kit import ROOT, Finding, body, built

ADD = body(
    "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [p]; ld.param.u32 %r2, [n]; mul.wide.u32 %rd2, %r1, 4;",
    "add.s64 %rd1, %rd1, %rd2; ld.global.u32 %r3, [%rd1]; add.u32 %r3, %r3, %r2; st.global.u32 [%rd1], %r3;",
    params=".param .u64 p, .param .u32 n",
)
RACE = body(
    "mov.u32 %r1, %tid.x; shr.u32 %r1, %r1, 5; mov.u32 %r2, cell; st.shared.u32 [%r2], %r1;",
    registers=".shared .align 8 .b8 cell[8];",
)


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setenv("PTXSIM_LIBRARY", str(built("libptxsim.so")))


def test_arrays_and_tensors_are_the_kernels_memory():
    import torch

    sim = ptxsim.Simulator(mode="late")
    module = sim.load(ADD)
    assert module.kernels == ("k",)
    for values in (np.arange(32, dtype=np.int32), torch.arange(32, dtype=torch.int32)):
        run = module.launch("k", values, 5)
        assert (run.verdict, run.findings) == ("clean", ())
        assert values.tolist() == list(range(5, 37))
    whole = np.zeros(64, np.int32)
    module.launch("k", whole, 1)
    module.launch("k", whole[32:], 2)  # a part of registered memory
    assert whole.tolist() == [1] * 32 + [2] * 32
    run = module.launch("k", whole[:32], 1, block=64)
    assert run.verdict == "clean"
    alone = np.zeros(16, np.int32)
    (found,) = ptxsim.Simulator().load(ADD).launch("k", alone, 1).findings
    assert (found.verdict, found.kind, found.lane) == ("error", "out-of-bounds", 16)
    with pytest.raises(ValueError, match="not contiguous"):
        module.launch("k", whole[::2], 1)


def fat_binary(*entries: tuple[int, bytes, int]) -> bytes:
    """A fat binary with PTX entries (target number, text, 0x2000 for LZ4), as nvcc lays them out."""
    whole = b""
    for arch, text, flags in entries:
        literals = bytes([0xF0, *[255] * ((len(text) - 15) // 255), (len(text) - 15) % 255]) + text
        content = literals if flags else text
        padded = content + b"\0" * (-len(content) % 8) if flags else content
        whole += struct.pack("<HHIQIIHHIIIQQQ", 1, 0, 64, len(padded), len(content), 0, 0, 9, arch, 0, 0, flags, 0,
                             len(text) if flags else 0) + padded  # fmt: skip
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(whole)) + whole


def elf(section: bytes, name: bytes = b".nv_fatbin") -> bytes:
    names = b"\0.shstrtab\0" + name + b"\0"
    headers = [(0, 0, 0, 0), (1, 3, 64, len(names)), (11, 1, 64 + len(names), len(section))]
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, start, size, 0, 0, 1, 0) for at, kind, start, size in headers
    )
    start = 64 + len(names) + len(section)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    return head + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, start, 0, 64, 0, 0, 64, 3, 1) + names + section + table


def test_fat_binaries_objects_and_programs_are_loaded_as_ptxsim_run_loads_them(tmp_path):
    sim = ptxsim.Simulator()
    add, race = ADD.encode(), RACE.replace(" k(", " other(").encode()
    fat = fat_binary((100, race, 0), (90, add, 0))
    assert sim.load(fat).kernels == ("k",) and sim.load(fat, arch=100).kernels == ("other",)
    assert sim.load(fat, arch=120).kernels == ("other",)  # no PTX for it, so any
    packed = fat_binary((90, add, 0x2000))
    values = np.zeros(32, np.int32)
    sim.load(packed).launch("k", values, 3)
    assert values.tolist() == [3] * 32
    program = elf(fat + bytes(8) + fat_binary((90, race, 0)))
    path = tmp_path / "program"
    path.write_bytes(program)
    for given in (program, path):
        assert [module.kernels for module in sim.load_all(given)] == [("k",), ("other",)]
    with pytest.raises(ptxsim.PtxError, match="it holds 2 modules"):
        sim.load(path)
    for wrong, why in {
        elf(b""): "fat binary",
        elf(fat, b".nv_fatbi_"): "fat binary",
        fat[:-1]: "fat binary",
        program[:300]: "fat binary",
        fat_binary((90, b"", 0))[:8] + bytes(8): "no PTX",
        packed[:-16] + bytes(16): "LZ4|compressed|line",
    }.items():
        with pytest.raises(ptxsim.PtxError, match=why):
            sim.load(wrong)


def test_tensor_maps_are_tiled_or_im2col():
    sizes, strides = [64, 32, 8, 2], [256, 8192, 65536]
    corners = {"lower": [-1, -2], "upper": [3, 4]}
    tensor = {"rank": 4, "sizes": sizes, "strides": strides, "element_strides": [1, 2, 3, 1]}
    given = {"sizes": sizes, "strides": strides, "element_strides": [1, 2, 3, 1]}
    sim = ptxsim.Simulator()
    tiled = sim.tensor_map(MEMORY, 2, [16, 8, 4, 2], **given)
    assert tiled == encode(box=[16, 8, 4, 2], **tensor)[0]
    columns = sim.tensor_map(MEMORY, 2, [16], pixels=70, **corners, **given)
    assert columns == encode(box=[16], mode=1, pixels=70, **corners, **tensor)[0]


def test_findings_are_objects_of_their_launch():
    module = ptxsim.Simulator().load(RACE)
    run = module.launch("k", 0, block=64)
    assert run.verdict == "error"
    (found,) = [finding for finding in run.findings if finding.verdict == "error"]
    assert (found.kind, found.warp, found.offset) == ("write-race", 1, 1024)
    assert found.ptx == found.other_ptx == "st.shared.u32 [%r2], %r1;"
    assert [field.name for field in dataclasses.fields(ptxsim.Finding)] == [name for name, _ in Finding._fields_]


def test_refusals_say_why():
    sim = ptxsim.Simulator()
    with pytest.raises(ptxsim.PtxError, match=r"^line \d+: "):
        sim.load(".version 9.0\n.target sm_90a\nfrobnicate")
    module, out = sim.load(ADD), np.zeros(64, np.int32)
    with pytest.raises(ptxsim.LaunchRefused, match=r"arguments"):
        module.launch("k")
    with pytest.raises(ptxsim.LaunchRefused, match=r"no such kernel in the module .kernel add.; it has k$"):
        module.launch("add", out)
    with pytest.raises(ValueError, match=r"^argument 0 of k: the array is not contiguous"):
        module.launch("k", out[::2])
    with pytest.raises(ValueError, match=r"does not fit the parameter's 8 bytes"):
        module.launch("k", 1 << 64)
    with pytest.raises(ValueError, match=r"^grid is .1, 2.; expected an integer"):
        module.launch("k", out, grid=(1, 2))
    with pytest.raises(TypeError, match=r"^block is '64'; expected an integer"):
        module.launch("k", out, block="64")
    with pytest.raises(ValueError, match=r"^mode is 'hasty'; expected one of eager, late"):
        ptxsim.Simulator(mode="hasty")
    with pytest.raises(TypeError, match=r"^ptx is int; expected str, bytes or Path"):
        sim.load(3)


def test_an_installation_holds_the_module_the_library_and_the_command(tmp_path):
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command += ["--target", tmp_path, ROOT / "simulator/python"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("ptxsim/__init__.py", "ptxsim/libptxsim.so", "ptxsim/bin/ptxsim"):
        assert (tmp_path / name).is_file(), name
    (tags,) = tmp_path.glob("ptxsim-*.dist-info/WHEEL")
    assert re.search("^Tag: py3-none-", tags.read_text(), re.MULTILINE)
    environment = dict(os.environ, PYTHONPATH=str(tmp_path))
    said = subprocess.run([tmp_path / "bin/ptxsim", "--version"], env=environment, capture_output=True, text=True)
    assert ptxsim.__version__ in said.stdout, said.stderr
