"""The GeForce backend without a GPU: the tiles it selects."""

from __future__ import annotations

import pytest

CHIPS = {"GB10": 48, "RTX 5090": 170, "RTX PRO 6000": 188}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("m", "n", "k"), [(256, 4096, 7168), (512, 4096, 7168), (256, 3072, 4096), (512, 3072, 7168)])
def test_each_benchmark_shape_keeps_most_of_the_tensor_cores_busy(tiles, chip, m, n, k):
    """Compares predicted cycles with all multiply-adds spread over all SMs; M = 256 has tiles for 128 of 170 SMs."""
    least = 2 * m * n * k / 2048 / CHIPS[chip]
    assert tiles.selected("geforce", CHIPS[chip], m, n, k)["cost_cycles"] < 1.6 * least


def test_few_rows_take_the_tile_that_copies_least_of_a(tiles):
    for m in (1, 16, 64):
        assert tiles.selected("geforce", CHIPS["RTX 5090"], m, 4096, 7168)["tile"] == "m64n32"
