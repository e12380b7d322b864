"""Launches of a GPU backend: grids, tiles, tensor maps, limits."""

from __future__ import annotations

import ctypes

import pytest

from scripts.bench.baselines.variant import REFUSAL
from tests.submission.cpu_kit import ARGUMENT, BLOCKED, INPUTS, OK, ROWS, UNAVAILABLE, UNSUPPORTED, Args
from tests.submission.gpu.fake_gpu import (
    ADDRESS,
    BACKENDS,
    BLACKWELL,
    CHIPS,
    CLUSTERS,
    GEFORCE,
    HOPPER,
    LAYOUTS,
    NUMBERS,
    QUEUE,
    SCRATCH,
    round_up,
    template_numbers,
    tiles_of,
    up,
    with_tile,
)

# --- launches -----------------------------------------------------------------------------------------


def permute_launch(tiles_k, most_rows, slices):
    """256 threads: each has a row of one of two tiles, and copies two tiles along K."""
    return [up(tiles_k, 4), up(most_rows, 128), slices, 256, 1, 1, 0, QUEUE, 1, 1, 1, 1, 1]


PROBLEMS = [(300, 500, 1088, 3), (1, 1, 1024, 1), (128, 192, 960, 2), (257, 97, 2048, 1)]


def persistent_tile(tiles):
    """The tile whose kernel's CTAs take tile after tile."""
    return next(name for name, tile in tiles.table[HOPPER]["tiles"].items() if tile["persistent"])


