"""Copies in the modes tile::gather4, tile::scatter4, im2col and im2col::w.

Copies are held to a walk over pixels written here, and to what an RTX 5080 gave (roundandr/Allegro,
verification/cocotb/golden/nvidia_tma_sm120a.json and nvidia_tma_formats_sm120a.json).
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from simulator.tests.asynchronous.test_copies import BYTES, load_text, swizzled, tensor
from simulator.tests.asynchronous.test_map_rules import encode
from simulator.tests.sim_kit import MODES, PtxError, Sim, body


def on(target: str, text: str) -> str:
    return text.replace("sm_90a", target)


def gather_text(to: str = "shared::cluster") -> str:
    return load_text(5).replace("tensor.5d.shared::cluster.global.tile.", f"tensor.2d.{to}.global.tile::gather4.")


def column_text(rank: int, extras, mode: str = "im2col") -> str:
    """im2col::w to .shared::cta, which exists from sm_100 on."""
    text = load_text(rank).replace(".tile.", f".{mode}.").replace("}], [%r3];", f"}}], [%r3], {{{extras}}};")
    return on("sm_100a", text.replace("shared::cluster.global", "shared::cta.global") if mode != "im2col" else text)


def tensor_map(array, data_type=2, **changes) -> bytes:
    described = {
        "data_type": data_type,
        "rank": array.ndim,
        "sizes": list(array.shape[::-1]),
        "strides": list(array.strides[-2::-1]),
        "element_strides": [1] * array.ndim,
    }
    image, message = encode(array.ctypes.data, **described | changes)
    assert not message
    return image


def load(text: str, array, image: bytes, size: int, at, mode: str = "eager") -> bytes:
    sim = Sim(text, mode)
    sim.register(array)
    out = sim.register(np.frombuffer(bytearray(BYTES), np.uint8).view(np.uint32))
    assert sim.launch("k", out, image, size, *at) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return out.tobytes()


# ---- four rows ----


@pytest.mark.parametrize("mode", MODES)
def test_gather4_takes_four_rows_in_any_order(mode):
    array = tensor((6, 64), np.uint16)
    rows = [5, 0, 5, 2]
    image = tensor_map(array, 1, box=[16, 1])
    got = load(on("sm_100a", gather_text()), array, image, 4 * 32, [8, *rows], mode)
    assert got[:128] == array[rows, 8:24].tobytes()
    assert not any(got[128:])


def test_gather4_fills_rows_and_columns_outside_and_swizzles_rows_as_lines():
    array = tensor((6, 64), np.uint16)
    want = np.zeros((4, 64), np.uint16)
    want[1, :32], want[3, :32] = array[4, 32:], array[1, 32:]
    image = tensor_map(array, 1, box=[64, 1], swizzle=3)
    got = load(on("sm_120a", gather_text("shared::cta")), array, image, 512, [32, -1, 4, 6, 1])
    assert got == swizzled(want.tobytes(), 0x70)


def test_gather4_as_an_rtx_5080_does():
    """formats, case 4: the first word of each row, whose elements are numbered from 1 on."""
    array = tensor((4, 32), np.uint32)
    got = load(on("sm_120a", gather_text("shared::cta")), array, tensor_map(array, box=[8, 1]), 128, [4, 2, 0, 3, 1])
    assert np.frombuffer(got, np.uint32)[:32:8].tolist() == [69, 5, 101, 37]


STORE_LINES = (
    "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r2; add.u32 %r4, %r1, 7;",
    "st.shared.u32 [%r3], %r4; FENCE bar.warp.sync -1; setp.ne.u32 %p1, %r1, 0; @%p1 bra END;",
    "mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2; ld.param.u64 %rd1, [out];",
    *(f"ld.param.u32 %r{40 + i}, [c{i}];" for i in range(5)),
    "COPY",
    "cp.async.bulk.commit_group; THEN cp.async.bulk.wait_group 0;",
    "END:",
)


def store_text(copy: str, then: str = "", fence: str = "fence.proxy.async;") -> str:
    lines = [line.replace("COPY", copy).replace("THEN", then).replace("FENCE", fence) for line in STORE_LINES]
    return on(
        "sm_100a",
        body(
            *lines,
            params=".param .u64 out, .param .align 64 .b8 map[128]" + "".join(f", .param .u32 c{i}" for i in range(5)),
            registers=".shared .align 128 .b8 tile[128];",
        ),
    )


LANES = np.arange(7, 39, dtype=np.uint32)  # contents of the tile, 32 words
SCATTER = (
    "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group"
    " [%rd2, {%r40, %r41, %r42, %r43, %r44}], [%r2];"
)
REDUCE_ROWS = SCATTER.replace("cp.async", "cp.reduce.async").replace("shared::cta.", "shared::cta.add.")


def store(text: str, array, image: bytes, at, out=None, mode: str = "eager") -> Sim:
    sim = Sim(text, mode)
    sim.register(array)
    at = [*at, *[0] * (5 - len(at))]
    sim.launch("k", sim.buffer(np.zeros(64, np.uint32)) if out is None else sim.register(out), image, *at)
    return sim


@pytest.mark.parametrize("copy", [SCATTER, REDUCE_ROWS], ids=["store", "add"])
@pytest.mark.parametrize("mode", MODES)
def test_scatter4_writes_four_rows(copy, mode):
    array = tensor((6, 16), np.uint32)
    want = array.copy()
    for i, row in enumerate([4, 1, 7, 2]):  # the third row is outside
        if row < 6:
            want[row, 12:] = LANES[8 * i :][:4] + (array[row, 12:] if copy == REDUCE_ROWS else 0)
    sim = store(store_text(copy), array, tensor_map(array, box=[8, 1]), [12, 4, 1, 7, 2], mode=mode)
    assert sim.verdict == "clean", sim.findings
    assert (array == want).all()


# ---- columns of pixels ----


def walk(sizes, lower, upper, steps, begin, offsets, pixels):
    """Coordinates of a column's pixels, from dimension 1 on: counting with carry, W first, images last."""
    low = [first + offset for first, offset in zip(lower, offsets, strict=True)]
    high = [size - 1 + last + offset for size, last, offset in zip(sizes[1:], upper, offsets, strict=False)]
    at = [base + offset for base, offset in itertools.zip_longest(begin, offsets, fillvalue=0)]
    for _ in range(pixels):
        yield tuple(at)
        for i, (first, last) in enumerate(zip(low, high, strict=True)):
            at[i] += steps[i]
            if at[i] <= last:
                break
            at[i] = first
        else:
            at[-1] += 1


