"""The committed counts against what the simulator counts now: a benchmark shape, and small ones by the model."""

from __future__ import annotations

import json

import pytest

from scripts.common import tile_table
from scripts.cost_model import clock
from scripts.cost_model.counters import LIBRARY, counters

pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="the simulated library is not built: no nvcc")
HOPPER_MACS_A_CYCLE = 2048  # dense fp16 multiply-adds of an SM


def test_the_committed_counts_are_those_of_this_kernel_and_simulator():
    name, shape = "m256n64", "256x3072x4096"
    committed = json.loads(clock.COUNTERS.read_text())["blackwell"]["counters"][name][shape]
    found, _ = counters(shape, "blackwell", name)
    assert found == {key: value for key, value in committed.items() if key != "prologue_instructions"}


def test_a_blackwell_kernel_that_splits_k_moves_and_multiplies_what_its_tile_says():
    name, (m, n, k) = "m256n128k2", (256, 128, 1280)
    figures = tile_table.tiles("blackwell")[name]
    assert (figures["tile_n"], figures["ctas"], figures["split_k"]) == (128, 2, 2)
    found, digest = counters(f"{m}x{n}x{k}", "blackwell", name)
    stages = 2 * k // 256  # of both CTAs of a pair, in both halves of K together
    codes, scales = (128 + 2 * 128 // 2) * 128, 2048  # bytes a CTA and stage: A and half of both B; a tile of scales
    assert found["ctas"] == 4
    assert found["tensor_cycles"] == stages * 4 * 128
    assert found["tma_load_bytes"] == stages * (codes + scales + 2 * scales // 2)
    assert found["global_store_bytes"] == 2 * m * n
    assert found["shared_store_bytes"] == 4 * (2 * 128 * 128 * 4) // 2  # half of the fp32 sums of both products
    assert sum(found[f"{role}_instructions"] for role in ("load", "mma", "epilogue")) == found["instructions"]
    assert len(digest) == 64
