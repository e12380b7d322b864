"""The quantizer's kernels on the simulator: the CPU's tests' bits on every GPU backend, clean in every mode."""

from __future__ import annotations

import json
import os

import pytest

from scripts.common import forked
from tests.simulator.sim_kit import built, nvcc

BACKENDS = ("hopper", "blackwell", "geforce")
PROGRAM = """
import json, sys
import torch
from submission import quantize_nvfp4, rms_norm_quantize_nvfp4, silu_mul_quantize_nvfp4
from tests.submission.quantize.quantize_kit import TYPES, normed, random_bits, ties, wrong

found = []
def check(name, values, scale, layout, output, count=None):
    text = wrong(values, scale, layout, output, None if count is None else int(count))
    if text:
        found.append([name, layout, str(values.shape), text])

for index, dtype in enumerate(TYPES):
    x = torch.cat([ties(dtype), random_bits(24, 64, dtype, 3)])
    for scale in (None, 2.0**-140, 2.0**124, -1.0, -0.0, torch.inf):
        some = x if scale is None else x[-24:]
        check("ties", some, scale, "linear", quantize_nvfp4(some, scale))
    shapes = ((1, 16, 0, 0), (3, 80, 3, 1), (130, 48, 0, 0), (2, 2112, 16, 8), (9, 64, 0, 0))
    for i, (m, k, gap, shift) in enumerate(shapes):
        memory = torch.zeros(m * (k + gap) + shift, dtype=dtype)
        x = memory[shift:].view(m, k + gap)[:, :k]
        x.copy_(random_bits(m, k, dtype, i))
        layout = ("linear", "swizzled128x4", "swizzled8x4")[(i + index) % 3]
        count = torch.zeros(1, dtype=torch.int64)
        check("plain", x, 0.37, layout, quantize_nvfp4(x, 0.37, layout, saturated=count), count)
    for m, k, shift in ((3, 16, 0), (2, 4096 + 80, 1)):
        x = torch.randn(m * k + shift).to(dtype)[shift:].view(m, k)
        weight, residual = torch.rand(k).to(dtype), torch.randn(m, k).to(dtype)
        for given in (None, residual):
            values, h = normed(x, weight, 1e-6, given)
            output = rms_norm_quantize_nvfp4(x, weight, 1e-6, 3.0, "swizzled8x4", residual=given)
            check("norm", values, 3.0, "swizzled8x4", output)
            if given is not None and not torch.equal(output[2], h):
                found.append(["norm", "sums"])
    gate = torch.tensor([0.0, 32.0, 40.0])[torch.randint(0, 3, (9, 80))]
    up = torch.randint(-8, 9, (9, 80)).float()
    values = gate * torch.where(gate == 0, 0.5, 1.0) * up
    x = torch.cat([gate, up], 1).to(dtype)
    check("gated", values, 0.1, "swizzled128x4", silu_mul_quantize_nvfp4(x, 0.1, "swizzled128x4"))
print(json.dumps(found))
"""


@pytest.fixture(scope="module", autouse=True)
def needs_nvcc():
    nvcc()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["late", "reverse", "random:1", "poison"])
def test_every_form_gives_the_promised_bits_and_is_clean(backend, mode, tmp_path):
    environment = dict(
        os.environ,
        NVFP4_LIBRARY=str(built("libcustom_kernel_sim.so")),
        NVFP4_BACKEND=backend,
        NVFP4_SIMULATE="1",
        NVFP4_SIMULATE_MODE=mode,
        NVFP4_SIMULATE_JSON=str(tmp_path / "report.json"),
    )
    done = forked.run(PROGRAM, [], environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["verdict"] == "clean", report["findings"]
    assert report["counters"]["instructions"] > 0
