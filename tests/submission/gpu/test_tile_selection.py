"""Tile selection of the GPU backends against a second statement of it (tile_model.py)."""

from __future__ import annotations

import json
import random
import subprocess

import pytest

from scripts.common import measured
from tests.submission.tile_model import (
    B200_SMS,
    BLACKWELL,
    BLACKWELL_PS,
    GEFORCE,
    GEFORCE_CYCLES,
    GROUPED,
    H200_SMS,
    HOPPER,
    HOPPER_PS,
    NARROW,
    NARROW_PS,
    RTX_5090_SMS,
    blackwell,
    clusters_at_once,
    geforce,
    hopper,
    narrow,
    up,
)

LIMITS = (100, 300, 2000, 20000)  # of M and N
MODELS = {
    "hopper": (hopper, H200_SMS),
    "blackwell": (blackwell, B200_SMS),
    "geforce": (geforce, RTX_5090_SMS),
}


def selected(tiles, backend, sms, shapes):
    """(name, CTAs, cost) for each shape, by the library."""
    words = ["x".join(map(str, shape)) for shape in shapes]
    done = subprocess.run([tiles.program, backend, str(sms), *words], capture_output=True, text=True, check=True)
    answers = json.loads(done.stdout)
    keys = ("tile", "ctas", "cost_ps", "cost_cycles", "first_columns", "rest_tile")
    return [tuple(answers[word][key] for key in keys if key in answers[word]) for word in words]


@pytest.mark.parametrize(("backend", "table"), [("hopper", HOPPER), ("blackwell", BLACKWELL), ("geforce", GEFORCE)])
def test_the_tables_rows_are_these_in_this_order(tiles, backend, table):
    found = {name: tuple(row.values()) for name, row in tiles.table[backend]["tiles"].items()}
    assert list(found.items()) == list(table.items())
    found = {name: tuple(row.values()) for name, row in tiles.table[backend]["grouped_tiles"].items()}
    assert list(found.items()) == list(GROUPED[backend].items())
    if backend == "hopper":
        assert {name: tuple(row.values()) for name, row in tiles.table[backend]["narrow_tiles"].items()} == NARROW


def test_what_the_selection_counts_with(tiles):
    assert tuple(tiles.table["hopper"]["costs"].values()) == HOPPER_PS
    assert tuple(tiles.table["hopper"]["narrow_costs"].values()) == NARROW_PS
    assert tuple(tiles.table["blackwell"]["costs"].values()) == BLACKWELL_PS
    assert tuple(tiles.table["geforce"]["costs"].values()) == GEFORCE_CYCLES


