"""The CPU backend's edge cases: rounding to fp16, partial tiles, long K, many rows, guard bytes around C."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest

from tests.submission.cpu_kit import (
    CODE,
    CPU,
    E4M3,
    GROUP,
    HOST,
    INPUTS,
    LAYOUTS,
    OK,
    ONE,
    ROWS,
    Args,
    Backend,
    Problem,
    assert_same,
    fenced,
    random_problem,
)

POWERS = {exponent: int(np.flatnonzero(E4M3[:0x7F] == 2.0**exponent)[0]) for exponent in range(-9, 9)}
LEAST, MOST = -20, 20  # exponents of two that the product of two elements can have


# --- rounding to fp16 ---------------------------------------------------------------------------------


def element(exponent):
    """2^exponent as a code and a scale byte."""
    scale = min(max(exponent, -9), 8)
    return CODE[2.0 ** (exponent - scale)], POWERS[scale]


def outputs_of(backend, gate, ups):
    """The backend's outputs for a gate (a power of two) and fp32 values of up, one group per bit."""
    n, groups = len(ups), 4 * math.ceil((MOST - LEAST + 2) / 4)
    codes = [np.zeros((1, rows, groups * GROUP), dtype=np.uint8) for rows in (1, n, n)]
    scales = [np.full((1, rows, groups), ONE, dtype=np.uint8) for rows in (1, n, n)]
    sign = 8 if gate < 0 else 0

    def put(group, column, exponent, which, negative):
        codes[0][0, 0, group * GROUP], scales[0][0, 0, group] = element(exponent // 2)
        code, scales[which][0, column, group] = element(exponent - exponent // 2)
        codes[which][0, column, group * GROUP] = code | negative

    for column, up in enumerate(ups):
        put(0, column, int(math.log2(abs(gate))), 1, sign)
        bits = abs(float(up)) * 2.0**-LEAST
        assert bits == int(bits) < 2 ** (MOST - LEAST)
        for power in range(LEAST, MOST):
            if int(bits) >> power - LEAST & 1:
                put(1 + power - LEAST, column, power, 2, 8 if up < 0 else 0)
    problem = Problem(codes, scales)
    gates, sums = problem.sums()
    assert (gates == gate).all() and (sums == np.array(ups, dtype=np.float64)).all()
    return backend(problem)[0, 0]


def silu_of(gate):
    """silu in fp32, for a gate whose exponential fits fp32."""
    return np.float32(gate) / (np.float32(1) + np.exp(-np.float32(gate)))


def near(target, silu):
    """Values of up whose product with silu is the target or close to it, and their negatives."""
    up = np.float32(target) / silu
    ups = {up, np.nextafter(up, np.float32(0)), np.nextafter(up, np.float32(np.inf))}
    on_grid = {np.float32(round(float(x) * 2.0**-LEAST) * 2.0**LEAST) for x in ups}
    on_grid |= {np.float32(x) + step * 2.0**LEAST for x in on_grid for step in (-1, 1)}
    return [sign * float(np.float32(x)) for x in on_grid if x > 0 for sign in (1, -1)]


def halfway(bits):
    """The midpoint of two fp16 neighbours, given the lower one's bits."""
    low, above = (float(x) for x in np.array([bits, bits + 1], dtype=np.uint16).view(np.float16))
    return (low + min(above, 65536.0)) / 2


def fp16(bits):
    return float(np.array(bits, dtype=np.uint16).view(np.float16))


NORMAL = (0x3C00, 0x3C01, 0x3FFE, 0x3FFF, 0x5BFF, 0x6400, 0x6555, 0x6AAA, 0x7800, 0x7BFD, 0x7BFE, 0x7BFF)
SUBNORMAL = (0, 1, 2, 3, 0x40, 0x41, 0x155, 0x2AA, 0x3FE, 0x3FF, 0x400, 0x401, 0x402, 0x7FF, 0x800)


@pytest.mark.parametrize(
    ("gate", "bits"),
    [(32, NORMAL), (2.0**-20, SUBNORMAL), (-(2.0**-20), SUBNORMAL)],
    ids=["normal", "tiny", "below zero"],
)
def test_a_product_is_rounded_once_to_the_nearest_and_ties_to_even(backend, gate, bits):
    silu = silu_of(gate)
    targets = [halfway(low) for low in bits] + [fp16(low) for low in bits if low]
    ups = [up for target in targets for up in near(target, abs(silu))]
    products = np.array(ups, dtype=np.float32) * silu
    ties = sum(abs(product) == np.float32(target) for target in targets[: len(bits)] for product in products)
    assert ties >= len(bits), "not one exact tie"
    with np.errstate(over="ignore"):
        want = products.astype(np.float16)
    assert np.isinf(want).any() == (0x7BFF in bits)
    got = outputs_of(backend, gate, ups)
    wrong = got.view(np.uint16) != want.view(np.uint16)  # the sign of zero, too
    assert not wrong.any(), [(float(products[i]), got[i], want[i]) for i in np.flatnonzero(wrong)[:5]]


def test_overflow_keeps_its_sign(backend):
    values = [65519.99609375, 65520, 65536, 100000, 2.0**20, 2.0**24]
    values += [-x for x in values]
    got = outputs_of(backend, 32, [x / 32 for x in values])
    assert got.tolist() == [65504, *[math.inf] * 5, -65504, *[-math.inf] * 5]


# --- tails --------------------------------------------------------------------------------------------


def with_guards(backend, problem, layout):
    """Runs the problem and returns C; asserts that no byte before or after C was written."""
    args = Args(ctypes.sizeof(Args), CPU, HOST, layout, problem.m, problem.n, problem.k, problem.batches)
    kept = [fenced(x) for x in problem.tensors(layout)]
    for name, tensor in zip(INPUTS, kept, strict=True):
        setattr(args, name, tensor.ctypes.data)
    count = problem.batches * problem.m * problem.n
    memory = np.full(count + 128, 0x7BAD, dtype=np.uint16)
    start = 32 + (-memory[32:].ctypes.data % 16) // 2
    args.c = memory[start:].ctypes.data
    assert backend.library.custom_kernel(ctypes.byref(args)) == OK
    assert (memory[:start] == 0x7BAD).all() and (memory[start + count :] == 0x7BAD).all()
    return memory[start : start + count].view(np.float16).reshape(problem.batches, problem.m, problem.n)


@LAYOUTS
@pytest.mark.parametrize("k", [64, 128, 192, 320])
def test_every_number_of_rows_and_columns_around_a_tile(backend, layout, k):
    """M up to two row tiles plus one, N up to two panels plus one, two batches."""
    whole = random_problem(9, 33, k, batches=2, seed=k, scale_bytes=np.arange(0x18, 0x28))
    gate, up = whole.sums()
    want = backend(whole, layout)
    np.testing.assert_allclose(want, gate / (1 + np.exp(-gate)) * up, rtol=2e-3, atol=2e-3)
    for m in range(1, 10):
        for n in {*range(1, 18), 31, 32, 33} if m in (1, 4, 9) else (1, 15, 17):
            assert_same(with_guards(backend, whole.top(m, n), layout), want[:, :m, :n])


def distinct(m, n, k, batches=1):
    """A problem with exact sums whose outputs identify batch, row and column.

    The gate is 32, summed over all of K; up is the row's factor times the column's number.
    """
    shapes = [(batches, m), (batches, n), (batches, n)]
    codes = [np.zeros((*shape, k), dtype=np.uint8) for shape in shapes]
    scales = [np.full((*shape, k // GROUP), ONE, dtype=np.uint8) for shape in shapes]
    codes[0][..., :] = CODE[1]
    codes[1][..., :: k // 64] = CODE[0.5]  # 64 places: 32
    row, column = np.arange(m), np.arange(n)
    # A's last element is 0 in odd rows; B2's first and last elements depend on the column.
    codes[0][:, row % 2 == 1, -1] = 0
    codes[2][..., 0] = 1 + column % 7
    codes[2][..., -1] = 1 + column % 5
    codes[2][1:, :, 1] = CODE[4]
    return Problem(codes, scales)


def assert_exact(problem, got):
    gate, up = problem.sums()
    assert (gate > 25).all()
    assert_same(got.astype(np.float64), (gate * up).astype(np.float16).astype(np.float64))


@LAYOUTS
@pytest.mark.parametrize(
    ("m", "n", "k", "batches"),
    [
        (1030, 20, 64, 2),  # three blocks of packed rows, the last one short
        (345, 3, 16384, 1),  # blocks cut shorter by a long K
        (5, 18, 64 * 9, 3),  # a chunk of K and a piece of one
        (5, 18, 64 * 8, 3),  # whole chunks
    ],
)
def test_blocks_of_rows_and_chunks_of_k_end_where_they_should(backend, layout, m, n, k, batches):
    problem = distinct(m, n, k, batches)
    assert_exact(problem, backend(problem, layout))


def test_a_single_tile_of_rows_may_be_longer_than_what_is_packed_at_a_time(library_path, monkeypatch):
    backend = Backend(library_path, "", monkeypatch)
    problem = distinct(6, 2, 1 << 21)
    assert_exact(problem, backend(problem, ROWS))


@pytest.mark.parametrize("threads", [1, 3])
def test_several_threads_and_batches_share_blocks_of_rows(library_path, monkeypatch, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    backend = Backend(library_path, "", monkeypatch)
    problem = distinct(1030, 40, 128, 3)
    assert_exact(problem, backend(problem, ROWS))


# --- scale factors ------------------------------------------------------------------------------------


@LAYOUTS
@pytest.mark.parametrize("operand", [0, 1, 2], ids=["sfa", "sfb1", "sfb2"])
def test_every_scale_byte_counts_in_every_lane_of_a_tile(backend, layout, operand):
    """Each of the 256 bytes at some row and group of one operand; 0x7f and 0xff are NaN."""
    rows, k = 256, 256
    m, n = (rows, 17) if operand == 0 else (5, rows)
    groups = k // GROUP
    problem = random_problem(m, n, k, seed=31 + operand, scale_bytes=[ONE])
    codes = [np.full_like(x, CODE[1]) for x in problem.codes]
    scales = [x.copy() for x in problem.scales]
    index = np.arange(rows)[:, None] * 5 + np.arange(groups)[None, :] * 3
    scales[operand][0] = index % 256
    finite = (scales[operand][0] & 0x7F) != 0x7F
    # One group of K at a time: B is zero in the others, scale factors included, so that only this group can be NaN.
    for group in (0, 3, 5, 10, 15):
        others = np.arange(groups) != group
        for which, x in enumerate(scales):
            x[..., others] = 0 if which != operand else x[..., others] & 0x37
        for which in (1, 2):
            codes[which][..., np.repeat(others, GROUP)] = 0
        for which in range(3):
            scales[which][..., group] = index[:, group] % 256 if which == operand else ONE
        one = Problem(codes, scales)
        gate, up = one.sums()
        with np.errstate(all="ignore"):
            want = (gate / (1 + np.exp(-gate)) * up).astype(np.float16)
        got = backend(one, layout)
        assert (np.isnan(got) == np.isnan(want)).all()
        np.testing.assert_allclose(
            np.nan_to_num(got.astype(np.float64), posinf=1e6),
            np.nan_to_num(want.astype(np.float64), posinf=1e6),
            rtol=2e-3,
        )
        for which in (1, 2):
            codes[which][...] = CODE[1]
    assert not finite.all()
