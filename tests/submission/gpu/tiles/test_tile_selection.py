"""The GPU backends' tile selection: its tiles' resources, its grids, and how good its choices are by measured times."""

from __future__ import annotations

import json
import random
import subprocess

import pytest

from scripts.common import measured

H200_SMS, B200_SMS, RTX_5090_SMS = CHIPS = (132, 148, 170)
GEFORCE_SMS = {"GB10": 48, "RTX 5090": 170, "RTX PRO 6000": 188}
SCALE_TILE_ROWS = 128
LIMITS = (100, 300, 2000, 20000)  # largest M and N
BACKENDS = dict(zip(("hopper", "blackwell", "geforce"), CHIPS, strict=True))


def up(x, y):
    return -(-x // y)


def tile_n_of(tile):
    return 32 * tile["m_blocks"] * tile["warpgroups_n"]


def scale_tiles_of(columns):
    """Scale tiles along the rows of B that so many rows of a tile are in."""
    return 1 if SCALE_TILE_ROWS % columns == 0 else 2


def selected(tiles, backend, sms, shapes):
    """(name, CTAs, cost) for each shape, by the library."""
    words = ["x".join(map(str, shape)) for shape in shapes]
    done = subprocess.run([tiles.program, backend, str(sms), *words], capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout)
    keys = ("tile", "ctas", "cost_ps", "cost_cycles", "first_columns", "rest_tile")
    return [tuple(answers[word][key] for key in keys if key in answers[word]) for word in words]


def test_resources_of_a_cta(tiles):
    table = tiles.table["hopper"]
    for name, tile in table["tiles"].items():
        tile_n, warpgroups = tile_n_of(tile), tile["warpgroups_n"] * tile["warpgroups_k"]
        # fp16 rows of A, fp4 rows of B1 and B2, their scale tiles (two along K), two barriers; room to align.
        stage = tile["tile_m"] * 256 + 2 * tile_n * 64 + 2 * scale_tiles_of(tile_n) * 2 * 512 + 16
        wanted = (128 * (warpgroups + 1), tile["stages"] * stage + 1024)
        assert tuple(table["resources"][name].values()) == wanted, name
    table = tiles.table["blackwell"]
    for name, tile in table["tiles"].items():
        columns, stages = tile["tile_n"], tile["stages"]
        scale_tiles = scale_tiles_of(columns)
        stage = (128 + 2 * columns // tile["ctas"]) * 128 + (1 + 2 * scale_tiles) * 4 * 512
        barriers = 4 * stages + 4 + 2
        stacked = tile["tail"] == 0 and tile["split_k"] == 1
        b_tiles = up(2 * columns, 128) if stacked else 2 * scale_tiles
        tensor_columns_of_stage = 4 * (1 + b_tiles) * 4
        kept = stages if 2 * columns + stages * tensor_columns_of_stage <= 512 else 1
        wanted = (320, stages * stage + barriers * 8 + 8 + 1024, 2 * columns + kept * tensor_columns_of_stage)
        assert tuple(table["resources"][name].values()) == wanted, name
    table = tiles.table["geforce"]
    for name, tile in table["tiles"].items():
        stage = (tile["tile_m"] + 2 * tile["tile_n"]) * 64 + (1 + 2 * scale_tiles_of(tile["tile_n"])) * 2 * 512 + 16
        shared = tile["stages"] * stage + 1024
        wanted = (32 * (tile["warps_m"] * tile["warps_n"] + 4), shared)
        assert tuple(table["resources"][name].values()) == wanted, name
        assert shared <= 99 * 1024, name


def random_shapes(backend, limit):
    random_source = random.Random(f"{backend} {limit}")
    return [
        (
            random_source.randint(1, limit),
            random_source.randint(1, limit),
            64 * random_source.randint(1, random_source.choice([8, 40, 600])),
            random_source.choice([1, 1, 2, 7]),
        )
        for _ in range(300)
    ]


def processors(sms):
    return (sms, sms - 1, 78, 16, 3, 2)


def grid(backend, tile, shape, sms):
    """CTAs of one launch of a tile."""
    m, n, _, batches = shape
    if backend == "hopper":
        return up(n, tile_n_of(tile)) * up(m, tile["tile_m"]) * batches * tile["split_k"]
    if backend == "blackwell":
        return up(up(m, 128), tile["ctas"]) * tile["ctas"] * tile["split_k"] * up(n, tile["tile_n"]) * batches
    return min(up(m, tile["tile_m"]) * up(n, tile["tile_n"]) * batches, sms)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("limit", LIMITS)
def test_every_problem_gets_a_tile_whose_grid_covers_it(tiles, backend, limit):
    table, chip = tiles.table[backend], BACKENDS[backend]
    shapes = random_shapes(backend, limit)
    for sms in processors(chip):
        for shape, answer in zip(shapes, selected(tiles, backend, sms, shapes), strict=True):
            (name, ctas, cost, *two), (m, n, k, batches) = answer, shape
            assert cost > 0 and ctas > 0, (shape, sms)
            if name in table.get("narrow_tiles", {}):
                assert m <= 128, (shape, sms)
                continue
            tile = table["tiles"][name]
            first, rest = (two[0], two[1]) if two else (n, "")
            wanted = grid(backend, tile, (m, first, k, batches), sms)
            if rest:
                assert 0 < first < n and first % SCALE_TILE_ROWS == 0, (shape, sms)
                wanted += grid(backend, table["tiles"][rest], (m, n - first, k, batches), sms)
            assert ctas == wanted, (shape, sms)
            if backend == "blackwell":  # each CTA has a part of K, and a cluster fits
                assert up(k, 256) >= tile["split_k"] and tile["ctas"] * tile["split_k"] <= sms, (shape, sms)


@pytest.mark.parametrize("backend", ["blackwell", "geforce"])
def test_more_work_is_never_predicted_to_take_less_time(tiles, backend):
    shapes = random_shapes(backend, 2000)
    for axis in range(4):
        more = [tuple(size * (1 + (i == axis)) for i, size in enumerate(shape)) for shape in shapes]
        both = (selected(tiles, backend, BACKENDS[backend], of) for of in (shapes, more))
        for shape, (_, _, less, *_), (_, _, cost, *_) in zip(shapes, *both, strict=True):
            assert cost >= less, (shape, axis)


def test_the_tile_chosen_is_within_a_twentieth_of_the_best_one_timed(tiles):
    """Times on an H200 with each tile forced at each of these shapes; and the calls that are now two launches."""
    times = measured.load("h200_choice")["median_us"]
    names = [name for table in ("tiles", "narrow_tiles") for name in tiles.table["hopper"][table] if name in times]
    shapes = [tuple(map(int, shape.split("x"))) for shape in times["auto"]]
    assert len(shapes) >= 60
    for shape, (chosen, _, _, *two) in zip(shapes, selected(tiles, "hopper", H200_SMS, shapes), strict=True):
        text = "x".join(map(str, shape))
        timed = {name: times[name][text] for name in names if text in times[name]}
        assert len(timed) >= 14
        assert chosen in names, f"{chosen} has no time on an H200 yet, so it may not be chosen for {text}"
        us = times["auto"][text] if two and two[1] else timed[chosen]
        assert us <= 1.05 * min(timed.values()), (shape, chosen)


def test_the_larger_of_two_tiles_of_equal_cost_is_taken(tiles):
    # 31 waves of 96 x 64 take as long as 24 of 96 x 96.
    shape = (96, 241, 1152, 1013)
    waves = (up(4 * 1013, H200_SMS), up(3 * 1013, H200_SMS))
    assert waves == (31, 24)
    stages = (96 * 64 * 61 + 64 * 2250 + 96 * 110, 96 * 96 * 61 + 96 * 2250 + 96 * 110)
    assert len({count * (9 * stage + 3_240_000) for count, stage in zip(waves, stages, strict=True)}) == 1
    assert selected(tiles, "hopper", H200_SMS, [shape])[0][0] == "m96n96"


@pytest.mark.parametrize("chip", GEFORCE_SMS)
@pytest.mark.parametrize(("m", "n", "k"), [(256, 4096, 7168), (512, 4096, 7168), (256, 3072, 4096), (512, 3072, 7168)])
def test_each_benchmark_shape_keeps_most_of_the_tensor_cores_busy(tiles, chip, m, n, k):
    """Compares predicted cycles with all multiply-adds spread over all SMs; M = 256 has tiles for 128 of 170 SMs."""
    least = 2 * m * n * k / 2048 / GEFORCE_SMS[chip]
    assert tiles.selected("geforce", GEFORCE_SMS[chip], m, n, k)["cost_cycles"] < 1.6 * least


def test_few_rows_take_the_tile_that_copies_least_of_a(tiles):
    for m in (1, 16, 64):
        assert tiles.selected("geforce", GEFORCE_SMS["RTX 5090"], m, 4096, 7168)["tile"] == "m64n32"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["turing", "132", "1x1x64"], "BACKEND is 'turing'"),
        (["hopper"], "SMS is ''"),
        (["hopper", "1"], "SMS is '1'"),
        (["hopper", "12x"], "SMS is '12x'"),
        (["blackwell", "148", "1x1"], "SHAPE is '1x1'"),
        (["blackwell", "148", "1x0x64"], "SHAPE is '1x0x64'"),
        (["blackwell", "148", "8x8x64", "1x1x64x1x1"], "SHAPE is '1x1x64x1x1'"),
        (["blackwell", "148", "1x1x64x0"], "SHAPE is '1x1x64x0'"),
        (["blackwell", "148", "ax1x64"], "SHAPE is 'ax1x64'"),
    ],
)
def test_the_program_refuses_unknown_words(tiles, words, text):
    done = subprocess.run([tiles.program, *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr
