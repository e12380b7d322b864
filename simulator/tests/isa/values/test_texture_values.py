"""Textures and surfaces against numpy, by the formulas of the CUDA C++ Programming Guide, Texture Fetching.

A handle is the address of a struct sim_texture (sim.h), so a test makes the object in memory of the simulator.
"""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from simulator.tests.sim_kit import Sim, body

MAGIC, FLOAT, UNSIGNED, SIGNED = 0x7E57A11E, 2, 1, 0
WRAP, CLAMP, MIRROR, BORDER = range(4)
BORDER_COLOUR = (5.0, 6.0, 7.0, 8.0)


def texture(sim, texels, dimensions, modes=(CLAMP,) * 3, layers=1, surface=False, linear=False, flat=False,
            normalized=False, read_normalized=False):  # fmt: skip
    """An object on texels[layer or z, y, x, channel]."""
    data = sim.buffer(texels)
    depth, height, width, channels = texels.shape
    kind = FLOAT if texels.dtype.kind == "f" else UNSIGNED if texels.dtype.kind == "u" else SIGNED
    row = width * channels * texels.dtype.itemsize
    return data, sim.buffer(np.frombuffer(struct.pack(
        "<6I3Q6I4f5?3x", MAGIC, dimensions, width, height, 1 if layers > 1 else depth, layers, data.ctypes.data, row,
        row * height, channels, 8 * texels.dtype.itemsize, kind, *modes, *BORDER_COLOUR, surface, flat, linear,
        normalized, read_normalized), np.uint8).copy())  # fmt: skip


def fetch(texels, instruction, coordinates, dimensions, chip="sm_90a", **options):
    """The four components that each thread fetches at its row of the coordinates, as 32-bit words."""
    real = coordinates.dtype == np.float32
    count = coordinates.shape[1]
    names = [f"{'%f' if real else '%r'}{10 + i}" for i in range(count)]
    written = names + names[-1:] * (count == 3)
    if options.get("layers", 1) > 1 and real:
        written[0] = "%r30"
    loads = "".join(f"ld.global.b32 {name}, [%rd4+{4 * i}];" for i, name in enumerate(names))
    sim = Sim(body(
        "ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [c]; ld.param.u64 %rd3, [t]; mov.u32 %r1, %tid.x;"
        f"mul.wide.u32 %rd5, %r1, {4 * count}; add.s64 %rd4, %rd2, %rd5; mul.wide.u32 %rd5, %r1, 16;"
        f"add.s64 %rd6, %rd1, %rd5; {loads}", "cvt.rzi.u32.f32 %r30, %f10;" if real else "",
        f"{instruction} {{%r20, %r21, %r22, %r23}}, [%rd3, {{{', '.join(written)}}}];",
        "st.global.v4.b32 [%rd6], {%r20, %r21, %r22, %r23};",
        params=".param .u64 p, .param .u64 c, .param .u64 t").replace("sm_90a", chip))  # fmt: skip
    out = sim.buffer(np.zeros((len(coordinates), 4), np.uint32))
    at = sim.buffer(coordinates)
    _, handle = texture(sim, texels, dimensions, **options)
    assert sim.launch("k", out, at, handle, block=len(coordinates)) == 0 and sim.verdict == "clean", sim.findings
    return out


def index(i: int, n: int, mode: int, normalized: bool) -> int | None:
    if normalized and mode == WRAP:
        return i % n
    if normalized and mode == MIRROR:
        return min(i % (2 * n), 2 * n - 1 - i % (2 * n))
    return i if 0 <= i < n else None if mode == BORDER else min(max(i, 0), n - 1)


