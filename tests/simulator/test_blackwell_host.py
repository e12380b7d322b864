"""The Blackwell back end's own host code on the simulator: edge sizes, both scale layouts, NaN, refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from sim_kit import ROOT, built, nvcc

DRIVER = """
import json, sys
import torch
from reference import nvfp4
from reference.reference import check_against_oracle, generate_input
from submission.submission import custom_kernel
for m, n, k, l, blocked, full, nan in json.loads(sys.argv[1]):
    data = list(generate_input(m=m, n=n, k=k, l=l, seed=7, full=full, device="cpu"))
    if nan:
        for i, byte in ((3, 0x7F), (4, 0xFF), (5, 0x7F)):
            data[i].view(torch.uint8)[m // 2 if i == 3 else n // 3, -1, 0] = byte
            data[i + 3] = nvfp4.to_blocked(data[i])
    output = custom_kernel(tuple(data) if blocked else (*data[:6], data[-1]))
    right, why = check_against_oracle(data, output)
    if nan:
        right = right and bool(output.isnan().any()) and not bool(output.isnan().all())
    print("right" if right else f"{(m, n, k, l, blocked, full, nan)}: {why}")
"""


def run(cases, report, config="", mode="eager"):
    environment = dict(
        os.environ,
        NVFP4_LIBRARY=str(built("libcustom_kernel_sim.so")),
        NVFP4_BACKEND="blackwell",
        NVFP4_SIMULATE="1",
        NVFP4_SIMULATE_MODE=mode,
        NVFP4_SIMULATE_JSON=str(report),
        NVFP4_BLACKWELL_CONFIG=config,
        PYTHONPATH=str(ROOT),
    )
    command = [sys.executable, "-c", DRIVER, json.dumps(cases)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module", autouse=True)
def needs_nvcc():
    nvcc()


# m, n, k, l, blocked, full, with NaN scale factors
EDGES = [
    (1, 1, 64, 1, True, False, False),
    (40, 72, 192, 1, True, False, True),
    (129, 200, 448, 3, True, False, False),
    (129, 200, 448, 3, False, True, True),
    (200, 129, 576, 1, True, True, False),
    (40, 40, 256, 2, False, False, False),
]


@pytest.mark.parametrize("config", ["m256n64", "m128n128"])
def test_edge_sizes_are_right_and_clean(config, tmp_path):
    done = run(EDGES, tmp_path / "report.json", config)
    assert done.stdout.split() == ["right"] * len(EDGES), done.stdout + done.stderr
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "clean", done.stderr


@pytest.mark.parametrize("mode", ["late", "random:3"])
def test_the_chosen_configuration_is_right_in_other_modes(mode, tmp_path):
    cases = [(256, 512, 256, 1, True, False, False), EDGES[3]]
    done = run(cases, tmp_path / "report.json", mode=mode)
    assert done.stdout.split() == ["right"] * len(cases), done.stdout + done.stderr
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "clean", done.stderr


def test_an_unknown_configuration_is_refused(tmp_path):
    done = run([EDGES[0]], tmp_path / "report.json", "m1n1")
    assert "NVFP4_BLACKWELL_CONFIG is 'm1n1'" in done.stderr