def column_of(array, places, first, channels):
    out = np.zeros((len(places), channels), array.dtype)
    for row, place in enumerate(places):
        if all(0 <= p < n for p, n in zip(place, array.shape[-2::-1], strict=True)):
            part = array[place[::-1]][first : first + channels]
            out[row, : len(part)] = part
    return out


@pytest.mark.parametrize("seed", range(24))
def test_im2col_against_a_walk_over_the_pixels(seed):
    draw = np.random.default_rng(seed)
    spatial = 1 + seed % 3
    sizes = [16, *(int(draw.integers(2, 8)) for _ in range(spatial)), 5]
    array = tensor(tuple(sizes[::-1]), np.uint32)
    lower = [int(draw.integers(-2, 2)) for _ in range(spatial)]
    upper = [int(draw.integers(lower[i] - sizes[i + 1] + 1, 2)) for i in range(spatial)]
    steps = [int(draw.integers(1, 4)) for _ in range(spatial)]
    base = [int(draw.integers(lower[i], sizes[i + 1] + upper[i])) for i in range(spatial)]
    offsets = [int(draw.integers(0, 4)) for _ in range(spatial)]
    begin, pixels = [*base, int(draw.integers(-1, 5))], int(draw.integers(1, 100))
    places = list(walk(sizes, lower, upper, steps, begin, offsets, pixels))
    image = tensor_map(
        array,
        mode=1,
        box=[8],
        pixels=pixels,
        lower=lower,
        upper=upper,
        element_strides=[1, *steps, 1],
    )
    text = column_text(spatial + 2, ", ".join(map(str, offsets)))
    got = load(text, array, image, pixels * 32, [12, *begin], MODES[seed % len(MODES)])
    want = column_of(array, places, 12, 8)
    want[:, 4:] = 0
    assert got[: want.nbytes] == want.tobytes()
    assert not any(got[want.nbytes :])


# rank, mode, offsets or halo and offset: pixels' first words, of a tensor of 16 x 5 x 8 x ... elements from 1 on
RTX_5080 = {
    "case 7": (3, "im2col", "1", [33, 65, 81, 113, 145, 161, 193, 225, 241, 273, 305, 321, 353]),
    "case 8": (4, "im2col", "1, 1", [113, 145, 161, 193, 225, 241, 273, 305, 321, 353, 385, 401, 433]),
    "case 9": (
        4,
        "im2col::w",
        "2, 1",
        [33, 65, 641, 673, 705, 1281, 1313, 1345, 1921, 1953, 1985, 2561, 2593, 2625, 3201],
    ),
    "case 14": (5, "im2col", "1, 1, 1", [753, 785, 801, 833, 865, 881, 913, 945, 961, 993, 1025, 1041, 1073]),
    "case 15": (
        5,
        "im2col::w",
        "2, 1",
        [33, 65, 5121, 5153, 5185, 10241, 10273, 10305, 15361, 15393, 15425, 20481, 20513, 20545, 25601],
    ),
}


