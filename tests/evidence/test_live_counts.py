"""The committed counts against what the simulator counts now: a benchmark shape, and small ones by the model."""

from __future__ import annotations

import json

import pytest

from scripts.common import tile_table
from scripts.cost_model import compute
from scripts.cost_model.counters import LIBRARY, counters
from scripts.cost_model.model import Design, parse_shape

pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="the simulated library is not built: no nvcc")
HOPPER_MACS_A_CYCLE = 2048  # dense fp16 multiply-adds of an SM


def test_the_committed_counts_are_those_of_this_kernel_and_simulator():
    name, shape = "m256n64", "256x3072x4096"
    committed = json.loads(compute.COUNTERS.read_text())["blackwell"]["counters"][name][shape]
    found, _ = counters(shape, "blackwell", name)
    assert found == {key: value for key, value in committed.items() if key != "prologue_instructions"}


def test_a_blackwell_kernel_that_splits_k_moves_and_multiplies_what_the_model_says():
    name, shape = "m256n128k2", "256x128x1280"
    figures = tile_table.tiles("blackwell")[name]
    design = Design(figures["tile_n"], figures["ctas"], figures["split_k"], figures["tail"])
    found, digest = counters(shape, "blackwell", name)
    m, n, _ = extents = parse_shape(shape)
    clusters = design.grid(extents) // design.splits
    # Stages of both halves of K, the longer and the shorter one.
    stages = clusters * -(-extents[2] // 256)
    assert found["ctas"] == design.grid(extents)
    assert found["tensor_cycles"] == stages * design.tensor_cycles()
    assert found["tma_load_bytes"] == stages * design.issued_stage_bytes()
    assert found["global_store_bytes"] == 2 * m * n
    assert found["shared_store_bytes"] == found["ctas"] * design.reduction_bytes()
    assert sum(found[f"{role}_instructions"] for role in ("load", "mma", "epilogue")) == found["instructions"]
    assert len(digest) == 64


def test_a_hopper_kernel_multiplies_what_the_problem_has():
    m, n, k = 128, 256, 512
    found, _ = counters(f"{m}x{n}x{k}", "hopper", "m128n64")
    assert found["tensor_cycles"] == 2 * m * n * k // HOPPER_MACS_A_CYCLE
    assert "load_instructions" not in found
