"""The GeForce kernels' PTX on the simulator: right and clean; each synchronisation that is taken out is reported;
every element and scale factor is where it belongs; the backend's own host code on edge sizes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys

import pytest

from simulator.python import forked
from simulator.python.ptxsim import MODES
from simulator.tests.sim_kit import built, nvcc
from simulator.validation.mutants.backends import geforce_grouped as grouped
from simulator.validation.mutants.backends.geforce_dual import CONFIGS, Kernel, entries, mutants

LIBRARY = "libcustom_kernel_sim.so"


@pytest.fixture(scope="module", autouse=True)
def needs_nvcc():
    nvcc()


@pytest.mark.parametrize(("name", "mode"), [*zip(CONFIGS, MODES, strict=False), ("m64n32", "poison")])
def test_a_kernel_is_right_and_clean(name, mode):
    kernel = Kernel(name, entries()[name], mode)
    for dependent in range(2):
        kernel.output[:] = 0xFFFF
        assert kernel.run(dependent) == 0, kernel.findings
        assert kernel.verdict == "clean", kernel.findings
        assert kernel.is_right()


def test_each_missing_synchronisation_is_reported():
    count = 0
    for what, text, verdict, kinds in mutants(entries()["m64n32"]):
        kernel = Kernel("m64n32", text)
        kernel.run()
        if what == "no griddepcontrol.wait":
            kernel.run(dependent=1)
        assert kernel.verdict in (verdict, "error"), (what, kernel.findings)
        assert kinds & kernel.kinds, (what, kernel.findings)
        count += 1
    assert count >= 11


@pytest.mark.parametrize("name", grouped.CONFIGS)
def test_a_grouped_kernel_is_right_and_clean(name):
    kernel = grouped.Kernel(name, grouped.entries()[name], "random", 3)
    for dependent in range(2):
        for output in kernel.outputs:
            output[:] = 0xFFFF
        assert kernel.run(dependent) == 0, kernel.findings
        assert kernel.verdict == "clean", kernel.findings
        assert kernel.is_right()


def test_each_missing_synchronisation_of_a_grouped_kernel_is_reported():
    count = 0
    for what, text, verdict, kinds in mutants(grouped.entries()["m64n64"]):
        kernel = grouped.Kernel("m64n64", text)
        kernel.run()
        if what == "no griddepcontrol.wait":
            kernel.run(dependent=1)
        assert kernel.verdict in (verdict, "error"), (what, kernel.findings)
        assert kinds & kernel.kinds, (what, kernel.findings)
        count += 1
    assert count >= 11


# Each row of A has one nonzero element.  Gates are 6 * 6 * 32, where SiLU is the identity in fp32, so an output is 1152
# times one element of B2 and its scale factors: exact, and another place gives another number.
ONE_HOT = """
import itertools, json, os, sys
import torch
from reference import nvfp4
from submission.submission import custom_kernel
CODES = [0.5, 1, 1.5, 2, 3, 4, 6]
SCALES = [2.0**i for i in range(-6, 2)]
for config, layout, m, n, k in json.loads(sys.stdin.read()):
    os.environ["NVFP4_GEFORCE_CONFIG"] = config
    row, column, place = torch.arange(m), torch.arange(n), torch.arange(k)
    hot = (row * 37 + 5) % k
    code_of = {value: code for code, value in enumerate((0, 0.5, 1, 1.5, 2, 3, 4, 6))}
    a = torch.zeros(m, k, dtype=torch.uint8)
    a[row, hot] = code_of[6]
    b1 = torch.full((n, k), code_of[6], dtype=torch.uint8)
    values = torch.tensor(CODES)[(column[:, None] * 3 + place[None, :] * 5 + place[None, :] // 7) % 7]
    b2 = torch.tensor([code_of[float(x)] for x in values.flatten()], dtype=torch.uint8).reshape(n, k)
    groups = torch.arange(k // 16)
    scale = torch.tensor(SCALES)
    sfa = scale[(row[:, None] * 3 + groups[None, :] * 5) % 8]
    sfb2 = scale[(column[:, None] * 5 + column[:, None] // 8 + groups[None, :] * 3) % 8]
    sfb1 = 32 / sfa.new_ones(n, k // 16)
    fp4 = [(x[:, 0::2] | x[:, 1::2] << 4).unsqueeze(-1).view(torch.float4_e2m1fn_x2) for x in (a, b1, b2)]
    rows = [x.to(torch.float8_e4m3fn).unsqueeze(-1) for x in (sfa, sfb1, sfb2)]
    blocked = [nvfp4.to_blocked(x) for x in rows]
    c = torch.empty(m, n, 1, dtype=torch.float16)
    data = (*fp4, *rows, *blocked, c) if layout == "blocked" else (*fp4, *rows, c)
    found = custom_kernel(data)[:, :, 0]
    picked = sfa[row, hot // 16]
    gate = 6 * 6 * 32 * picked
    up = 6 * picked[:, None] * (values * sfb2.repeat_interleave(16, 1))[:, hot].T
    want = (torch.nn.functional.silu(gate)[:, None] * up).to(torch.float16)
    print(json.dumps([config, int((found != want).sum()), len(set(want.flatten().tolist()))]), flush=True)
"""


def test_every_element_and_scale_factor_is_where_it_belongs():
    cases = [
        (config, layout, shape.tile_m + 9, shape.tile_n + 72, 192)
        for (config, shape), layout in zip(CONFIGS.items(), itertools.cycle(("blocked", "rows")), strict=False)
    ]
    environment = {"NVFP4_LIBRARY": str(built(LIBRARY)), "NVFP4_BACKEND": "geforce", "NVFP4_SIMULATE": "1"}
    done = forked.run(ONE_HOT, environment=environment, stdin=json.dumps(cases))
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert [(config, wrong) for config, wrong, _ in rows] == [(config, 0) for config in CONFIGS], done.stderr
    assert min(different for _, _, different in rows) > 20, "or another place would give the same"


# Calls through the host code: sizes that end within a tile, batches, NaN, both layouts.
EDGES = """
import json, os, sys
import torch
from reference import nvfp4
from reference.reference import check_against_oracle, generate_input
from submission.submission import custom_kernel
for config, m, n, k, l, full, nan, blocked in json.loads(sys.stdin.read()):
    os.environ["NVFP4_GEFORCE_CONFIG"] = config
    data = list(generate_input(m=m, n=n, k=k, l=l, seed=m + n, full=full, device="cpu"))
    if nan:
        for i, byte in ((3, 0x7F), (4, 0xFF), (5, 0x7F)):
            data[i].view(torch.uint8)[m // 2 if i == 3 else n // 3, -1, 0] = byte
            data[i + 3] = nvfp4.to_blocked(data[i])
    output = custom_kernel(tuple(data) if blocked else (*data[:6], data[-1]))
    right, why = check_against_oracle(data, output)
    print(json.dumps([right and bool(output.isnan().any()) == nan, why]), flush=True)
"""
PROBLEMS = [
    ("", 1, 1, 64, 1, False, False, False),
    ("m64n32", 40, 72, 1280, 1, True, True, True),
    ("m128n48", 129, 100, 448, 2, True, False, False),
    ("m128n64", 17, 129, 704, 3, True, False, True),
    ("m128n128", 130, 30, 192, 1, True, True, False),
]


def test_edge_sizes_are_right_and_clean(tmp_path):
    report = tmp_path / "report.json"
    environment = {"NVFP4_LIBRARY": str(built(LIBRARY)), "NVFP4_BACKEND": "geforce", "NVFP4_SIMULATE": "1"}
    environment |= {"NVFP4_SIMULATE_MODE": "random:2", "NVFP4_SIMULATE_JSON": str(report), "NVFP4_SIMULATE_SMS": "3"}
    done = forked.run(EDGES, environment=environment, stdin=json.dumps(PROBLEMS))
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert rows == [[True, why] for _, why in rows] and len(rows) == len(PROBLEMS), (rows, done.stderr[-500:])
    assert json.loads(report.read_text())["verdict"] == "clean"


SMALLEST = "m: 256; n: 512; k: 256; l: 1; seed: 1111"


def test_the_harness_judges_the_smallest_of_the_ten_tests_right(root, tmp_path):
    """All ten, of either problem: NVFP4_SIMULATE=1 NVFP4_BACKEND=geforce ./nvfp4 eval test --problem NAME (minutes)."""
    assert SMALLEST in (root / "reference/problems/dual_gemm/test.txt").read_text().splitlines()
    (tmp_path / "test.txt").write_text(SMALLEST + "\n")
    environment = {**os.environ, "NVFP4_LIBRARY": str(built(LIBRARY)), "NVFP4_BACKEND": "geforce"}
    command = [sys.executable, "eval/eval.py", "test", str(tmp_path / "test.txt")]
    environment["NVFP4_SIMULATE"] = "1"
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "1 of 1 tests pass" in done.stdout, done.stdout + done.stderr
    assert "backend: geforce" in done.stdout