def sample(texels: np.ndarray, x: list[float], mode: int, linear: bool, normalized: bool) -> np.ndarray:
    """The value at x, y, z (as many as there are) of texels[z, y, x, channel]."""
    sizes = texels.shape[2::-1]
    x = [v * n if normalized else v for v, n in zip(x, sizes, strict=False)]
    if not linear:
        corners = [(1.0, [math.floor(v) for v in x])]
    else:
        low = [math.floor(math.floor((v - 0.5) * 256 + 0.5) / 256) for v in x]
        part = [(math.floor((v - 0.5) * 256 + 0.5) - 256 * i) / 256 for v, i in zip(x, low, strict=True)]
        corners = []
        for corner in range(1 << len(x)):
            bits = [corner >> d & 1 for d in range(len(x))]
            weight = math.prod(p if bit else 1 - p for p, bit in zip(part, bits, strict=True))
            corners.append((weight, [i + bit for i, bit in zip(low, bits, strict=True)]))
    total = np.zeros(4)
    for weight, at in corners:
        places = [index(i, n, mode, normalized) for i, n in zip(at, sizes, strict=False)]
        if None in places:
            total += weight * np.array(BORDER_COLOUR)
        else:
            value = texels[tuple([*places, 0, 0][2::-1])] if len(places) < 3 else texels[tuple(places[::-1])]
            total[: texels.shape[3]] += weight * value
    return total


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_filters_and_address_modes(dimensions):
    rng = np.random.default_rng(20278)
    texels = rng.integers(-50, 50, (3 if dimensions > 2 else 1, 4 if dimensions > 1 else 1, 5, 4)).astype(np.float32)
    cases = [(mode, mode in (WRAP, MIRROR), linear) for mode in range(4) for linear in (False, True)]
    for mode, normalized, linear in [*cases, (WRAP, False, False), (BORDER, True, True)]:
        x = rng.uniform(-1.5, 2.5, (32, dimensions)) * ([1] * dimensions if normalized else [4] * dimensions)
        x = (np.round(x * 64) / 64).astype(np.float32)
        got = fetch(texels, f"tex.{dimensions}d.v4.f32.f32", x, dimensions, modes=(mode,) * 3, linear=linear,
                    normalized=normalized).view(np.float32)  # fmt: skip
        want = np.array([sample(texels, [float(v) for v in row], mode, linear, normalized) for row in x])
        assert np.allclose(got, want, rtol=0, atol=1e-4), (mode, normalized, linear, got - want)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_integers_are_read_as_they_are_or_as_fractions(dtype):
    rng = np.random.default_rng(20279)
    limits = np.iinfo(dtype)
    texels = rng.integers(limits.min, limits.max, (1, 4, 8, 2), endpoint=True).astype(dtype)
    texels[0, 0, 0] = limits.min, limits.max
    x = np.stack([np.arange(32) % 8, np.arange(32) // 8], 1).astype(np.int32)
    word = "s32" if limits.min < 0 else "u32"
    want = texels.reshape(32, 2)
    got = fetch(texels, f"tex.2d.v4.{word}.s32", x, 2).astype(np.uint32)
    assert (got[:, :2].view(np.int32) == want).all() and (got[:, 2:] == 0).all()
    fractions = np.maximum(want / np.float64(limits.max), -1)
    got = fetch(texels, "tex.2d.v4.f32.f32", x.astype(np.float32) + np.float32(0.5), 2, read_normalized=True)
    assert np.allclose(got.view(np.float32)[:, :2], fractions, atol=1e-7)


def test_a_gather_begins_at_the_lower_left():
    texels = np.arange(12).reshape(1, 3, 4, 1).astype(np.float32)
    got = fetch(texels, "tld4.r.2d.v4.f32.f32", np.array([[2.0, 2.0]] * 8, np.float32), 2).view(np.float32)
    assert got[0].tolist() == [9, 10, 6, 5]  # anticlockwise


def test_layers_and_linear_memory():
    texels = np.arange(2 * 3 * 4).reshape(2, 3, 4, 1).astype(np.float32)
    at = np.array([[layer, x + 0.5, y + 0.5] for layer in range(2) for y in range(3) for x in range(4)], np.float32)
    got = fetch(texels, "tex.a2d.v4.f32.f32", at, 2, layers=2)
    assert got.view(np.float32)[:, 0].tolist() == list(range(24))
    at = np.array([[i - 1] for i in range(26)], np.int32)
    got = fetch(texels.reshape(1, 1, 24, 1), "tex.1d.v4.f32.s32", at, 1, flat=True).view(np.float32)
    assert got[:, 0].tolist() == [0, *range(24), 0]


def test_surfaces_load_store_and_say_their_size():
    lines = (
        "ld.param.u64 %rd3, [t]; ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 7; shr.u32 %r3, %r1, 3;"
        " shl.b32 %r4, %r2, 2; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2;",
        "suld.b.2d.b32.trap {%r5}, [%rd3, {%r4, %r3}]; mad.lo.u32 %r6, %r5, 3, %r1;",
        "sust.b.2d.b32.trap [%rd3, {%r4, %r3}], {%r6}; suq.width.b32 %r7, [%rd3]; suq.height.b32 %r8, [%rd3];",
        "suld.b.2d.v2.b16.zero {%rs1, %rs2}, [%rd3, {%r4, %r1}]; cvt.u32.u16 %r9, %rs2;",
        "mov.u32 %r10, 30; mov.u32 %r11, 0; suld.b.2d.v2.b16.zero {%rs3, %rs4}, [%rd3, {%r10, %r11}];",
        "cvt.u32.u16 %r11, %rs3; mad.lo.u32 %r7, %r7, 100, %r8; add.u32 %r7, %r7, %r11; shl.b32 %r9, %r9, 16;",
        "add.u32 %r7, %r7, %r9; st.global.u32 [%rd2], %r7;",
    )
    sim = Sim(body(*lines, params=".param .u64 p, .param .u64 t"))
    out = sim.buffer(np.zeros(32, np.uint32))
    before = (np.arange(32, dtype=np.uint32) * 70000).reshape(1, 4, 8, 1)
    data, handle = texture(sim, before, 2, surface=True)
    assert sim.launch("k", out, handle) == 0
    after = before.reshape(32) * 3 + np.arange(32)
    assert (data.reshape(32) == after).all()
    inside = [int(after.reshape(4, 8)[i, i % 8]) >> 16 if i < 4 else 0 for i in range(32)]
    assert out.tolist() == [804 + (high << 16) for high in inside], sim.findings
    sim = Sim(body("ld.param.u64 %rd3, [t]; mov.u32 %r1, 64; sust.b.1d.b32.trap [%rd3, {%r1}], {%r1};",
                   params=".param .u64 p, .param .u64 t"))  # fmt: skip
    _, handle = texture(sim, before.reshape(1, 1, 32, 1)[:, :, :16].copy(), 1, surface=True)
    sim.launch("k", out, handle, block=1)
    assert sim.kinds == {"out-of-bounds"}


def test_the_size_of_a_texture_and_what_is_no_texture():
    sim = Sim(body("ld.param.u64 %rd1, [p]; ld.param.u64 %rd3, [t]; txq.width.b32 %r1, [%rd3];"
                   " txq.height.b32 %r2, [%rd3]; st.global.v2.u32 [%rd1], {%r1, %r2};",
                   params=".param .u64 p, .param .u64 t"))  # fmt: skip
    out = sim.buffer(np.zeros(2, np.uint32))
    _, handle = texture(sim, np.zeros((1, 3, 7, 1), np.float32), 2)
    assert sim.launch("k", out, handle, block=1) == 0 and out.tolist() == [7, 3]
    sim.launch("k", out, out, block=1)
    assert sim.kinds == {"bad-address"}
