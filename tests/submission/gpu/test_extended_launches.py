"""Launches of the extended GEMM: on Hopper planned as the dual GEMM's, on Blackwell with tiles for few rows."""

from __future__ import annotations

import ctypes
import math

import pytest

from scripts.common import measured
from tests.submission.cpu_kit import BLOCKED, OK, UNSUPPORTED
from tests.submission.extended.test_extended_abi import ExtendedArgs
from tests.submission.gpu.fake_gpu import (
    BLACKWELL,
    CHIPS,
    HOPPER,
    NUMBERS,
    round_up,
    template_numbers,
    up,
    with_tile,
)

POINTERS = {name: (i + 1) << 56 for i, name in enumerate(("a", "b1", "b2", "sfa", "sfb1", "sfb2", "c"))}
PLAIN = {"products": 1, "b2": None, "sfb2": None, "limit": 0.0, "alpha": 0.0}
BF16_A = {"a_type": 1, "sfa": None}
SMS = CHIPS[HOPPER][1]
MOST = (2**31 - 1) // 8
H200_CLUSTERS = {3: 38, 4: 28, 5: 22}  # of so many CTAs that run at once, as timed


def interleaved(rows):
    return {"weights": rows, "b2": None, "sfb2": None}


def call(fake, m, n, k, chip=HOPPER, **changes):
    """(status, message) of an extended call; weights apart unless `changes` say otherwise."""
    device = list(CHIPS).index(chip)
    args = ExtendedArgs(ctypes.sizeof(ExtendedArgs), NUMBERS[chip], device, BLOCKED, m, n, k, 1, **POINTERS)
    args.scale_gate, args.limit, args.alpha = 1 << 50, math.inf, 1.0  # else the dual GEMM's kernels run it
    for name, value in changes.items():
        setattr(args, name, value)
    fake.core.fake_clear_log()
    status = fake.core.custom_kernel_extended(ctypes.byref(args))
    return status, fake.core.custom_kernel_message().decode()


def gemms(fake):
    """Tile and grid of each GEMM of the last call."""
    return [(template_numbers(line[1], 6), line[2:5]) for line in fake.log("launch") if "dual_tile" in line[1]]


@pytest.mark.parametrize("shape", [(512, 14336, 4096), (128, 4096, 7168)])
def test_an_extended_gemm_has_the_dual_gemms_tiles(fake, shape):
    assert fake.call(HOPPER, None, *shape, 1)[0] == OK
    dual = gemms(fake)
    assert call(fake, *shape)[0] == OK
    assert gemms(fake) == dual
    m, n, k = shape
    assert call(fake, m, 2 * n, k, **PLAIN)[0] == OK
    assert gemms(fake) == dual, "a plain product's tiles have twice the columns"


@pytest.mark.parametrize("shape", [(256, 3072, 4096), (17, 9216, 16384)])
def test_no_gemm_takes_a_tile_of_the_other_alone(fake, shape):
    """One after the other, by the same thread, which keeps choices: the best tile of either is one that only it has."""
    for _ in range(2):
        assert fake.call(HOPPER, None, *shape, 1)[0] == OK
        dual = [line[1] for line in fake.log("launch") if "dual_tile" in line[1]]
        assert dual and all("dual_gemm_kernel" in kernel for kernel in dual)
        assert call(fake, *shape)[0] == OK
        kernels = [line[1] for line in fake.log("launch") if "dual_tile" in line[1]]
        assert kernels and all("extended" in kernel for kernel in kernels)


def choice(fake, tiles, shape, gated):
    """The tile that a call's GEMM runs with; "" for a narrow one or two launches."""
    m, n, k = shape
    status, message = call(fake, m, n, k, **({} if gated else PLAIN))
    assert status == OK, message
    kernels = [line[1] for line in fake.log("launch") if "dual_tile" in line[1]]
    shared = {"shares" in kernel for kernel in kernels}
    names = {tuple(row.values())[:6]: name for name, row in tiles.table[HOPPER]["extended_tiles"].items()
             if name.endswith("s") in shared}  # fmt: skip
    return names[template_numbers(kernels[0], 6)] if len(kernels) == 1 else ""


@pytest.mark.parametrize("kind", ["plain", "gated"])
def test_the_tile_chosen_is_near_the_best_one_timed(fake, tiles, kind):
    """Times on an H200 with each tile forced.  Narrow tiles and two launches have the time of `auto`, which chose them
    too: no other tile that it knew was predicted to be faster."""
    over = []
    for text, times in measured.load("h200_extended_tiles")[kind].items():
        chosen = choice(fake, tiles, tuple(map(int, text.split("x"))), kind == "gated")
        us = times.get(chosen or "auto")
        assert us, f"{chosen} has no time at {text}, so it may not be chosen"
        over.append(us / min(us for name, us in times.items() if name != "bf16"))
    assert len(over) >= 45
    assert sum(over) / len(over) <= 1.02 and max(over) <= 1.15


def narrow_layout(fake, table, columns):
    """Tile of the last call's narrow kernel, and its layout: CTAs that share K, warps along N, warps along K."""
    (launch,) = fake.log("launch")
    numbers, grid, warps, split = template_numbers(launch[1], 5), launch[2], launch[5] // 32, launch[10]
    (tile,) = [name for name, row in table.items() if tuple(row.values()) == numbers]
    units = round_up(columns, 128) // (8 * table[tile]["blocks"])
    along_n = {wn for wn in range(1, warps + 1) if warps % wn == 0 and up(units, wn) * split == grid}
    return tile, {f"{split} {wn} {warps // wn}" for wn in along_n}


def test_the_layout_for_few_rows_is_near_the_best_one_timed(fake, tiles):
    """Times on an H200 with each layout forced, of both tiles of 16 rows, and of wide tiles where these were chosen."""
    for cluster, count in H200_CLUSTERS.items():
        fake.clusters[cluster] = count
    over = []
    for kind, cells in measured.load("h200_narrow_layouts")["us"].items():
        for shape, times in cells.items():
            m, n, k = map(int, shape.split("x"))
            if kind == "dual GEMM":
                assert fake.call(HOPPER, None, m, n, k, 1)[0] == OK
            else:
                changes = {**(PLAIN if "plain" in kind else {}), **(BF16_A if "bf16" in kind else {})}
                assert call(fake, m, n, k, **changes)[0] == OK
            found = list(times.get("wide", {}).values())
            if "narrow" in fake.log("launch")[-1][1]:
                columns = n // 2 if "plain" in kind else n
                tile, layouts = narrow_layout(fake, tiles.table[HOPPER]["narrow_tiles"], columns)
                found = [us for layout, us in times[tile].items() if layout in layouts]
                assert found, f"{shape}: {layouts} of {tile} took more than 1.3 of the best one's time"
            over += [us / min(us for each in times.values() for us in each.values()) for us in found]
    assert len(over) >= 75
    assert sum(over) / len(over) <= 1.02 and max(over) <= 1.26


@pytest.mark.parametrize("rows", [range(1, 9), range(9, 17), range(17, 33)])
@pytest.mark.parametrize("shape", [(768, 2048), (2048, 7168), (9216, 16384), (28672, 4096)])
@pytest.mark.parametrize("changes", [{}, PLAIN, BF16_A], ids=["gated", "plain", "bf16 A"])
def test_calls_of_few_rows_run_alike_so_that_a_row_keeps_its_bits(fake, rows, shape, changes):
    ways = set()
    for m in rows:
        assert call(fake, m, *shape, **changes)[0] == OK
        ways.add(tuple((line[1], *line[2:]) for line in fake.log("launch") if "_tile" in line[1]))
    assert len(ways) == 1 and ways != {()}


def test_equal_shares_launch_a_cta_an_sm_and_zero_a_word_for_each_shared_tile(fake, monkeypatch):
    """80 tiles of 128 columns; 12 stages of K are fewer than the SMs."""
    with_tile(monkeypatch, HOPPER, "m128n64s")
    a, sums = 128 * 8192 * 2, SMS * 128 * 128 * 4
    for m, n, k, ctas, scratch in (
        (128, 10240, 8192, SMS, a + sums + 80 * 4),
        (1, 128, 1536, 12, 1536 * 2 + 12 * 128 * 128 * 4 + 4),
    ):
        status, message = call(fake, m, n, k, **PLAIN)
        assert status == OK, message
        assert [grid for _, grid in gemms(fake)] == [[ctas, 1, 1]]
        assert fake.log("malloc")[0][1] == scratch


def test_a_tile_that_no_launch_has_sets_no_limit(fake, monkeypatch):
    """The first tile of the list has half the rows of this one."""
    with_tile(monkeypatch, HOPPER, "m256n64")
    most = 65535 * 256
    status, message = call(fake, most, 64, 64)
    assert status == OK, message
    assert call(fake, most + 1, 64, 64) == (
        UNSUPPORTED,
        f"m is {most + 1}; expected at most {most} on the hopper backend with tile m256n64",
    )


