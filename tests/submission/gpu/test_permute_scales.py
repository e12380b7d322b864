"""The kernel that permutes scale factors, alone on the simulator: layout, padding, any grid."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest
import torch

from reference.nvfp4 import SCALE_TILE_ROWS, as_bytes, to_blocked
from simulator.tests.sim_kit import Sim, aligned, compile_cuda

BLOCKED, ROWS = 0, 1  # enum custom_kernel_scale_layout
THREADS, CTA_TILES = 256, 4  # permute_scales.h
GUARD = 0x5A
SOURCE = """#include "%s/submission/gpu/permute_scales.cuh"
const void *the_kernel(void) { return (const void *)permute_scales_kernel; } /* so that it is compiled */
"""


@pytest.fixture(scope="module")
def ptx(root, tmp_path_factory) -> str:
    return compile_cuda(SOURCE % root, tmp_path_factory.mktemp("permute"))


def tiles_of(count: int, unit: int) -> int:
    return -(-count // unit)


def permuted(ptx, tensors, layout: int, tiles_k: int, grid: tuple[int, int, int]) -> list[np.ndarray]:
    """The kernel's output for (rows, groups, batches) scale factors; the tile past each output must not change."""
    sim = Sim(ptx)
    groups, batches = tensors[0].shape[1:]
    outputs, fields = [], b""
    for tensor in tensors:
        memory = as_bytes(
            to_blocked(tensor).permute(5, 2, 4, 0, 1, 3) if layout == BLOCKED else tensor.permute(2, 0, 1)
        )
        rows = tensor.shape[0]
        size = batches * tiles_of(rows, SCALE_TILE_ROWS) * tiles_k * 512
        output = aligned(size + 512, np.uint8)
        output[:] = GUARD
        outputs.append(sim.register(output))
        source = sim.buffer(memory.contiguous().numpy().ravel())
        fields += struct.pack("<QQq", source.ctypes.data, output.ctypes.data, rows)
    fields = fields.ljust(72, b"\0") + struct.pack("<qqqii", groups, tiles_k, batches, len(tensors), layout)
    kernel = re.search(r"\.entry (\w*permute_scales_kernel\w*)", ptx)[1]
    assert sim.launch(kernel, fields, grid=grid, block=THREADS) == 0, sim.message()
    assert sim.verdict == "clean", sim.findings
    assert all((output[-512:] == GUARD).all() for output in outputs)
    return [output[:-512] for output in outputs]


def expected(tensor: torch.Tensor, tiles_k: int) -> np.ndarray:
    """The blocked layout with K padded to whole stages: zeros past the last row and the end of K."""
    rows, groups, batches = tensor.shape
    padded = torch.zeros(batches, tiles_of(rows, 128) * 128, tiles_k * 4, dtype=torch.uint8)
    padded[:, :rows, :groups] = as_bytes(tensor).permute(2, 0, 1)
    blocked = to_blocked(padded.permute(1, 2, 0).view(torch.float8_e4m3fn))
    return as_bytes(blocked.permute(5, 2, 4, 0, 1, 3).contiguous()).numpy().ravel()


@pytest.mark.parametrize("grid", ["as launched", "one CTA a dimension", "fewer than rows and slices"])
@pytest.mark.parametrize(
    ("rows", "groups", "batches", "tiles_k"),
    [((300, 1, 257), 44, 2, 12), ((128,), 4, 1, 1), ((129, 640), 40, 3, 10), ((1, 384), 32, 1, 16)],
)
@pytest.mark.parametrize("layout", [ROWS, BLOCKED])
def test_scale_factors_are_permuted_and_padded_by_any_grid(ptx, rows, groups, batches, tiles_k, layout, grid):
    draw = torch.Generator().manual_seed(7)
    shape = lambda count: (batches, count, groups)  # noqa: E731
    tensors = [
        torch.randint(0, 256, shape(count), dtype=torch.uint8, generator=draw).permute(1, 2, 0) for count in rows
    ]
    tensors = [tensor.view(torch.float8_e4m3fn) for tensor in tensors]
    x, y, z = tiles_of(tiles_k, CTA_TILES), tiles_of(max(rows), SCALE_TILE_ROWS), batches * len(rows)
    grids = {
        "as launched": (x, y, z),
        "one CTA a dimension": (x, 1, 1),
        "fewer than rows and slices": (x, max(1, y - 1), max(1, z - 1)),
    }
    outputs = permuted(ptx, tensors, layout, tiles_k, grids[grid])
    for tensor, output in zip(tensors, outputs, strict=True):
        want = expected(tensor, tiles_k)
        if layout == BLOCKED:  # there padding of rows is the caller's and is never used: it may be anything
            keep = expected(torch.ones(tensor.shape).to(torch.float8_e4m3fn), tiles_k) != 0
            want, output = want[keep], output[keep]
        np.testing.assert_array_equal(output, want)
