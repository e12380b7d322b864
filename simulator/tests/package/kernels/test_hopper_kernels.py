"""The Hopper backend's compiled kernels on the simulator: right and clean; planted faults are reported."""

from __future__ import annotations

import re

import pytest

from scripts.common import tile_table
from simulator.tests.package.kernels.simulated import simulate
from simulator.tests.sim_kit import nvcc
from simulator.validation.mutants.backends.hopper_mutants import (
    BARRIER_MUTANTS,
    FEW_ROWS,
    MUTANTS,
    NARROW_MUTANTS,
    SHARED_A,
    SHARED_K,
    TEAM,
    kernel_text,
    run,
    without,
)


@pytest.fixture(scope="module", autouse=True)
def needs_nvcc():
    nvcc()


@pytest.mark.parametrize("mode", ["eager", "late", "reverse", "random:1", "random:2", "poison"])
def test_right_and_clean_in_every_mode(mode, tmp_path):
    shapes = [(256, 512, 256, True), (130, 200, 192, False), (17, 72, 2240, False), *FEW_ROWS]
    right, report, messages = run(shapes, tmp_path / "report.json", mode)
    assert right == [True] * len(shapes), messages
    assert report["verdict"] == "clean", messages
    assert report["counters"]["tensor_macs"] >= 2 * 256 * 512 * 256


@pytest.mark.parametrize("mode", ["late", "reverse"])
def test_two_launches_that_share_the_columns_are_right_and_clean(mode, tmp_path):
    """On three SMs one tile covers 1,152 columns in whole waves, and another tile covers the rest."""
    shape = (129, 1200, 384)
    chosen = tile_table.selected("hopper", 3, "x".join(map(str, shape)))["x".join(map(str, shape))]
    assert chosen["first_columns"] == 1152 and chosen["rest_tile"] not in ("", chosen["tile"])
    right, report, messages = run([(*shape, True)], tmp_path / "report.json", mode, sms="3")
    assert right == [True] and report["verdict"] == "clean", messages


TAILS = """
import json, os, sys
from reference.reference import check_against_oracle, generate_input
from submission.submission import custom_kernel
wrong = []
for config, shape, blocked, full in json.loads(sys.argv[1]):
    os.environ["NVFP4_HOPPER_CONFIG"] = config
    data = generate_input(*shape, seed=7, full=full, device="cpu")
    data[-1].fill_(float("nan"))
    right, message = check_against_oracle(data, custom_kernel(data if blocked else (*data[:6], data[-1])), 4.0)
    if not right:
        wrong.append([config, shape, blocked, message])
print(json.dumps(wrong))
"""


def test_every_configuration_is_right_at_its_tails(tmp_path):
    """Odd and even numbers of stages of K, half a stage, batches, and M and N that end within a tile."""
    shapes = [(33, 50, 64, 2), (129, 40, 320, 1), (20, 97, 256, 2)]
    runs = [
        (config, shape, (i + j) % 2 == 0, j % 2 == 1)
        for i, config in enumerate(tile_table.names("hopper"))
        for j, shape in enumerate(shapes)
    ]
    wrong, report = simulate("hopper", "eager", runs, tmp_path, TAILS)
    assert wrong == []
    assert report["verdict"] == "clean"


PERSISTENT = "m256n64"  # the tile that has a kernel for calls of several waves


@pytest.mark.parametrize("mode", ["eager", "late", "reverse", "random:1", "poison"])
def test_tiles_after_tiles_of_a_cta_are_right_and_clean(mode, tmp_path):
    """Rings that go round once and several times, an odd number of columns, a last tile of rows that overlaps the one
    before, and parts of A after the first one in one band and in several."""
    shapes = [(256, 200, 64, True), (300, 203, 192, True), (512, 136, 704, False), (40, 328, 448, True)]
    shapes += [(700, 72, 2112, True), (1030, 130, 1152, False)]
    right, report, messages = run(shapes, tmp_path / "report.json", mode, config=PERSISTENT, sms="3")
    assert right == [True] * len(shapes), messages
    assert report["verdict"] == "clean", messages


def test_tiles_after_tiles_of_several_batches_are_right(tmp_path):
    shapes = [(270, 97, 320, 2), (30, 40, 1088, 9)]
    runs = [(PERSISTENT, shape, blocked, True) for shape in shapes for blocked in (True, False)]
    wrong, report = simulate("hopper", "eager", runs, tmp_path, TAILS, NVFP4_SIMULATE_SMS="3")
    assert wrong == []
    assert report["verdict"] == "clean"


