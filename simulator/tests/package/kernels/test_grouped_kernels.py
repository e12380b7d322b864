"""The grouped GEMM's kernels on the simulator: exact and clean in every mode, for every tile, layout and tail."""

from __future__ import annotations

import re

import pytest

from simulator.tests.package.kernels.simulated import simulate
from simulator.validation.mutants.backends.hopper_mutants import MEETING_MUTANTS, kernel_text

TILES = {
    "hopper": ("m48", "m64", "m80", "m96", "m112", "m128", "m160", "m176", "m192", "m208", "m256"),
    "blackwell": ("m128n128", "m128n256", "m256n128", "m256n256", "n256m256", "n256m128k2"),
    "geforce": ("m128n128", "m64n128", "m64n64"),
}

PROGRAM = """
import json, os, sys
import numpy as np
from tests.submission.grouped.grouped_kit import OFFICIAL, assert_results, load, official, random_groups, run
library, wrong = load(os.environ["NVFP4_LIBRARY"]), []
for name, tile, layout in json.loads(sys.argv[1]):
    os.environ["NVFP4_GROUPED_CONFIG"] = tile
    if name == "tails":  # K, numbers of tiles, last rows differ, one with whole sectors; then NaN in real rows
        sizes = [(40, 130, 256), (72, 100, 128), (1, 257, 64), (201, 160, 192), (260, 127, 128)]
        groups = random_groups(sizes, seed=1)
        groups[1].scales[0][71, 7], groups[3].scales[1][63, 0] = 0x7F, 0xFF
    elif name.startswith("shared"):  # nine stages of K, the last one whole or not; then NaN in the second half
        groups = random_groups([(48, 130, int(name.split()[1]))], seed=3)
        groups[0].scales[0][47, 66] = 0x7F
    elif name == "many":  # more than a kernel of few groups takes, and more than a launch
        sizes = [(1 + i % 3, 1 + i % 9, 64 * (1 + i % 2)) for i in range(70)]
        groups = random_groups(sizes, seed=2)
    elif name == "rows":  # one row each: tails of K and of scale tiles, several turns of a warp, more than a launch
        sizes = [(1, 4200, 64), (1, 257, 2112), (1, 130, 320), (1, 40, 1088), (1, 1, 64)] + [(1, 33, 128)] * 14
        groups = random_groups(sizes, seed=5)
        groups[1].scales[0][0, 100] = 0xFF
        groups[2].scales[1][129, 19] = 0x7F
    elif name == "rounds":  # more tiles than pairs of CTAs: some take three, of heights that TMEM holds together or not
        groups = random_groups([(130, 20001, 64), (40, 20000, 128)], seed=6)
    elif name == "long":  # more of K than a CTA dequantizes of a row of A, and half a stage
        groups = random_groups([(3, 9, 16448)], seed=4)
    else:
        groups, _ = official(int(name))
    got = run(library, groups, layout)
    try:
        assert_results(got, [group.want() for group in groups])
    except AssertionError as error:
        wrong.append([name, tile, layout, str(error)])
print(json.dumps(wrong))
"""


MODES = ["eager", "late", "reverse", "random:1", "poison"]


@pytest.mark.parametrize("backend", TILES)
@pytest.mark.parametrize("mode", MODES)
def test_every_tile_is_exact_and_clean_and_every_mode_has_tiles(backend, mode, tmp_path):
    """Blackwell's tiles run in all modes; the others differ by two numbers, and each runs in two."""
    every = list(enumerate(TILES[backend]))
    number = MODES.index(mode)
    some = every if backend == "blackwell" else [(i, tile) for i, tile in every if (i - number) % 5 in (0, 2)]
    runs = [("tails", tile, (i + len(mode)) % 2) for i, tile in some]
    wrong, report = simulate(backend, mode, runs, tmp_path, PROGRAM)
    assert wrong == []
    assert report["verdict"] == "clean", report["findings"]
    assert report["counters"]["tensor_macs"] > 0