@LAYOUTS
@pytest.mark.parametrize("shape", PROBLEMS)
def test_hoppers_launches_are_laid_out_by_the_tile(fake, tiles, monkeypatch, layout, shape):
    m, n, k, batches = shape
    for tile, row in tiles_of(tiles, HOPPER).items():
        warpgroups, m_blocks, tile_m, _, splits, _, persistent = row
        with_tile(monkeypatch, HOPPER, tile)
        assert fake.call(HOPPER, None, *shape, layout)[0] == OK
        tile_n = 32 * m_blocks * warpgroups
        padded_k = round_up(k, 128)
        permutes = layout == ROWS or padded_k != k
        a_bytes = round_up(batches * m * padded_k * 2, 256)
        scale_bytes = round_up(batches * round_up(n, 128) * padded_k // 16, 256) if permutes else 0
        assert fake.log("malloc") == [["malloc", a_bytes + 2 * scale_bytes, 1000, QUEUE]]
        units = padded_k // 128 * 16
        threads = min(units, 1024)
        launches = [[m, up(units, threads), batches, threads, 1, 1, 0, QUEUE, 1, 1, 1, 1, 1]]
        if permutes:  # by the same launch
            ctas = m * up(units, threads) * batches + up(padded_k // 64, 4) * up(n, 128) * 2 * batches
            launches = [[ctas, 1, 1, max(threads, 256), 1, 1, 0, QUEUE, 1, 1, 1, 1, 1]]
        grid = [up(n, tile_n) * splits, up(m, tile_m), batches]
        resources = tiles.table[HOPPER]["resources"][tile]
        shared = resources["shared_bytes"]
        if persistent:
            grid = [min(grid[0] * grid[1] * grid[2], CHIPS[HOPPER][1]), 1, 1]
            shared += warpgroups * 32 * 64 + 16 - 1024
        gemm = [*grid, resources["threads"], 1, 1, shared, QUEUE, splits, 1, 1, 1, 1]
        assert [line[2:] for line in fake.log("launch")] == [*launches, gemm]
        kernels = [line[1] for line in fake.log("launch")]
        assert template_numbers(kernels[-1], 6) == row[:6]
        assert len(set(kernels)) == len(kernels)
        maps = [line[1:] for line in fake.log("encode")]
        box = min(m, tile_m)  # no row past the end of A is copied
        b_map = [n, batches, k // 2, k // 2 * n, 64, tile_n, 1, 1, 1, 1, 0, 0, 2, 0]
        assert maps == [
            [6, 3, SCRATCH, padded_k, m, batches, 2 * padded_k, 2 * padded_k * m, 64, box, 1, 1, 1, 1, 0, 3, 3, 0],
            *([0, 3, ADDRESS[b], k // 2, *b_map] for b in ("b1", "b2")),
        ]
        assert fake.kinds()[-1] == "free" and fake.log("free") == [["free", 1, QUEUE]]
        assert fake.kinds().index("launch") > fake.kinds().index("encode"), (
            "steps that can fail come before the first launch"
        )


@LAYOUTS
@pytest.mark.parametrize("shape", [(1, 4096, 7168, 1), (8, 97, 64, 3), (16, 14336, 4096, 1), (32, 200, 512, 2)])
def test_few_rows_of_a_are_one_launch_without_scratch_memory_or_tensor_maps(fake, tiles, layout, shape):
    batches = shape[3]
    assert fake.call(HOPPER, None, *shape, layout)[0] == OK
    assert fake.log("malloc", "free", "encode", "pool_create", "entry_point") == []
    chosen = tiles.selected(HOPPER, CHIPS[HOPPER][1], *shape)
    row = tuple(tiles.table[HOPPER]["narrow_tiles"][chosen["tile"]].values())
    threads = 32 * chosen["warps_n"] * chosen["warps_k"]
    grid = [chosen["ctas"] // batches, 1, batches]
    (launch,) = fake.log("launch")
    split = chosen["split_k"]
    assert launch[2:] == [*grid, threads, 1, 1, chosen["shared_bytes"], QUEUE, split, 1, 1, 1, 1]
    assert template_numbers(launch[1], 5) == row and f"Lb{int(split > 1)}E" in launch[1], "one kernel for every split"


def test_a_problem_whose_last_wave_would_be_short_is_two_launches(fake, tiles):
    shape = (512, 14336, 4096, 1)
    chosen = tiles.selected(HOPPER, CHIPS[HOPPER][1], *shape)
    columns, names = chosen["first_columns"], (chosen["tile"], chosen["rest_tile"])
    assert 0 < columns < 14336 and columns % 128 == 0
    assert fake.call(HOPPER, None, *shape, BLOCKED)[0] == OK
    _, *gemms = fake.log("launch")
    for launch, name, taken in zip(gemms, names, (columns, 14336 - columns), strict=True):
        row = tuple(tiles.table[HOPPER]["tiles"][name].values())
        warpgroups, m_blocks, tile_m, _, splits, *_ = row
        assert template_numbers(launch[1], 6) == row[:6]
        grid = [up(taken, 32 * m_blocks * warpgroups) * splits, up(512, tile_m), 1]
        assert launch[2:5] == (grid if launch is not gemms[0] else [CHIPS[HOPPER][1], 1, 1])
    tile_m = tiles.table[HOPPER]["tiles"][names[0]]["tile_m"]
    assert names[0] == persistent_tile(tiles) and columns // 64 * up(512, tile_m) % CHIPS[HOPPER][1] == 0, "whole waves"


def test_a_persistent_tile_launches_at_most_one_cta_an_sm(fake, tiles, monkeypatch):
    """Tiles: fewer than SMs, as many, and one more; as many as 32 bits count, and more."""
    tile = persistent_tile(tiles)
    with_tile(monkeypatch, HOPPER, tile)
    row = tuple(tiles.table[HOPPER]["tiles"][tile].values())
    sms = CHIPS[HOPPER][1]
    for m, n, batches, ctas in (
        (256, 64 * 5, 1, 5),
        (256, 64 * sms, 1, sms),
        (256, 64 * sms + 1, 1, sms),
        (257, 64 * sms // 2 + 1, 1, sms),
        (1, 1, sms + 1, sms),
        (256 * 32768, 64 * 65535, 1, sms),
        (256 * 32768, 64 * 65536, 1, 0),
    ):
        assert fake.call(HOPPER, None, m, n, 64, batches)[0] == OK
        launch = fake.log("launch")[-1]
        grid, shared = launch[2:5], launch[8]
        assert template_numbers(launch[1], 6) == row[:6]
        assert ("persistent" in launch[1]) == (ctas > 0)
        assert grid == ([ctas, 1, 1] if ctas > 0 else [up(n, 64), up(m, 256), batches])
        ring = 3 * (256 * 128 * 2 + 2 * 64 * 64 + 2 * 2 * 512 + 16)
        assert shared == ring + (2 * 32 * 64 + 16 if ctas > 0 else 1024)


def test_a_persistent_gemm_dequantizes_all_but_the_parts_that_its_first_tiles_start_with(fake, tiles, monkeypatch):
    """The kernel before dequantizes two parts of K of A's first band, which is whole batches if it spans several.

    It dequantizes all of A if that is no more, or if A is a single row of tiles.
    """
    with_tile(monkeypatch, HOPPER, persistent_tile(tiles))
    sms = CHIPS[HOPPER][1]
    for shape, first, rows, units, batches in (
        ((8192, 2048, 7168, 1), True, 256 * up(sms, 32), 256, 1),
        ((8192, 64 * sms, 7168, 1), True, 256, 256, 1),
        ((8192, 64 * sms - 1, 7168, 1), True, 256, 256, 1),
        ((8192, 64 * sms - 64, 7168, 1), True, 512, 256, 1),
        ((512, 4096, 7168, 1), True, 512, 256, 1),
        ((512, 4096, 2176, 1), True, 512, 256, 1),
        ((512, 4096, 2048, 1), False, 512, 256, 1),
        ((512, 4096, 512, 1), False, 512, 64, 1),
        ((256, 4096, 7168, 1), False, 256, 896, 1),
        ((257, 4096, 7168, 1), True, 257, 256, 1),
        ((8192, 64 * sms, 512, 1), True, 256, 64, 1),
        ((512, 64 * sms, 512, 1), True, 256, 64, 1),
        ((200, 4096, 7168, 7), True, 200, 256, up(sms, 64)),
        ((300, 4096, 7168, 7), True, 300, 256, 2),
        ((300, 1024, 7168, 3), True, 300, 256, 3),
        ((256 * 12, 64 * (sms // 12), 7168, 1), True, 256 * 12, 256, 1),  # one wave
        ((256 * 13, 64 * (sms // 13), 7168, 1), False, 256 * 13, 896, 1),
        ((256 * 40, 64 * 8, 7168, 1), True, 256 * up(sms, 8), 256, 1),  # several; 17 rows of tiles at a time
        ((256 * 40, 64 * 7, 7168, 1), False, 256 * 40, 896, 1),
        ((256, 64 * (sms // 13), 7168, 13), False, 256, 896, 13),
    ):
        assert fake.call(HOPPER, None, *shape, BLOCKED)[0] == OK
        (launch, gemm) = fake.log("launch")
        assert ("dequantize_first_kernel" in launch[1]) == first, shape
        assert launch[2:6] == [rows, 1, batches, units], shape
        assert "persistent" in gemm[1]
    assert fake.call(HOPPER, None, 8192, 2048, 7168, 1, BLOCKED)[0] == OK
    tiles_n, parts, row_tiles = 2048 // 64, 7168 // 1024, 8192 // 256
    band = up(sms, tiles_n)
    counted = 1 + up(row_tiles, band) * band * parts  # whole bands, and the word that counts claimed items
    assert fake.log("malloc")[-1][1] == 8192 * 7168 * 2 + counted * 4


def test_a_narrow_tile_takes_any_number_of_rows(fake, monkeypatch):
    with_tile(monkeypatch, HOPPER, "m16")
    assert fake.call(HOPPER, None, 33, 4096, 7168, 2)[0] == OK
    assert fake.log("launch")[0][3:5] == [3, 2]


@LAYOUTS
@pytest.mark.parametrize("shape", PROBLEMS)
def test_blackwells_launches_are_laid_out_by_the_tile(fake, tiles, monkeypatch, layout, shape):
    m, n, k, batches = shape
    for tile, (columns, stages, ctas, tail, splits, stored) in tiles_of(tiles, BLACKWELL).items():
        with_tile(monkeypatch, BLACKWELL, tile)
        status, message = fake.call(BLACKWELL, None, *shape, layout)
        assert status == OK, message
        tiles_k = k // 64
        sfa_tiles, sfb_tiles = up(m, 128) * tiles_k, up(n, 128) * tiles_k
        sfa_bytes, sfb_bytes = (round_up(batches * count * 512, 256) for count in (sfa_tiles, sfb_tiles))
        launches, places = [], [ADDRESS[name] for name in ("sfa", "sfb1", "sfb2")]
        if layout == ROWS:
            places = [SCRATCH, SCRATCH + sfa_bytes, SCRATCH + sfa_bytes + sfb_bytes]
            assert fake.log("malloc") == [["malloc", sfa_bytes + 2 * sfb_bytes, 1001, QUEUE]]
            assert fake.log("free") == [["free", 1, QUEUE]] and fake.kinds()[-2] == "free"
            launches = [permute_launch(tiles_k, max(m, n), 3 * batches)]
        else:
            assert fake.log("malloc", "free", "pool_create") == []
        resources = tiles.table[BLACKWELL]["resources"][tile]
        grid = [round_up(up(m, 128), ctas) * splits, up(n, columns), batches]
        gemm = [*grid, resources["threads"], 1, 1, resources["shared_bytes"], QUEUE, ctas * splits, 1, 1, 1, 1]
        assert [line[2:] for line in fake.log("launch")] == [*launches, gemm]
        assert template_numbers(fake.log("launch")[-1][1], 6) == (columns, stages, ctas, tail, splits, stored)
        maps = [line[1:] for line in fake.log("encode")]
        # Each CTA of a pair copies one B if one MMA takes both, and both by halves if each MMA takes half of both.
        b_box = columns if tail == 0 and splits == 1 else columns // ctas // (2 if stored else 1)
        fp4 = [("a", m, 128), ("b1", n, b_box), ("b2", n, b_box)]
        scales = list(zip(places, (sfa_tiles, sfb_tiles, sfb_tiles), strict=True))
        half_k = k // 2
        assert maps == [
            *(
                [0, 3, ADDRESS[x], half_k, rows, batches, half_k, half_k * rows, 128, box, 1, 1, 1, 1, 0, 3, 3, 0]
                for x, rows, box in fp4
            ),
            *(
                [1, 3, place, 256, count, batches, 512, 512 * count, 256, 4, 1, 1, 1, 1, 0, 0, 3, 0]
                for place, count in scales
            ),
        ]


@LAYOUTS
@pytest.mark.parametrize("shape", PROBLEMS)
def test_geforces_launches_are_laid_out_by_the_tile(fake, tiles, monkeypatch, layout, shape):
    m, n, k, batches = shape
    for tile, (rows, columns, stages, warps_m, warps_n) in tiles_of(tiles, GEFORCE).items():
        with_tile(monkeypatch, GEFORCE, tile)
        status, message = fake.call(GEFORCE, None, *shape, layout)
        assert status == OK, message
        launches = []
        if layout == ROWS:
            a_bytes, b_bytes = (round_up(batches * up(x, 128) * k // 64 * 512, 256) for x in (m, n))
            assert fake.log("malloc") == [["malloc", a_bytes + 2 * b_bytes, 1002, QUEUE]]
            assert fake.log("free") == [["free", 1, QUEUE]] and fake.kinds()[-2] == "free"
            launches = [permute_launch(k // 64, max(m, n), 3 * batches)]
        else:
            assert fake.log("malloc", "free", "pool_create") == []
        resources = tiles.table[GEFORCE]["resources"][tile]
        ctas = min(up(m, rows) * up(n, columns) * batches, CHIPS[GEFORCE][1])
        gemm = [ctas, 1, 1, resources["threads"], 1, 1, resources["shared_bytes"], QUEUE, 1, 1, 1, 1, 1]
        assert [line[2:] for line in fake.log("launch")] == [*launches, gemm]
        assert template_numbers(fake.log("launch")[-1][1], 5) == (rows, columns, stages, warps_m, warps_n)
        half_k = k // 2
        assert [line[1:] for line in fake.log("encode")] == [
            [0, 3, ADDRESS[x], half_k, size, batches, half_k, half_k * size, 64, box, 1, 1, 1, 1, 0, 2, 3, 0]
            for x, size, box in (("a", m, rows), ("b1", n, columns), ("b2", n, columns))
        ]


@BACKENDS
@pytest.mark.parametrize(("value", "on"), [(None, 1), ("", 1), ("1", 1), ("0", 0), ("00", 1), ("no", 1)])
def test_dependent_launch_is_on_unless_the_environment_says_0(fake, monkeypatch, name, value, on):
    if value is not None:
        monkeypatch.setenv(f"NVFP4_{name.upper()}_DEPENDENT_LAUNCH", value)
    assert fake.call(name, layout=ROWS)[0] == OK
    launches = fake.log("launch")
    assert len(launches) == 2
    assert {line[-2] for line in launches} == {on}


@pytest.mark.parametrize("name", [BLACKWELL, GEFORCE])
def test_a_large_permutation_stays_within_the_grids_limits(fake, name):
    for m, batches, grid in (
        (128 * 65535, 1, [16, 65535, 3]),
        (128 * 65535 + 1, 1, [16, 65535, 3]),
        (1, 65535 // 3, [16, 1, 65535 // 3 * 3]),
        (1, 65535 // 3 + 1, [16, 1, 65535]),
    ):
        assert fake.call(name, m=m, n=1, k=4096, batches=batches, layout=ROWS)[0] == OK
        assert fake.log("launch")[-2][2:5] == grid


def test_hoppers_permutation_has_a_launch_of_its_own_where_one_grid_cannot_hold_both(fake, monkeypatch):
    with_tile(monkeypatch, HOPPER, "m64n128")  # few rows of A would take a narrow tile, which permutes nothing
    tile_rows, units = 65535, 4096 // 128 * 16
    most = (2**31 - 1) // (2 * 16 * tile_rows + 1)  # batches: 16 CTAs along K of each row of tiles, and one of A
    assert fake.call(HOPPER, m=1, n=128 * tile_rows, k=4096, batches=most, layout=ROWS)[0] == OK
    first, _ = fake.log("launch")
    assert first[2:6] == [most * (2 * 16 * tile_rows + 1), 1, 1, units] and "prepare" in first[1]
    assert fake.call(HOPPER, m=1, n=128 * tile_rows, k=4096, batches=most + 1, layout=ROWS)[0] == OK
    permute, dequantize, _ = fake.log("launch")
    assert permute[2:6] == [16, tile_rows, 2 * (most + 1), 256] and "permute" in permute[1]
    assert dequantize[2:6] == [1, 1, most + 1, units] and "dequantize_kernel" in dequantize[1]


@BACKENDS
def test_the_entry_point_is_asked_for_once(fake, name):
    assert fake.call(name)[0] == OK
    assert fake.log("entry_point") == [["entry_point", "cuTensorMapEncodeTiled", 12000, 0]]
    assert fake.call(name)[0] == OK
    assert fake.log("entry_point", "allow", "clusters") == []


@BACKENDS
def test_a_driver_without_tensor_maps_is_reported(fake, name):
    fake.number("no_entry").value = 1
    assert fake.call(name) == (UNAVAILABLE, "the CUDA driver has no cuTensorMapEncodeTiled")
    assert fake.log("launch") == []


# --- tile selection -----------------------------------------------------------------------------------


@BACKENDS
def test_a_tile_is_selected_for_the_devices_sms(fake, tiles, name):
    for sms in (CHIPS[name][1], 16):
        fake.devices([(CHIPS[name][0], sms)] * 2)
        for cluster in CLUSTERS:
            fake.clusters[cluster] = -1  # Blackwell: the driver does not say, so SMs are counted
        device = 0 if sms == 16 else 1
        for shape in ((256, 4096, 7168, 1), (512, 3072, 7168, 1), (130, 100, 64, 1), (4096, 4096, 512, 2)):
            assert fake.call(name, device, *shape)[0] == OK
            selected = tiles.selected(name, sms, *shape)
            row = tiles_of(tiles, name)[selected["tile"]]
            launched = fake.log("launch")[-1]
            columns = row[:6]  # Hopper's last column is no argument of the kernel's template
            assert template_numbers(launched[1], len(columns)) == columns
            most = sms if name == HOPPER and row[6] else selected["ctas"]
            assert launched[2] * launched[3] * launched[4] == min(selected["ctas"], most)


def test_the_driver_is_asked_once_a_device_how_many_clusters_run_at_once(fake, tiles):
    shape = (256, 3072, 32768, 1)
    fake.devices([CHIPS[BLACKWELL]] * 2)
    table = tiles_of(tiles, BLACKWELL)
    resources = tiles.table[BLACKWELL]["resources"]
    assert fake.call(BLACKWELL, 0, *shape)[0] == OK
    asked = fake.log("clusters")
    assert [line[2:] for line in asked] == [
        [ctas * splits, ctas * splits, resources[tile]["threads"], resources[tile]["shared_bytes"], -1]
        for tile, (_, _, ctas, _, splits, _) in table.items()
    ]
    assert [template_numbers(line[1], 6) for line in asked] == list(table.values())
    assert template_numbers(fake.log("launch")[-1][1], 6) == table["m256n192k4"]
    assert fake.call(BLACKWELL, 0, *shape)[0] == OK
    assert fake.log("clusters") == []
    # On another device no cluster of eight runs.
    fake.clusters[8] = 0
    assert fake.call(BLACKWELL, 1, *shape)[0] == OK
    assert len(fake.log("clusters")) == len(table)
    assert template_numbers(fake.log("launch")[-1][1], 6) != table["m256n192k4"]
    # Zero is an answer, too: the driver is not asked again.
    assert fake.call(BLACKWELL, 1, *shape)[0] == OK
    assert fake.log("clusters") == []


@BACKENDS
@pytest.mark.parametrize("value", ["x", "M256N64", "f64x128", "m256n6", "m256n64k", "m128n64 ", "x" * 99])
def test_an_unknown_tile_is_refused_with_the_known_names(fake, tiles, monkeypatch, name, value):
    with_tile(monkeypatch, name, value)
    status, message = fake.call(name)
    assert status == ARGUMENT
    table = tiles.table[name]
    every = dict.fromkeys([*table["tiles"], *table.get("extended_tiles", ()), *table.get("narrow_tiles", ())])
    names = ", ".join(every)
    assert message == f"NVFP4_{name.upper()}_CONFIG is '{value[:64]}'; expected one of {names}"
    assert fake.log("launch", "malloc") == []


@BACKENDS
def test_an_empty_name_of_a_tile_means_the_librarys_choice(fake, monkeypatch, name):
    assert fake.call(name)[0] == OK
    chosen = fake.log("launch")[-1]
    with_tile(monkeypatch, name, "")
    assert fake.call(name)[0] == OK
    assert fake.log("launch")[-1] == chosen


@pytest.mark.parametrize("tile", ["m256n128k2", "m256n192k2", "m256n192k4"])
def test_a_k_with_fewer_stages_than_shares_is_refused(fake, tiles, monkeypatch, tile):
    splits = tiles_of(tiles, BLACKWELL)[tile][4]
    with_tile(monkeypatch, BLACKWELL, tile)
    least = (splits - 1) * 256 + 64
    assert fake.call(BLACKWELL, k=least)[0] == OK
    status, message = fake.call(BLACKWELL, k=least - 64)
    assert status == UNSUPPORTED
    assert message == (
        f"k is {least - 64}; expected at least {least} on the blackwell backend with tile {tile}, "
        f"which splits K among {splits}"
    )
    assert REFUSAL in message, "by which benches know that a tile does not take a shape"
    assert fake.log("launch") == []


# --- limits -------------------------------------------------------------------------------------------

MOST = (2**31 - 1) // 8
LARGE = (1, 1, 64, 1)


@pytest.mark.parametrize(
    ("name", "tile", "what", "most", "extents"),
    [
        (HOPPER, "m64n128", "m", 65535 * 64, lambda x: (x, 1, 64, 1)),
        (HOPPER, "m256n64", "m", 65535 * 256, lambda x: (x, 1, 64, 1)),
        (HOPPER, "m8", "m", 65535 * 8, lambda x: (x, 1, 64, 1)),
        (HOPPER, "m8", "k", MOST // 64 * 64, lambda x: (1, 1, x, 1)),
        (HOPPER, "m128n64", "n", MOST, lambda x: (1, x, 64, 1)),
        (HOPPER, "m128n64", "k", MOST // 64 * 64, lambda x: (1, 1, x, 1)),
        (HOPPER, "m128n64", "l", 65535, lambda x: (1, 1, 64, x)),
        (BLACKWELL, "m128n64", "m", MOST, lambda x: (x, 1, 64, 1)),
        (BLACKWELL, "m128n64", "n", 65535 * 64, lambda x: (1, x, 64, 1)),
        (BLACKWELL, "m256n192k2", "n", 65535 * 192, lambda x: (1, x, 512, 1)),
        (BLACKWELL, "m128n64", "k", MOST // 64 * 64, lambda x: (1, 1, x, 1)),
        (BLACKWELL, "m128n64", "l", 65535, lambda x: (1, 1, 64, x)),
        (GEFORCE, "m128n64", "m", MOST, lambda x: (x, 1, 64, 1)),
        (GEFORCE, "m128n64", "n", MOST, lambda x: (1, x, 64, 1)),
        (GEFORCE, "m128n64", "k", MOST // 64 * 64, lambda x: (1, 1, x, 1)),
        (GEFORCE, "m128n64", "l", MOST, lambda x: (1, 1, 64, x)),
    ],
)
def test_each_extent_has_its_limit(fake, monkeypatch, name, tile, what, most, extents):
    with_tile(monkeypatch, name, tile)
    status, message = fake.call(name, None, *extents(most))
    assert status == OK, message
    beyond = most + (64 if what == "k" else 1)
    status, message = fake.call(name, None, *extents(beyond))
    limit = MOST if what == "k" else most
    assert REFUSAL in message
    assert (status, message) == (
        UNSUPPORTED,
        f"{what} is {beyond}; expected at most {limit} on the {name} backend with tile {tile}",
    )
    assert fake.log("launch", "malloc") == []


def test_geforces_tiles_of_c_have_their_limit(fake, monkeypatch):
    with_tile(monkeypatch, GEFORCE, "m64n32")
    assert fake.call(GEFORCE, None, 64 * 2**10, 32 * 2**10, 64, 2**8 - 1)[0] == OK
    status, message = fake.call(GEFORCE, None, 64 * 2**10, 32 * 2**10, 64, 2**8)
    expected = f"the number of tiles of c is {2**28}; expected at most {MOST} on the geforce backend with tile m64n32"
    assert (status, message) == (UNSUPPORTED, expected)
    assert fake.log("launch", "malloc") == []


@pytest.mark.parametrize("scales", ["sfa", "sfb1"])
def test_blackwells_scale_tiles_have_their_limit(fake, monkeypatch, scales):
    with_tile(monkeypatch, BLACKWELL, "m128n128")
    rows = "m" if scales == "sfa" else "n"

    def call(tiles_k):
        extents = {"m": 1, "n": 1, "k": 64 * tiles_k, "batches": 1, rows: 128 * 16384}
        return fake.call(BLACKWELL, **extents)

    assert call(MOST // 16384)[0] == OK
    status, message = call(MOST // 16384 + 1)
    assert status == UNSUPPORTED
    assert message == (
        f"the number of scale tiles of {scales}, ceil({rows} / 128) * k / 64, is {(MOST // 16384 + 1) * 16384}; "
        f"expected at most {MOST} on the blackwell backend with tile m128n128"
    )


def test_hoppers_a_in_fp16_has_its_limit(fake, monkeypatch):
    """2^59 bytes of fp4 become 2^62 bytes of fp16 with K padded."""
    with_tile(monkeypatch, HOPPER, "m256n64")
    k, batches = 1 << 26, 1 << 11
    places = {**dict.fromkeys(INPUTS, 16), "a": 1 << 63, "c": 1 << 61}
    for m, status in (((1 << 23) - 1, OK), (1 << 23, UNSUPPORTED)):
        args = Args(ctypes.sizeof(Args), NUMBERS[HOPPER], 0, ROWS, m, 1, k, batches, **places)
        assert fake.core.custom_kernel(ctypes.byref(args)) == status, fake.core.custom_kernel_message()
    assert fake.core.custom_kernel_message().decode() == (
        f"the size of a in bytes is {2**59}; expected at most {2**59 - 1} on the hopper backend with tile m256n64"
    )