PERSISTENT_MUTANTS = {
    "a tile's last stage is not given back": (
        r"(wgmma\.wait_group\.sync\.aligned 0;[\s\S]*?)mbarrier\.arrive\.shared::cta\.b64 _, \[%r\d+\];",
        r"\1",
        {"deadlock"},
    ),
    "outputs are read before they are there": (
        r"bar\.sync %r\d+, %r\d+;",
        "",
        {"read-after-write-race", "write-after-read-race"},
    ),
    "the copies may see what was there before": (r"fence\.proxy\.async\.global;", "", {"missing-proxy-fence"}),
    "an item is counted without a release": (r"red\.release\.gpu", "red.relaxed.gpu", {"global-race"}),
}


@pytest.mark.parametrize("name", PERSISTENT_MUTANTS)
def test_mutants_of_tiles_after_tiles_are_reported(name, tmp_path):
    pattern, replacement, kinds = PERSISTENT_MUTANTS[name]
    text = kernel_text()
    start = text.index(".entry _ZN6hopper27persistent_dual_gemm_kernel")
    end = text.find(".entry ", start + 1)
    kernel, count = re.subn(pattern, replacement, text[start : end if end > 0 else len(text)])
    assert count > 0
    (tmp_path / "mutant.ptx").write_text(text[:start] + kernel + (text[end:] if end > 0 else ""))
    _, report, messages = run(
        [(300, 200, 512, True)], tmp_path / "report.json", ptx=tmp_path / "mutant.ptx", config=PERSISTENT, sms="3"
    )
    assert report["verdict"] == "error", messages
    assert kinds & {finding["kind"] for finding in report["findings"]}, messages


def test_a_chip_of_fewer_sms_than_a_cluster_has_ctas_gets_a_tile(tmp_path):
    """On one SM: choosing a tile divides by the number of clusters that run at a time."""
    runs = [("", shape, True, True) for shape in ((8, 130, 512, 1), (40, 64, 256, 1), (130, 64, 128, 1))]
    wrong, _ = simulate("hopper", "eager", runs, tmp_path, TAILS, NVFP4_SIMULATE_SMS="1")
    assert wrong == []


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_reported(name, tmp_path):
    pattern, replacement, kinds = MUTANTS[name]
    text, count = re.subn(pattern, replacement, kernel_text())
    assert count > 0
    (tmp_path / "mutant.ptx").write_text(text)
    shapes = [(256, 512, 1024, True), (256, 512, 1024, True)]
    _, report, messages = run(shapes, tmp_path / "report.json", ptx=tmp_path / "mutant.ptx")
    # Chips forgive a missing fence where a barrier of the CTA follows mbarrier.init.
    assert report["verdict"] == ("review" if kinds == {"mbarrier-init-fence"} else "error"), messages
    assert kinds & {finding["kind"] for finding in report["findings"]}, messages
    finding = next(f for f in report["findings"] if f["kind"] in kinds)
    assert finding["ptx_line"] > 0
    assert ".cuh" in finding["source"] or finding["kind"] == "tx-count"


@pytest.mark.parametrize("name", NARROW_MUTANTS)
def test_mutants_of_the_narrow_kernel_are_reported(name, tmp_path):
    pattern, replacement, kinds = NARROW_MUTANTS[name]
    text, count = re.subn(pattern, replacement, kernel_text())
    assert count > 0
    (tmp_path / "mutant.ptx").write_text(text)
    _, report, messages = run(FEW_ROWS, tmp_path / "report.json", ptx=tmp_path / "mutant.ptx")
    assert report["verdict"] == "error", messages
    finding = next(f for f in report["findings"] if f["kind"] in kinds)
    assert "hopper/narrow/" in finding["source"]


@pytest.mark.parametrize("name", BARRIER_MUTANTS)
def test_mutants_of_barriers_between_warps_that_share_k_are_reported(name, tmp_path):
    (config, kernel, shapes), pattern, number, kinds = BARRIER_MUTANTS[name]
    (tmp_path / "mutant.ptx").write_text(without(kernel_text(), kernel, pattern, number))
    _, report, messages = run(shapes, tmp_path / "report.json", ptx=tmp_path / "mutant.ptx", config=config)
    assert report["verdict"] == "error" and kinds & {finding["kind"] for finding in report["findings"]}, messages


@pytest.mark.parametrize("tile", [SHARED_K, SHARED_A, TEAM])
def test_warps_that_share_k_are_right_and_clean(tile, tmp_path):
    config, _, shapes = tile
    right, report, messages = run(shapes, tmp_path / "report.json", config=config)
    assert right == [True] and report["verdict"] == "clean", messages
