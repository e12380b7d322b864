"""cuTensorMapEncodeTiled's rules one by one at their limits, and what element strides and rarer swizzles copy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from simulator.tests.asynchronous.test_copies import BYTES, load_text, tensor
from simulator.tests.sim_kit import Sim, TensorMap, aligned, body, library

GOOD = {
    "data_type": 2,
    "rank": 3,
    "sizes": [64, 32, 8],
    "strides": [256, 8192],
    "box": [16, 8, 4],
    "element_strides": [1, 1, 1],
    "interleave": 0,
    "swizzle": 0,
    "promotion": 0,
    "fill": 0,
}
MEMORY = aligned(1 << 12, np.uint8)


def encode(address: int | None = None, **changes) -> tuple[bytes, str]:
    """The encoded map and the message; one of them is empty."""
    described = TensorMap(address=MEMORY.ctypes.data if address is None else address)
    for name, value in (GOOD | changes).items():
        if isinstance(value, list):
            field = getattr(described, name)
            field[:] = [*value, *[0] * (len(field) - len(value))]
        else:
            setattr(described, name, value)
    out, message = ctypes.create_string_buffer(128), ctypes.create_string_buffer(200)
    failed = library().sim_encode_tensor_map(out, ctypes.byref(described), message, 200)
    return (b"", message.value.decode()) if failed else (out.raw, "")


# Legal changes, illegal ones one step further, and part of their message.
LIMITS = [
    ({"data_type": 12}, {"data_type": 16}, "data type 16"),
    ({"rank": 1}, {"rank": 0}, "rank 0"),
    (
        {
            "rank": 5,
            "sizes": [64, 32, 8, 2, 2],
            "strides": [256, 8192, 65536, 131072],
            "box": [16, 8, 4, 1, 1],
            "element_strides": [1] * 5,
        },
        {"rank": 6},
        "rank 6",
    ),
    ({}, {"interleave": 1}, "interleave 1"),
    ({"swizzle": 6}, {"swizzle": 7}, "swizzle 7"),
    ({"data_type": 7, "fill": 1}, {"data_type": 7, "fill": 2}, "fill 2"),
    ({"data_type": 6, "fill": 1}, {"data_type": 5, "fill": 1}, "a tensor of integers (data type 5)"),
    (
        {"data_type": 12, "fill": 1},
        {"data_type": 13, "box": [32, 8, 4], "fill": 1},
        "a tensor of integers (data type 13)",
    ),
    ({"promotion": 3}, {"promotion": 4}, "promotion 4"),
    ({"address": MEMORY.ctypes.data + 16}, {"address": MEMORY.ctypes.data + 8}, "is not aligned to 16 bytes"),
    ({"address": 0}, {"address": 8}, "is not aligned"),  # kernels of grouped GEMMs fill it in
    ({"sizes": [64, 1, 8]}, {"sizes": [64, 0, 8]}, "dimension 1 has 0 elements"),
    ({"sizes": [64, 32, 1 << 32]}, {"sizes": [64, 32, (1 << 32) + 1]}, "dimension 2 has 4294967297 elements"),
    ({"box": [256, 8, 4]}, {"box": [260, 8, 4]}, "box dimension 0 is 260"),
    ({"box": [16, 256, 4]}, {"box": [16, 257, 4]}, "box dimension 1 is 257"),
    ({"box": [16, 8, 1]}, {"box": [16, 8, 0]}, "box dimension 2 is 0"),
    ({"element_strides": [1, 8, 1]}, {"element_strides": [1, 9, 1]}, "element stride 1 is 9"),
    ({"element_strides": [1, 1, 1]}, {"element_strides": [1, 1, 0]}, "element stride 2 is 0"),
    ({"element_strides": [8, 1, 1]}, {"element_strides": [9, 1, 1]}, "element stride 0 is 9"),
    ({"strides": [272, 8192]}, {"strides": [264, 8192]}, "global stride 0 is 264 bytes"),
    ({"strides": [256, (1 << 40) - 16]}, {"strides": [256, 1 << 40]}, "global stride 1 is 1099511627776"),
    ({"box": [4, 8, 4]}, {"box": [3, 8, 4]}, "rows have 12 bytes; expected a multiple of 16"),
    (
        {"swizzle": 1, "box": [8, 8, 4]},
        {"swizzle": 1, "box": [12, 8, 4]},
        "rows have 48 bytes, more than the swizzle's 32",
    ),
    ({"swizzle": 2, "box": [16, 8, 4]}, {"swizzle": 2, "box": [20, 8, 4]}, "more than the swizzle's 64"),
    ({"swizzle": 3, "box": [32, 8, 4]}, {"swizzle": 3, "box": [36, 8, 4]}, "more than the swizzle's 128"),
    ({"swizzle": 4, "box": [32, 8, 4]}, {"swizzle": 4, "box": [36, 8, 4]}, "more than the swizzle's 128"),
    ({"data_type": 13, "box": [32, 8, 4]}, {"data_type": 13, "box": [40, 8, 4]}, "does not suit the packed type"),
    (
        {"data_type": 13, "box": [32, 8, 4], "sizes": [66, 32, 8]},
        {"data_type": 13, "box": [32, 8, 4], "sizes": [65, 32, 8]},
        "does not suit the packed type",
    ),
    (
        {"data_type": 14, "box": [128, 8, 4], "sizes": [128, 32, 8]},
        {"data_type": 14, "box": [64, 8, 4], "sizes": [128, 32, 8]},
        "the padded types need 128",
    ),
    (
        {"data_type": 14, "box": [128, 8, 4], "sizes": [256, 32, 8]},
        {"data_type": 14, "box": [128, 8, 4], "sizes": [192, 32, 8]},
        "does not suit the packed type",
    ),
    (
        {"data_type": 14, "box": [128, 8, 4], "sizes": [128, 32, 8], "address": MEMORY.ctypes.data + 32},
        {"data_type": 14, "box": [128, 8, 4], "sizes": [128, 32, 8], "address": MEMORY.ctypes.data + 16},
        "not aligned to 32 bytes",
    ),
    (
        {"data_type": 15, "box": [128, 8, 4], "sizes": [128, 32, 8]},
        {"data_type": 15, "box": [128, 8, 4], "sizes": [128, 32, 8], "strides": [272, 8192]},
        "expected a multiple of 32",
    ),
]

IM2COL = {"mode": 1, "box": [16], "pixels": 64, "lower": [0], "upper": [0]}
FOUR = IM2COL | {"rank": 4, "sizes": [64, 32, 8, 2], "strides": [256, 8192, 65536], "element_strides": [1] * 4}
FIVE = IM2COL | LIMITS[2][0] | {"box": [16]}
WIDE = FOUR | {"mode": 2, "swizzle": 3}
# Limits of cuTensorMapEncodeIm2col and cuTensorMapEncodeIm2colWide.
LIMITS += [
    (IM2COL, IM2COL | {"rank": 2}, "im2col needs 3 to 5"),
    (IM2COL | {"box": [256]}, IM2COL | {"box": [260]}, "box dimension 0 is 260"),
    (IM2COL | {"pixels": 1024}, IM2COL | {"pixels": 1025}, "1025 pixels per column"),
    (IM2COL | {"pixels": 1}, IM2COL | {"pixels": 0}, "0 pixels per column"),
    (IM2COL | {"lower": [-32768], "upper": [32767]}, IM2COL | {"lower": [-32769]}, "corners -32769 and 0"),
    (FOUR | {"lower": [0, -128], "upper": [127, 0]}, FOUR | {"lower": [0, -129]}, "corners -129 and 0 of dimension 2"),
    (FOUR, FOUR | {"upper": [0, 128]}, "corners 0 and 128 of dimension 2"),
    (FIVE | {"lower": [0, 0, -1], "upper": [-16, 15, 0]}, FIVE | {"upper": [-17]}, "corners 0 and -17 of dimension 1"),
    (FOUR | {"upper": [-31]}, FOUR | {"upper": [-32]}, "no pixel in dimension 1"),
    (IM2COL | {"swizzle": 1, "box": [8]}, IM2COL | {"swizzle": 1}, "more than the swizzle's 32"),
    (WIDE | {"lower": [-32768]}, WIDE | {"lower": [-32769]}, "corners -32769 and 0"),
    (WIDE | {"swizzle": 4}, WIDE | {"swizzle": 6}, "swizzle 6; im2col::w"),
    (WIDE | {"swizzle": 2}, WIDE | {"swizzle": 1, "box": [8]}, "swizzle 1; im2col::w"),
    (WIDE, WIDE | {"mode": 3}, "mode 3"),
]


@pytest.mark.parametrize(("legal", "illegal", "said"), LIMITS)
def test_each_rule_at_its_limit(legal, illegal, said):
    image, message = encode(**legal)
    assert (len(image), message) == (128, "")
    image, message = encode(**illegal)
    assert image == b""
    assert said in message, message


def test_each_field_changes_the_encoded_map():
    changes = [
        {},
        {"data_type": 7},
        {"data_type": 7, "fill": 1},
        {"swizzle": 2},
        {"box": [16, 8, 2]},
        {"sizes": [64, 32, 7]},
        {"strides": [256, 16384]},
        {"data_type": 3},
        {"element_strides": [1, 2, 1]},
        {"promotion": 2},
        {"address": MEMORY.ctypes.data + 256},
    ]
    assert len({encode(**change)[0] for change in changes}) == len(changes)


@pytest.mark.parametrize("steps", [(1, 2, 1), (1, 3, 2), (1, 1, 8), (2, 1, 1), (8, 3, 1)])
def test_element_strides_copy_every_nth_row(steps):
    array = tensor((6, 20, 16), np.uint32)
    box, at = [8, 7, 5], [4, 2, 1]
    described = {"sizes": [16, 20, 6], "strides": [64, 64 * 20], "box": box, "element_strides": list(steps)}
    image, message = encode(address=array.ctypes.data, **described)
    assert not message
    sim = Sim(load_text(3))
    sim.register(array)
    out = sim.register(np.frombuffer(bytearray(BYTES), np.uint8).view(np.uint32))
    counts = [box[0], *(-(-b // s) for b, s in zip(box[1:], steps[1:], strict=True))]  # the innermost stride is ignored
    assert sim.launch("k", out, image, int(np.prod(counts)) * 4, *at) == 0, sim.findings
    want = np.zeros(counts[::-1], np.uint32)
    for z, y in np.ndindex(*want.shape[:2]):
        row, plane = at[1] + y * steps[1], at[2] + z * steps[2]
        if row < 20 and plane < 6:
            want[z, y] = array[plane, row, 4:12]
    assert out.tobytes()[: want.nbytes] == want.tobytes()


@pytest.mark.parametrize(("swizzle", "lines", "shift"), [(4, 3, 5), (5, 3, 5), (6, 1, 6)])
def test_a_swizzle_of_larger_atoms(swizzle, lines, shift):
    """Mode 5 also swaps the 8-byte halves of 16 bytes in every second line (as an RTX 5080 does: roundandr/Allegro)."""
    array = tensor((16, 64), np.uint16)
    sim = Sim(load_text(2))
    sim.register(array)
    out = sim.register(np.frombuffer(bytearray(BYTES), np.uint8).view(np.uint32))
    assert sim.launch("k", out, sim.tensor_map(array, 6, [64, 16], swizzle), 2048, 0, 0) == 0, sim.findings
    got, source = out.tobytes(), array.tobytes()
    for at in range(0, 2048, 16):  # the atom's number is XORed with the row's lowest bits
        place = at ^ ((at >> 7 & lines) << shift)
        want = source[at : at + 16]
        if swizzle == 5 and at >> 7 & 1:
            want = want[8:] + want[:8]
        assert got[place : place + 16] == want, at


@pytest.mark.parametrize(
    ("data_type", "bits", "outside"),
    [(6, np.uint16, 0x7FF7), (7, np.uint32, 0x7FF77FF7), (8, np.uint64, 0x7FF77FF77FF77FF7), (9, np.uint16, 0x7FF7)],
)
def test_the_fill_value_outside_a_tensor_of_floats(data_type, bits, outside):
    """An H200 gave the bits of f16, an RTX 5080 all (roundandr/Allegro, nvidia_tma_formats_sm120a.json)."""
    array = tensor((4, 32), bits)
    for fill in (0, 1):
        sim = Sim(load_text(2))
        sim.register(array)
        out = sim.register(np.frombuffer(bytearray(BYTES), np.uint8).view(np.uint32))
        size = 32 * 2 * np.dtype(bits).itemsize
        assert sim.launch("k", out, sim.tensor_map(array, data_type, [32, 2], fill=fill), size, 16, 3) == 0, (
            sim.findings
        )
        got = np.frombuffer(out.tobytes(), bits)[:64].reshape(2, 32)
        assert (got[0, :16] == array[3, 16:]).all()
        assert (got[0, 16:] == (outside if fill else 0)).all()
        assert (got[1] == (outside if fill else 0)).all()


@pytest.mark.parametrize("data_type", [11, 12])
def test_tf32_is_rounded_to_nearest_even_on_its_way(data_type):
    values = np.array(
        [0x3F800FFF, 0x3F801000, 0x3F803000, 0x3F801001, 0xBF801800, 0x00001FFF, 0x7F7FFFFF, 0x3F802000], np.uint32
    )
    array = tensor((2, 8), np.uint32)
    array[0] = values
    sim = Sim(load_text(2))
    sim.register(array)
    out = sim.register(np.frombuffer(bytearray(BYTES), np.uint8).view(np.uint32))
    assert sim.launch("k", out, sim.tensor_map(array, data_type, [8, 1]), 32, 0, 0) == 0, sim.findings
    low, half = values & 0x1FFF, np.uint32(0x1000)
    up = (low > half) | ((low == half) & (values >> 13 & 1 == 1))
    want = (values & ~np.uint32(0x1FFF)) + np.where(up, np.uint32(0x2000), np.uint32(0)).astype(np.uint32)
    assert out[:8].tolist() == want.tolist()


COPIES = {
    "load": "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    " [{shared}], [{map}, {{%r4}}], [{barrier}];",
    "store": "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [{map}, {{%r4}}], [{shared}];",
}
REFUSED = {
    "a map off by 32 bytes": ({"shared": "%r2", "map": "%rd2+32", "barrier": "%r3"}, "the tensor map at"),
    "shared memory off by 4 bytes": ({"shared": "%r2+4", "map": "%rd2", "barrier": "%r3"}, "not aligned to"),
    "a barrier that is none": ({"shared": "%r2", "map": "%rd2", "barrier": "%r3+8"}, "no initialised mbarrier"),
}


@pytest.mark.parametrize(
    ("name", "copy"), [(name, copy) for name in REFUSED for copy in COPIES if "barrier" not in name or copy == "load"]
)
def test_nothing_runs_after_a_refused_copy(name, copy):
    operands, text = REFUSED[name]
    sim = Sim(
        body(
            "mov.u32 %r2, tile; mov.u32 %r3, bar; mov.u32 %r4, 0; mov.u32 %r5, 1; mov.b64 %rd2, map;",
            "cvta.param.u64 %rd2, %rd2; ld.param.u64 %rd1, [out]; mbarrier.init.shared::cta.b64 [%r3], 1;",
            f"{COPIES[copy].format(**operands)} st.global.u32 [%rd1], %r5;",
            params=".param .u64 out, .param .align 64 .b8 map[192]",
            registers=".shared .align 128 .b8 tile[256]; .shared .align 8 .b8 bar[16];",
        )
    )
    array, out = tensor((16,), np.uint32), sim.buffer(np.zeros(1, np.uint32))
    sim.register(array)
    described, _ = encode(array.ctypes.data, rank=1, sizes=[16, 0, 0], strides=[], box=[16, 0, 0], element_strides=[1])
    assert sim.launch("k", out, described + bytes(64), block=1) != 0
    assert [text in finding["message"] for finding in sim.findings] == [True] and out[0] == 0, sim.findings
