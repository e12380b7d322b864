"""Headers that host and device share: descriptors and the places of scale factors."""

from __future__ import annotations

import subprocess

import pytest

from reference.nvfp4 import SCALE_TILE_ROWS

BLOCKED, ROWS = 0, 1  # enum custom_kernel_scale_layout


@pytest.fixture(scope="module")
def program(root, tmp_path_factory):
    """Runs tests/submission/c/layout_check.c: a line of numbers for each line of words."""
    binary = tmp_path_factory.mktemp("check") / "layout_check"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wmissing-prototypes", "-Wshadow", "-Werror"]
    subprocess.run(["gcc", *flags, "-o", binary, root / "tests/submission/c/layout_check.c"], check=True)

    def run(*lines):
        text = "\n".join(" ".join(map(str, line)) for line in lines)
        done = subprocess.run([binary], input=text, capture_output=True, text=True, check=True)
        return [[int(word, 16) for word in line.split()] for line in done.stdout.splitlines()]

    return run


def field(bits, low, width):
    return bits >> low & (1 << width) - 1


@pytest.mark.parametrize("address", [0, 1024, 37 * 1024, 226 * 1024])
@pytest.mark.parametrize(("m", "n"), [(128, 64), (128, 128), (256, 64), (256, 128), (256, 192)])
def test_tcgen05_descriptors_have_the_fields_of_the_ptx_isa(program, address, m, n):
    ((tile, scale, instruction),) = program(("tcgen05", address, m, n))
    for descriptor, stride, swizzle in ((tile, 1024, 2), (scale, 128, 0)):
        assert field(descriptor, 0, 14) == address // 16
        assert field(descriptor, 32, 14) == stride // 16
        assert field(descriptor, 46, 3) == 1  # version
        assert field(descriptor, 49, 12) == 0  # base offset, leading-offset mode, reserved
        assert field(descriptor, 61, 3) == swizzle
    assert (field(instruction, 7, 3), field(instruction, 10, 2)) == (1, 1)  # e2m1
    assert (field(instruction, 17, 6), field(instruction, 27, 2)) == (n // 8, m // 128)
    assert instruction & ~(7 << 7 | 3 << 10 | 63 << 17 | 3 << 27) == 0  # ue4m3, K-major, ids 0, K = 64


@pytest.mark.parametrize("address", [0, 32, 1024 + 96, 37 * 1024, 226 * 1024])
def test_wgmma_descriptors_have_the_fields_of_the_ptx_isa(program, address):
    (whole,), (tile,), (core,) = program(
        ("wgmma", address, 4096, 512, 3), ("wgmma_tile", address), ("wgmma_core", address, 128, 2048)
    )
    fields_of = ((whole, 4096, 512, 3), (tile, 16, 1024, 1), (core, 128, 2048, 0))
    for descriptor, leading, stride, swizzle in fields_of:
        assert field(descriptor, 0, 14) == address // 16
        assert field(descriptor, 16, 14) == leading // 16
        assert field(descriptor, 32, 14) == stride // 16
        assert field(descriptor, 62, 2) == swizzle
        fields = field(-1, 0, 14) | field(-1, 0, 14) << 16 | field(-1, 0, 14) << 32 | 3 << 62
        assert descriptor & ~fields == 0  # base offset 0, reserved


def test_an_address_past_the_window_does_not_reach_the_next_field(program):
    ((descriptor,),) = program(("wgmma_tile", 0x40000 + 2048))
    assert field(descriptor, 0, 14) == 2048 // 16
    assert field(descriptor, 14, 2) == 0


def test_scale_factors_lie_where_cublas_documents_them(program):
    groups = 12
    where = [(row, group) for row in range(2 * SCALE_TILE_ROWS) for group in range(groups)]
    for layout in (BLOCKED, ROWS):
        found = program(*(("scale", layout, row, group, groups) for row, group in where))
        for (row, group), (offset,) in zip(where, found, strict=True):
            tile = row // 128 * (groups // 4) + group // 4
            blocked = tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + group % 4
            assert offset == (row * groups + group if layout == ROWS else blocked), (layout, row, group)


def test_words_and_rows_of_a_scale_tile_are_inverse(program):
    found = program(*(("word", word) for word in range(SCALE_TILE_ROWS)))
    assert sorted(row for row, _ in found) == list(range(SCALE_TILE_ROWS))
    assert [offset for _, offset in found] == [4 * word for word in range(SCALE_TILE_ROWS)]


@pytest.mark.parametrize(("rows", "blocked_rows"), [(1, 128), (128, 128), (129, 256), (7168, 7168)])
def test_a_batch_of_scale_factors_has_whole_tiles(program, rows, blocked_rows):
    found = program(("batch", BLOCKED, rows, 24), ("batch", ROWS, rows, 24))
    assert found == [[blocked_rows * 24], [rows * 24]]