@pytest.mark.parametrize(("columns", "changes"), [(64, {}), (128, PLAIN)], ids=["gated", "plain"])
def test_a_persistent_tile_counts_its_tiles_in_32_bits(fake, monkeypatch, columns, changes):
    """A CTA's next tile may be one for each SM further; there is no kernel with a CTA for each tile."""
    with_tile(monkeypatch, HOPPER, "m256n64")
    m, most = 256 * 32768, 2**31 - 1 - SMS
    status, message = call(fake, m, columns * 65535, 64, **changes)
    assert status == OK, message
    assert gemms(fake) == [(gemms(fake)[0][0], [SMS, 1, 1])]
    assert call(fake, m, columns * 65536, 64, **changes) == (
        UNSUPPORTED,
        f"the number of tiles is {2**31}; expected at most {most} on the hopper backend with tile m256n64",
    )
    assert fake.log("launch", "malloc") == []


def test_interleaved_weights_have_as_many_rows_as_a_tensor_may(fake, monkeypatch):
    with_tile(monkeypatch, HOPPER, "m128n64")
    n = up(MOST // 2, 64) * 64 - 64
    status, message = call(fake, 1, n, 64, **interleaved(64))
    assert status == OK, message
    assert call(fake, 1, n + 64, 64, **interleaved(64)) == (
        UNSUPPORTED,
        f"the number of rows of b1 is {2 * n + 128}; expected at most {MOST} on the hopper backend with tile m128n64",
    )


def blackwells_launch(fake, gated, *shape):
    """What a call launches: the kernel's name, its grid, threads, shared memory, queue and cluster."""
    status, message = call(fake, *shape, chip=BLACKWELL, **({} if gated else PLAIN))
    assert status == OK, message
    (line,) = fake.log("launch")
    return line[1:]


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("pairs", [1, 2, 4])
def test_blackwells_tiles_for_few_rows_are_laid_out_in_clusters_that_share_k(fake, monkeypatch, gated, pairs):
    monkeypatch.setenv("NVFP4_BLACKWELL_CONFIG" if gated else "NVFP4_GROUPED_CONFIG", f"m128k{pairs}")
    m, n, k = 130, 1000, 2048
    kernel, *grid, threads, _, _, shared, _, cluster = blackwells_launch(fake, gated, m, n, k)[:10]
    assert "few_rows" in kernel and f"Lb{int(gated)}E" in kernel
    assert cluster == 2 * pairs
    assert grid == [up(n, 128 if gated else 256) * up(m, 128) * cluster, 1, 1] and threads == 320
    # A stage: 128 rows of B and 64 of A, 128 bytes each, and three scale tiles of four steps.  Sums of 128 rows of A by
    # 128 columns in fp32: of each other CTA's, the part that this one stores.
    sharers = cluster if gated else pairs
    ring, received = 5 * (192 * 128 + 3 * 2048), (sharers - 1) * 128 * 128 * 4 // sharers
    assert ring + received < shared <= min(ring + received + 2048, 227 * 1024)
    boxes = {line[3]: line[10] for line in fake.log("encode") if line[1] == 0}
    assert (
        boxes == {POINTERS["a"]: 64, POINTERS["b1"]: 128, POINTERS["b2"]: 128} if gated else boxes[POINTERS["a"]] == 64
    )


@pytest.mark.parametrize("kind", ["plain", "gated"])
def test_blackwells_tile_for_few_rows_is_near_the_best_one_simulated(fake, kind):
    """Simulated times on a B200 with each tile forced."""
    over = []
    for text, times in measured.load("simulated_shared_k")["B200, tiles for few rows"][kind].items():
        kernel = blackwells_launch(fake, kind == "gated", *map(int, text.split()))[0]
        numbers = template_numbers(kernel, 5)
        chosen = (
            f"m128k{numbers[4]}"
            if "few_rows" in kernel
            else {(64, 7, 2): "m256n128", (64, 5, 1): "m128n128"}.get(numbers[:3], "m256n64")
        )
        over.append(times[chosen] / min(us for us in times.values() if us))
    assert len(over) >= 8
    assert sum(over) / len(over) <= 1.05 and max(over) <= 1.2