@pytest.mark.parametrize("case", RTX_5080)
def test_columns_as_an_rtx_5080_copies_them(case):
    """Halo pixels continue the column, and the barrier counts their bytes too."""
    rank, mode, extras, words = RTX_5080[case]
    array = tensor((8, 8, 8, 5, 16)[-rank:], np.uint32)
    image = tensor_map(
        array,
        mode=2 if mode == "im2col::w" else 1,
        swizzle=3,
        box=[8],
        pixels=13,
        lower=[-1],
        upper=[-1],
        element_strides=[1, 2, 1, 1, 1][:rank],
    )
    got = load(column_text(rank, extras, mode), array, image, len(words) * 32, [0, 1, 0, 0, 0][:rank])
    lines = [got[128 * row :][:128] for row in range(len(words))]
    first = [int.from_bytes(line[16 * (row % 8) :][:4], "little") for row, line in enumerate(lines)]
    assert first == words


def test_im2col_no_offs_stores_columns():
    copy = (
        "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%rd2, {%r40, %r41, %r42, %r43}], [%r2];"
    )
    for form, add in ((copy, 0), (copy.replace("cp.async", "cp.reduce.async").replace("cta.im", "cta.add.im"), 1)):
        array = tensor((2, 3, 4, 8), np.uint32)
        before, want = array.copy(), array.copy()
        lower, upper = [1, 0], [0, -1]
        places = list(walk([8, 4, 3, 2], lower, upper, [1, 1], [2, 1, 0], [0, 0], 8))
        for i, place in enumerate(places):
            if place[-1] < 2:
                want[place[::-1]][4:] = LANES[4 * i :][:4] + add * before[place[::-1]][4:]
        image = tensor_map(array, mode=1, box=[4], pixels=8, lower=lower, upper=upper)
        sim = store(store_text(form), array, image, [4, 2, 1, 0], mode="late")
        assert sim.verdict == "clean", sim.findings
        assert (array == want).all()


# ---- order, and what is illegal ----

MASKED = "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd1], [%r2], 32, {mask};"
COLUMN_STORE = "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%rd2, {%r40, %r41, %r42}], [%r2];"


