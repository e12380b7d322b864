"""The Hopper backend without a GPU: the tiles it selects."""

from __future__ import annotations

import pytest

MAX_SHARED_BYTES = 232448  # HW: 227 KB a CTA, compute capability 9.0
SMS = 132


@pytest.mark.parametrize(
    ("m", "n", "k", "name", "ctas"),
    [
        (256, 4096, 7168, "m128n64", 128),
        (512, 4096, 7168, "m256n64", 128),
        (256, 3072, 4096, "m128n96k2", 128),
        (512, 3072, 7168, "m128n96", 128),
    ],
)
def test_each_benchmark_shape_runs_in_one_wave(tiles, m, n, k, name, ctas):
    selected = tiles.selected("hopper", SMS, m, n, k)
    assert (selected["tile"], selected["ctas"]) == (name, ctas)
    assert ctas <= SMS


def test_every_configuration_fits_a_cta_of_the_chip(tiles):
    resources = tiles.table["hopper"]["resources"]
    assert resources.keys() == tiles.table["hopper"]["tiles"].keys()
    assert max(found["shared_bytes"] for found in resources.values()) <= MAX_SHARED_BYTES


@pytest.mark.parametrize(("n", "k"), [(768, 2048), (2048, 7168), (14336, 4096), (100, 64)])
@pytest.mark.parametrize("rows", [range(1, 9), range(9, 17), range(17, 33)])
def test_calls_of_few_rows_share_k_alike_so_that_a_row_keeps_its_bits(tiles, rows, n, k):
    ways = {tuple(tiles.selected("hopper", SMS, m, n, k).items()) for m in rows}
    assert len(ways) == 1


@pytest.mark.parametrize("sms", [2, 3, 4, 6, 16, 78, SMS])
@pytest.mark.parametrize("shape", [(1, 128, 7168), (16, 128, 7168), (1, 768, 2048), (16, 768, 2048)])
def test_no_more_ctas_share_k_of_few_rows_than_there_are_sms(tiles, sms, shape):
    selected = tiles.selected("hopper", sms, *shape)
    assert selected["split_k"] <= sms
    assert selected["split_k"] <= 2 or selected["ctas"] <= sms, "clusters of more than two run in one wave"


def test_no_source_holds_the_word_the_leaderboard_refuses(root):
    """Checks the sources that a bundle holds, which are not the package's Python files and operators."""
    for path in (root / "submission").rglob("*"):
        sources = path.suffix in {".c", ".h", ".cu", ".cuh", ".mk"} and path.parent.name != "torch"
        if sources or path.name == "submission.py":
            assert "stream" not in path.read_text().lower(), path