def test_what_a_cta_takes(tiles):
    resources = {name: tuple(row.values()) for name, row in tiles.table["hopper"]["resources"].items()}
    for name, (along_n, m_blocks, tile_m, stages, _, along_k) in HOPPER.items():
        tile_n, warpgroups = 32 * m_blocks * along_n, along_n * along_k
        # fp16 rows of A, fp4 rows of B1 and B2, their scale tiles (two along K), two barriers; room to align.
        stage = tile_m * 256 + 2 * tile_n * 64 + 2 * (1 if 128 % tile_n == 0 else 2) * 2 * 512 + 16
        assert resources[name] == (128 * (warpgroups + 1), stages * stage + 1024), name
    resources = {name: tuple(row.values()) for name, row in tiles.table["blackwell"]["resources"].items()}
    for name, (columns, stages, ctas, tail, splits) in BLACKWELL.items():
        scale_tiles = 1 if 128 % columns == 0 else 2
        stage = (128 + 2 * columns // ctas) * 128 + (1 + 2 * scale_tiles) * 4 * 512
        barriers = 4 * stages + 4 + 2
        b_tiles = up(2 * columns, 128) if tail == 0 and splits == 1 else 2 * scale_tiles  # stacked, or not
        tensor_columns_of_stage = 4 * (1 + b_tiles) * 4
        kept = stages if 2 * columns + stages * tensor_columns_of_stage <= 512 else 1
        wanted = (320, stages * stage + barriers * 8 + 8 + 1024, 2 * columns + kept * tensor_columns_of_stage)
        assert resources[name] == wanted, name
    resources = {name: tuple(row.values()) for name, row in tiles.table["geforce"]["resources"].items()}
    for name, (rows, columns, stages, warps_m, warps_n) in GEFORCE.items():
        scale_tiles = 1 + 2 * (1 if 128 % columns == 0 else 2)
        stage = (rows + 2 * columns) * 64 + scale_tiles * 2 * 512 + 16
        assert resources[name] == (32 * (warps_m * warps_n + 4), stages * stage + 1024), name
        assert stages * stage + 1024 <= 99 * 1024, name


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


@pytest.mark.parametrize("backend", MODELS)
@pytest.mark.parametrize("limit", LIMITS)
def test_any_problem_is_given_the_cheapest_tile(tiles, backend, limit):
    model, chip = MODELS[backend]
    shapes = random_shapes(backend, limit)
    for sms in processors(chip):
        for shape, answer in zip(shapes, selected(tiles, backend, sms, shapes), strict=True):
            assert answer == model(shape, sms), (shape, sms)


def test_any_few_rows_are_laid_out_at_least_cost(tiles):
    random_source = random.Random("few rows")
    shapes = [
        (random_source.randint(1, 32), *shape[1:]) for limit in LIMITS for shape in random_shapes("hopper", limit)[:100]
    ]
    for sms in (132, 78, 3):
        words = ["x".join(map(str, shape)) for shape in shapes]
        done = subprocess.run([tiles.program, "hopper", str(sms), *words], capture_output=True, text=True, check=True)
        answers = [tuple(json.loads(done.stdout)[word].values()) for word in words]
        for shape, answer in zip(shapes, answers, strict=True):
            if hopper(shape, sms)[0] in NARROW:  # else another tile is the cheaper one
                name, ctas, cost, figures = narrow(shape, sms)
                assert answer == (name, ctas, cost, *figures), (shape, sms)


def test_the_tile_chosen_is_within_a_twentieth_of_the_best_one_timed(tiles):
    """On an H200, each tile forced at each of these shapes; and the calls that are two launches now."""
    times = measured.load("h200_choice")["median_us"]
    names = [*HOPPER, *NARROW]
    shapes = [tuple(map(int, shape.split("x"))) for shape in times["auto"]]
    assert len(shapes) >= 60
    for shape, (chosen, _, _, *two) in zip(shapes, selected(tiles, "hopper", H200_SMS, shapes), strict=True):
        found = {name: times[name].get("x".join(map(str, shape))) for name in names}
        timed = [us for us in found.values() if us is not None]
        assert len(timed) >= len(HOPPER)
        us = times["auto"]["x".join(map(str, shape))] if two and two[1] else found[chosen]
        assert us <= 1.05 * min(timed), (shape, chosen)


@pytest.mark.parametrize("backend", MODELS)
def test_the_random_problems_need_every_tile(tiles, backend):
    """Else a row of the table could be anything."""
    model, chip = MODELS[backend]
    shapes = [shape for limit in LIMITS for shape in random_shapes(backend, limit)]
    names = {model(shape, sms)[0] for shape in shapes for sms in processors(chip)}
    assert names == {*tiles.table[backend]["tiles"], *tiles.table[backend].get("narrow_tiles", ())}


def test_of_equal_costs_the_larger_tile_is_taken(tiles):
    # 31 waves of 96 x 64 take as long as 24 of 96 x 96.
    shape = (96, 241, 1152, 1013)
    waves = (up(4 * 1013, H200_SMS), up(3 * 1013, H200_SMS))
    assert waves == (31, 24)
    stages = (96 * 64 * 61 + 64 * 2250 + 96 * 110, 96 * 96 * 61 + 96 * 2250 + 96 * 110)
    assert len({count * (9 * stage + 3_240_000) for count, stage in zip(waves, stages, strict=True)}) == 1
    assert selected(tiles, "hopper", H200_SMS, [shape])[0][0] == "m96n96"


@pytest.mark.parametrize(
    ("cluster", "sms", "at_once"),
    [(1, 148, 148), (2, 148, 74), (2, 149, 74), (4, 148, 32), (8, 148, 16), (4, 152, 32), (4, 160, 40), (8, 127, 8)],
)
def test_the_model_takes_a_b200s_clusters_as_eight_groups_of_sms(cluster, sms, at_once):
    assert clusters_at_once(cluster, sms) == at_once


@pytest.mark.parametrize("sms", [148, 127, 64])
def test_a_long_k_is_split_only_as_far_as_clusters_run_at_once(tiles, sms):
    shapes = [(m, n, 65536, 1) for m in (128, 256, 512) for n in (192, 1536, 3072, 6144)]
    for shape, answer in zip(shapes, selected(tiles, "blackwell", sms, shapes), strict=True):
        assert answer == blackwell(shape, sms), shape


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
def test_the_table_refuses_what_is_no_question(tiles, words, text):
    done = subprocess.run([tiles.program, *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr
