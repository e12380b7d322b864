"""The Python package `ptxsim`: arrays and tensors, findings as objects, what cannot be read or run, its wheel."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from simulator.python import ptxsim
from tests.simulator.asynchronous.test_map_rules import MEMORY, encode
from tests.simulator.sim_kit import ROOT, Finding, body, built

ADD = body(
    "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [p]; ld.param.u32 %r2, [n]; mul.wide.u32 %rd2, %r1, 4;",
    "add.s64 %rd1, %rd1, %rd2; ld.global.u32 %r3, [%rd1]; add.u32 %r3, %r3, %r2; st.global.u32 [%rd1], %r3;",
    params=".param .u64 p, .param .u32 n",
)
RACE = body(
    "mov.u32 %r1, %tid.x; mov.u32 %r2, cell; st.shared.u32 [%r2], %r1;",
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
    module.launch("k", whole[32:], 2)  # a part of what is known
    assert whole.tolist() == [1] * 32 + [2] * 32
    run = module.launch("k", whole[:32], 1, block=64)
    assert run.verdict == "clean"
    alone = np.zeros(16, np.int32)
    (found,) = ptxsim.Simulator().load(ADD).launch("k", alone, 1).findings
    assert (found.verdict, found.kind, found.lane) == ("error", "out-of-bounds", 16)
    with pytest.raises(ValueError, match="not contiguous"):
        module.launch("k", whole[::2], 1)


def test_tensor_maps_are_tiled_or_of_columns_of_pixels():
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


def test_what_cannot_be_read_or_run_says_why():
    sim = ptxsim.Simulator()
    with pytest.raises(ptxsim.PtxError, match=r"^line \d+: "):
        sim.load(".version 9.0\n.target sm_90a\nfrobnicate")
    with pytest.raises(ptxsim.LaunchRefused, match="arguments"):
        sim.load(ADD).launch("k")


def test_the_wheel_holds_the_module_and_the_library(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path]
    done = subprocess.run([*command, ROOT / "simulator/python"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("ptxsim-*-py3-none-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"ptxsim/__init__.py", "ptxsim/libptxsim.so"} <= set(names)
