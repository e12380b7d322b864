"""The grouped GEMM's kernels on the simulator: exact and clean in every mode, for every tile, layout and tail."""

from __future__ import annotations

import json
import os

import pytest

from scripts.common import forked
from tests.simulator.sim_kit import built, nvcc

TILES = {
    "hopper": ("m48", "m64", "m80", "m96", "m112", "m128", "m160", "m176", "m192", "m208", "m256"),
    "blackwell": ("m128n128", "m128n256", "m256n128", "m256n256"),
    "geforce": ("m128n128", "m64n128", "m64n64"),
}

PROGRAM = """
import json, os, sys
import numpy as np
from tests.submission.grouped.grouped_kit import OFFICIAL, assert_results, load, official, random_groups, run
library, wrong = load(os.environ["NVFP4_LIBRARY"]), []
for name, tile, layout in json.loads(sys.argv[1]):
    os.environ["NVFP4_GROUPED_CONFIG"] = tile
    if name == "tails":  # sizes of K, numbers of tiles and rows beside a tile, all different; then NaN in real rows
        sizes = [(40, 130, 256), (72, 100, 128), (1, 257, 64), (200, 64, 192), (260, 127, 128)]
        groups = random_groups(sizes, seed=1)
        groups[1].scales[0][71, 7], groups[3].scales[1][63, 0] = 0x7F, 0xFF
    elif name == "many":  # more than a kernel of few groups, and than a launch, takes
        sizes = [(1 + i % 3, 1 + i % 9, 64 * (1 + i % 2)) for i in range(70)]
        groups = random_groups(sizes, seed=2)
    else:
        groups, _ = official(int(name))
    got = run(library, groups, layout)
    try:
        assert_results(got, [group.want() for group in groups])
    except AssertionError as error:
        wrong.append([name, tile, layout, str(error)])
print(json.dumps(wrong))
"""


def simulate(backend, mode, runs, folder):
    """What is wrong of the runs, and the simulator's report."""
    environment = dict(
        os.environ,
        NVFP4_LIBRARY=str(built("libcustom_kernel_sim.so")),
        NVFP4_BACKEND=backend,
        NVFP4_SIMULATE="1",
        NVFP4_SIMULATE_MODE=mode,
        NVFP4_SIMULATE_JSON=str(folder / "report.json"),
    )
    done = forked.run(PROGRAM, [json.dumps(runs)], environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), json.loads((folder / "report.json").read_text())


@pytest.fixture(scope="module", autouse=True)
def needs_nvcc():
    nvcc()


MODES = ["eager", "late", "reverse", "random:1", "poison"]


@pytest.mark.parametrize("backend", TILES)
@pytest.mark.parametrize("mode", MODES)
def test_every_tile_is_exact_and_clean_and_every_mode_has_tiles(backend, mode, tmp_path):
    """Blackwell's are run in all modes, of the others, which differ by two numbers, each in two."""
    every = list(enumerate(TILES[backend]))
    number = MODES.index(mode)
    some = every if backend == "blackwell" else [(i, tile) for i, tile in every if (i - number) % 5 in (0, 2)]
    runs = [("tails", tile, (i + len(mode)) % 2) for i, tile in some]
    wrong, report = simulate(backend, mode, runs, tmp_path)
    assert wrong == []
    assert report["verdict"] == "clean", report["findings"]
    assert report["counters"]["tensor_macs"] > 0


@pytest.mark.parametrize("backend", TILES)
def test_official_tests_and_many_groups_are_exact_with_the_tiles_chosen(backend, tmp_path):
    cases = (0, 4) if backend == "geforce" else range(9)  # all of them on demand, by the harness
    runs = [(str(case), "", 0) for case in cases] + [("many", "", 0), ("many", "", 1)]
    wrong, report = simulate(backend, "eager", runs, tmp_path)
    assert wrong == []
    assert report["verdict"] == "clean", report["findings"]
