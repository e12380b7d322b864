"""The Hopper backend without a GPU: the tiles it selects, and the code that the compiler makes of its kernels."""

from __future__ import annotations

import re

import pytest

from simulator.python.toolchain import NoCompiler, built, nvcc

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


@pytest.mark.parametrize(
    ("n", "k", "layout"),
    [(4096, 7168, (2, 4, 4)), (3072, 4096, (2, 3, 4)), (14336, 4096, (1, 7, 2)), (2048, 7168, (2, 2, 8))],
)
def test_few_rows_of_a_run_in_one_wave_that_fills_the_chip(tiles, n, k, layout):
    """The layouts that were fastest on an H200 for up to eight rows (shark_tank, round 52)."""
    selected = tiles.selected("hopper", SMS, 8, n, k)
    assert (selected["tile"], selected["ctas"]) == ("m8", 128)
    assert (selected["split_k"], selected["warps_n"], selected["warps_k"]) == layout


@pytest.mark.parametrize(("n", "k"), [(768, 2048), (2048, 7168), (14336, 4096), (100, 64)])
@pytest.mark.parametrize("rows", [range(1, 9), range(9, 17), range(17, 33)])
def test_calls_of_few_rows_share_k_alike_so_that_a_row_keeps_its_bits(tiles, rows, n, k):
    ways = {tuple(tiles.selected("hopper", SMS, m, n, k).items()) for m in rows}
    assert len(ways) == 1


@pytest.fixture(scope="module")
def compiled():
    """ptxas' report of the kernels, which the build keeps beside their object."""
    try:
        nvcc()
    except NoCompiler as error:
        pytest.skip(str(error))
    return built("submission/hopper/hopper_kernels.o").with_suffix(".ptxas").read_text()


def test_the_compiler_serializes_no_wgmma(compiled):
    """ptxas serializes wgmma in a kernel with too few registers, and warns (C7510 and similar)."""
    assert not re.findall(r".*C75\d\d.*|.*serialized.*", compiled)


def test_no_kernel_spills_or_uses_local_memory(compiled, tiles):
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", compiled)
    table = tiles.table["hopper"]
    persistent = sum(tile["persistent"] for tile in table["tiles"].values())
    # Narrow tiles with K whole and split; A and its first parts, the scale factors; the grouped GEMM and its A, for few
    # groups and many, with K shared or not.  Kernels of no tile come on top.
    assert len(frames) >= len(table["tiles"]) + persistent + 2 * len(table["narrow_tiles"]) + 3 + 2 * 2 * 2
    assert set(frames) == {("0", "0", "0")}


@pytest.mark.parametrize("name", ["hopper_extended_kernels", "hopper_extended_narrow_kernels"])
def test_no_extended_kernel_spills_or_has_its_wgmma_serialized(name):
    try:
        nvcc()
    except NoCompiler as error:
        pytest.skip(str(error))
    report = built(f"submission/hopper/extended/{name}.o").with_suffix(".ptxas").read_text()
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", report)
    assert len(frames) > 20 and set(frames) == {("0", "0", "0")}
    assert not re.findall(r".*C75\d\d.*|.*serialized.*", report)


def test_no_source_holds_the_word_the_leaderboard_refuses(root):
    """Checks the sources that a bundle holds, which are not the package's Python files and operators."""
    for path in (root / "submission").rglob("*"):
        sources = path.suffix in {".c", ".h", ".cu", ".cuh", ".mk"} and path.parent.name != "torch"
        if sources or path.name == "submission.py":
            assert "stream" not in path.read_text().lower(), path