@pytest.mark.parametrize("mode", MODES)
def test_tiles_whose_k_two_ctas_share_are_exact_and_clean(mode, tmp_path):
    number = MODES.index(mode)
    runs = [("shared 1088", tile, 0) for i, tile in enumerate(TILES["hopper"]) if i % 5 == number]
    wrong, report = simulate("hopper", mode, runs, tmp_path, PROGRAM)
    assert wrong == []
    assert report["verdict"] == "clean", report["findings"]
    # Two tiles, each of two parts: each warp of the one that takes acquires, each part adds, the first once more.
    assert report["counters"]["instructions_by_class"]["atomic"] == 2 * 3 * len(runs)


@pytest.mark.parametrize("fault", MEETING_MUTANTS)
def test_a_fault_in_how_two_ctas_meet_is_found(fault, tmp_path):
    pattern, replacement, finding = MEETING_MUTANTS[fault]
    kernels = re.split(r"(?=\.entry )", kernel_text())
    mutated = [re.subn(pattern, replacement, text) if "grouped" in text[:80] else (text, 0) for text in kernels]
    assert sum(count for _, count in mutated) == 2 * len(TILES["hopper"]), "in each tile's code of two kernels"
    (tmp_path / "mutant.ptx").write_text("".join(text for text, _ in mutated))
    mode = "reverse" if fault == "no wait for the first sums" else "eager"  # the second CTA goes on first
    _, report = simulate("hopper", mode, [("shared 1152", "m48", 0)], tmp_path, PROGRAM, tmp_path / "mutant.ptx")
    # Sums that nobody waits for may be read before they are written.
    assert finding in {one["kind"] for one in report["findings"]} <= {finding, "uninitialised-read"}


@pytest.mark.parametrize("backend", TILES)
def test_official_tests_and_many_groups_are_exact(backend, tmp_path):
    cases = (0, 4) if backend == "geforce" else (0, 3, 4, 7, 8)  # of 2, 3 and 4 groups; on demand the harness runs all
    runs = [(str(case), "", 0) for case in cases] + [("many", "", 0), ("many", "", 1)]
    runs += [("long", "", 0)] if backend == "hopper" else []
    wrong, report = simulate(backend, "eager", runs, tmp_path, PROGRAM)
    assert wrong == []
    assert report["verdict"] == "clean", report["findings"]


@pytest.mark.parametrize("mode", ["late", "reverse"])
def test_pairs_that_take_tile_after_tile_are_exact_and_clean(mode, tmp_path):
    wrong, report = simulate("blackwell", mode, [("rounds", "n256m256", 0)], tmp_path, PROGRAM)
    assert wrong == []
    assert report["verdict"] == "clean", report["findings"]


@pytest.mark.parametrize("backend", TILES)
@pytest.mark.parametrize("mode", ["late", "poison"])
def test_single_rows_are_exact_and_clean_without_tensor_cores(backend, mode, tmp_path):
    wrong, report = simulate(backend, mode, [("rows", "", 0), ("rows", "", 1)], tmp_path, PROGRAM)
    assert wrong == []
    assert report["verdict"] == "clean", report["findings"]
    assert report["counters"]["tensor_macs"] == 0


@pytest.mark.parametrize("barrier", [0, 1])
def test_a_missing_barrier_around_a_single_row_is_found(barrier, tmp_path):
    """The first stands between the row of A and its products, the second between sums of warps and the output."""
    kernels = re.split(r"(?=\.entry )", kernel_text())
    number = next(i for i, text in enumerate(kernels) if text.startswith(".entry _ZN4gemv"))
    barriers = [*re.finditer(r"bar(?:rier)?\.sync[^;]*;", kernels[number])]
    assert len(barriers) == 2
    one = barriers[barrier]
    kernels[number] = kernels[number][: one.start()] + kernels[number][one.end() :]
    (tmp_path / "mutant.ptx").write_text("".join(kernels))
    _, report = simulate("hopper", "eager", [("rows", "", 0)], tmp_path, PROGRAM, tmp_path / "mutant.ptx")
    assert {"read-after-write-race", "uninitialised-read"} <= {one["kind"] for one in report["findings"]}