@pytest.mark.parametrize("mode", MODES)
def test_copies_of_four_rows_or_columns_are_ordered_like_others(mode):
    array = tensor((6, 4, 16), np.uint32)
    rows = tensor_map(array[0], box=[8, 1])
    columns = tensor_map(array, mode=1, box=[8], pixels=4, lower=[0], upper=[0])
    for copy, image in ((SCATTER, rows), (COLUMN_STORE, columns)):
        sim = store(store_text(copy, fence=""), array, image, [0, 1, 2, 3, 0], mode=mode)
        assert sim.kinds == {"missing-proxy-fence"}, sim.findings
        for word, kinds in ((31, {"overwrite-while-read"}), (0, {"overwrite-while-read"})):
            then = f"st.shared.u32 [%r2+{4 * word}], %r4;"
            sim = store(store_text(copy, then), array, image, [0, 1, 2, 3, 0], mode=mode)
            assert sim.kinds == kinds, sim.findings
    # the last row's bytes come with the barrier's phase, and only then
    early = "TRY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra TRY;"
    for text, at, image in (
        (on("sm_100a", gather_text()), [0, 1, 2, 3, 0], rows),
        (column_text(3, "0"), [0, 1, 2], columns),
    ):
        assert text.count(early) == 1
        for address, kinds in (("124", {"read-before-completion"}), ("128", set())):
            sim = Sim(text.replace(early, f"ld.shared.u32 %r9, [%r2+{address}];" + early), mode)
            sim.register(array)
            sim.launch("k", sim.buffer(np.zeros(BYTES // 4, np.uint32)), image, 128, *at)
            assert sim.kinds == kinds, (mode, sim.findings)


def test_illegal_coordinates_are_refused():
    array = tensor((6, 4, 16), np.uint32)
    tiled, rows = tensor_map(array, box=[8, 2, 1]), tensor_map(array[0], box=[8, 2])
    columns = {"mode": 1, "box": [8], "pixels": 4, "lower": [1], "upper": [-1]}
    wide = columns | {"mode": 2, "swizzle": 3}
    gather = on("sm_100a", gather_text())
    for text, image, at, says in (
        (gather, rows, [0, 0, 1, 2, 3], "box dimension 1 is 2; expected 1"),
        (column_text(3, "0"), tiled, [0, 1, 0], "another mode"),
        (load_text(3), tensor_map(array, **columns), [0, 1, 0], "another mode"),
        (column_text(3, "0"), tensor_map(array, **wide), [0, 1, 0], "another mode"),
        (column_text(3, "0"), tensor_map(array, **columns), [0, 0, 0], "coordinate 0 of dimension 1 is not in"),
        (column_text(3, "1"), tensor_map(array, **columns), [0, 3, 0], "bounding box, 1 to 2"),
        (column_text(3, "0, 0", "im2col::w"), tensor_map(array, **wide), [0, 3, 0], "bounding box, 1 to 2"),
        (column_text(3, "512, 0", "im2col::w"), tensor_map(array, **wide), [0, 1, 0], "halo of 512"),
        (column_text(3, "0, 32", "im2col::w"), tensor_map(array, **wide), [0, 1, 0], "offset of 32"),
        (
            column_text(4, "256, 0"),
            tensor_map(tensor((2, 6, 4, 16), np.uint32), **columns),
            [0, 1, 0, 0],
            "offset of 256",
        ),
    ):
        sim = Sim(text)
        sim.register(array)
        assert sim.launch("k", sim.buffer(np.zeros(BYTES // 4, np.uint32)), image, 128, *at) == 5
        assert sim.kinds == {"tensor-map"}, sim.findings
        assert says in sim.findings[0]["message"]
    for copy, image, at, kind in (
        (SCATTER, tensor_map(array[0], box=[8, 1]), [0, 0, 1, -1, 2], "out-of-bounds"),
        (COLUMN_STORE, tensor_map(array, **columns | {"lower": [-1]}), [0, 0, 0], "tensor-map"),
        (COLUMN_STORE, tensor_map(array, **columns | {"lower": [0], "upper": [1]}), [0, 0, 0], "tensor-map"),
    ):
        assert store(store_text(copy), array, image, at).kinds == {kind}


@pytest.mark.parametrize(
    ("target", "text", "says"),
    [
        ("sm_90a", gather_text("shared::cta"), "needs sm_100 or later"),
        ("sm_120a", gather_text(), "needs sm_100a or its family"),
        ("sm_100", gather_text(), "needs sm_100a or its family"),
        ("sm_120a", store_text(SCATTER), "needs sm_100a or its family"),
        ("sm_90a", column_text(3, "0, 0", "im2col::w"), "needs sm_100 or later"),
        ("sm_90a", store_text(MASKED.format(mask=1)), "on sm_100 or later"),
        ("sm_100a", gather_text().replace("tensor.2d", "tensor.3d"), "not a mode of 3 dimensions"),
        ("sm_100a", column_text(2, "0"), "not a mode of 2 dimensions"),
        ("sm_100a", column_text(4, "0"), "1 numbers for im2col; expected 2"),
        ("sm_100a", gather_text().replace("gather4", "scatter4"), "only for the other direction"),
        ("sm_100a", store_text(SCATTER.replace("scatter4", "gather4")), "only for the other direction"),
    ],
)
def test_modes_that_a_chip_or_form_lacks_are_refused(target, text, says):
    with pytest.raises(PtxError, match=says):
        Sim(text.replace("sm_90a", target).replace("sm_100a", target))


def test_packed_types_on_sm_120_need_the_cta_form_of_a_copy():
    codes = tensor((8, 128), np.uint8)
    image = tensor_map(codes, 13, sizes=[256, 8], box=[128, 4])
    for to, kinds in (("shared::cta", set()), ("shared::cluster", {"tensor-map"})):
        sim = Sim(on("sm_120a", load_text(2).replace("shared::cluster.global", f"{to}.global")))
        sim.register(codes)
        sim.launch("k", sim.buffer(np.zeros(BYTES // 4, np.uint32)), image, 256, 0, 0)
        assert sim.kinds == kinds, sim.findings


def test_stores_of_packed_types():
    """Stores pack 6 bits of each byte; the padded 4-bit type cannot be stored and starts at multiples of 128."""
    array = tensor((4, 96), np.uint8)
    copy = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {%r40, %r41}], [%r2];"
    image = tensor_map(array, 15, sizes=[128, 4], box=[128, 1])
    sim = store(store_text(copy), array, image, [0, 2])
    assert sim.verdict == "clean", sim.findings
    bits = sum(int(byte & 63) << 6 * i for i, byte in enumerate(LANES.view(np.uint8)))
    assert array[2].tobytes() == bits.to_bytes(96, "little")
    wide = tensor((4, 128), np.uint8)
    image = tensor_map(wide, 14, sizes=[256, 4], box=[128, 1])
    assert "padded 4-bit type" in store(store_text(copy), wide, image, [0, 2]).findings[0]["message"]
    sim = Sim(load_text(2))
    sim.register(wide)
    assert sim.launch("k", sim.buffer(np.zeros(BYTES // 4, np.uint32)), image, 64, 64, 0) == 5
    assert "expected a multiple of 128" in sim.findings[0]["message"]
