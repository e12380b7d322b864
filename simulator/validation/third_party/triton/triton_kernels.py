"""Short kernels in Triton's language, of the kinds that people write.  Needs triton alone.

Pointers are to contiguous arrays, rows first.  Sizes that a kernel does not mask are multiples of its tile.
"""

from __future__ import annotations

import triton
import triton.language as tl

# ---- elementwise, reductions, exchanges within a tile -------------------------------------------------


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def softmax(x, out, columns, WIDTH: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, WIDTH)
    values = tl.load(x + row * columns + column, mask=column < columns, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + column, weights / tl.sum(weights, axis=0), mask=column < columns)


@triton.jit
def layernorm(x, weight, bias, out, eps, WIDTH: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, WIDTH)
    values = tl.load(x + row * WIDTH + column)
    mean = tl.sum(values.to(tl.float32), axis=0) / WIDTH
    centred = values - mean
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / WIDTH + eps)
    normal = centred * scale * tl.load(weight + column) + tl.load(bias + column)
    tl.store(out + row * WIDTH + column, normal.to(tl.float16))


@triton.jit
def sort(x, out, WIDTH: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, WIDTH)
    tl.store(out + row * WIDTH + column, tl.sort(tl.load(x + row * WIDTH + column)))


@triton.jit
def cumsum(x, out, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(out + at, tl.cumsum(tl.load(x + at), axis=0))


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values, keep = tl.load(x + at, mask=at < n), tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, values / (1 - p), 0.0), mask=at < n)


@triton.jit
def transpose(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    tile = tl.load(x + row[:, None] * COLUMNS + column[None, :])
    tl.store(out + column[:, None] * ROWS + row[None, :], tl.trans(tile))


@triton.jit
def histogram(x, out, WIDTH: tl.constexpr, BINS: tl.constexpr):
    tl.store(out + tl.arange(0, BINS), tl.histogram(tl.load(x + tl.arange(0, WIDTH)), BINS))


@triton.jit
def gather(x, index, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), axis=0))


@triton.jit
def atomic_sum(x, out, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    tl.atomic_add(out + tl.arange(0, WIDTH) % 16, tl.load(x + at))


# ---- one tile's product ----------------------------------------------------------------------------------


@triton.jit
def dot(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left, right = tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :])
    product = tl.dot(left, right, input_precision=PRECISION)
    tl.store(out + m[:, None] * N + n[None, :], product)


# ---- fp16 matrix products; b is N x K ----------------------------------------------------------------


@triton.jit
def matmul(a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    sums = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a + m[:, None] * K + (start + k)[None, :])
        right = tl.load(b + n[None, :] * K + (start + k)[:, None])
        sums = tl.dot(left, right, sums)
    tl.store(out + m[:, None] * N + n[None, :], sums.to(tl.float16))


@triton.jit
def matmul_tma(a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr):
    left_map = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right_map = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out_map = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for start in tl.range(0, K, BK, warp_specialize=WS):
        sums = tl.dot(left_map.load([m, start]), right_map.load([n, start]).T, sums)
    out_map.store([m, n], sums.to(tl.float16))


@triton.jit
def matmul_persistent(
    a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr, FLAT: tl.constexpr
):
    left_map = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right_map = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    out_map = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    columns = N // BN
    for tile in tl.range(tl.program_id(0), M // BM * columns, tl.num_programs(0), flatten=FLAT, warp_specialize=WS):
        m, n = tile // columns * BM, tile % columns * BN
        sums = tl.zeros((BM, BN), tl.float32)
        for start in range(0, K, BK):
            sums = tl.dot(left_map.load([m, start]), right_map.load([n, start]).T, sums)
        out_map.store([m, n], sums.to(tl.float16))


@triton.jit
def attention(
    q, k, v, out, scale, LENGTH: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    CAUSAL: tl.constexpr, WS: tl.constexpr,
):  # fmt: skip
    q_map = tl.make_tensor_descriptor(q, [LENGTH, D], [D, 1], [BM, D])
    k_map = tl.make_tensor_descriptor(k, [LENGTH, D], [D, 1], [BN, D])
    v_map = tl.make_tensor_descriptor(v, [LENGTH, D], [D, 1], [BN, D])
    out_map = tl.make_tensor_descriptor(out, [LENGTH, D], [D, 1], [BM, D])
    first = tl.program_id(0) * BM
    query = q_map.load([first, 0])
    highest = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    end = first + BM if CAUSAL else LENGTH
    for start in tl.range(0, end, BN, warp_specialize=WS):
        scores = tl.dot(query, k_map.load([start, 0]).T) * scale
        if CAUSAL:
            rows, columns = first + tl.arange(0, BM), start + tl.arange(0, BN)
            scores = tl.where(rows[:, None] >= columns[None, :], scores, -1e30)
        higher = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        correction = tl.exp2(highest - higher)
        total = total * correction + tl.sum(weights, 1)
        sums = tl.dot(weights.to(tl.float16), v_map.load([start, 0]), sums * correction[:, None])
        highest = higher
    out_map.store([first, 0], (sums / total[:, None]).to(tl.float16))


# ---- products of block-scaled operands ---------------------------------------------------------------------


@triton.jit
def dot_scaled(
    a, a_scale, b, b_scale, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    A_TYPE: tl.constexpr, B_TYPE: tl.constexpr,
):  # fmt: skip
    A_PACK: tl.constexpr = 2 if A_TYPE == "e2m1" else 1
    B_PACK: tl.constexpr = 2 if B_TYPE == "e2m1" else 1
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    ka, kb, ks = tl.arange(0, BK // A_PACK), tl.arange(0, BK // B_PACK), tl.arange(0, BK // GROUP)
    sums = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a + m[:, None] * (K // A_PACK) + (start // A_PACK + ka)[None, :])
        right = tl.load(b + n[None, :] * (K // B_PACK) + (start // B_PACK + kb)[:, None])
        left_scale = tl.load(a_scale + m[:, None] * (K // GROUP) + (start // GROUP + ks)[None, :])
        right_scale = tl.load(b_scale + n[:, None] * (K // GROUP) + (start // GROUP + ks)[None, :])
        sums = tl.dot_scaled(left, left_scale, A_TYPE, right, right_scale, B_TYPE, sums)
    tl.store(out + m[:, None] * BN + n[None, :], sums)


@triton.jit
def dot_scaled_tma(
    a, a_scale, b, b_scale, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    A_TYPE: tl.constexpr, B_TYPE: tl.constexpr,
):  # fmt: skip
    """Scale factors in tcgen05's layout: (1, rows / 128, K / (4 GROUP), 2, 256)."""
    A_PACK: tl.constexpr = 2 if A_TYPE == "e2m1" else 1
    B_PACK: tl.constexpr = 2 if B_TYPE == "e2m1" else 1
    QUADS: tl.constexpr = BK // GROUP // 4
    quads = K // GROUP // 4
    a_map = tl.make_tensor_descriptor(a, [BM, K // A_PACK], [K // A_PACK, 1], [BM, BK // A_PACK])
    b_map = tl.make_tensor_descriptor(b, [BN, K // B_PACK], [K // B_PACK, 1], [BN, BK // B_PACK])
    a_scale_map = tl.make_tensor_descriptor(
        a_scale, [1, BM // 128, quads, 2, 256], [BM // 128 * quads * 512, quads * 512, 512, 256, 1],
        [1, BM // 128, QUADS, 2, 256],
    )  # fmt: skip
    b_scale_map = tl.make_tensor_descriptor(
        b_scale, [1, BN // 128, quads, 2, 256], [BN // 128 * quads * 512, quads * 512, 512, 256, 1],
        [1, BN // 128, QUADS, 2, 256],
    )  # fmt: skip
    sums = tl.zeros((BM, BN), tl.float32)
    for start in tl.range(0, K, BK, num_stages=2):
        left, right = a_map.load([0, start // A_PACK]), b_map.load([0, start // B_PACK])
        quad = start // GROUP // 4
        left_scale = a_scale_map.load([0, 0, quad, 0, 0]).reshape(BM // 128, QUADS, 32, 4, 4)
        right_scale = b_scale_map.load([0, 0, quad, 0, 0]).reshape(BN // 128, QUADS, 32, 4, 4)
        left_scale = left_scale.trans(0, 3, 2, 1, 4).reshape(BM, BK // GROUP)
        right_scale = right_scale.trans(0, 3, 2, 1, 4).reshape(BN, BK // GROUP)
        sums = tl.dot_scaled(left, left_scale, A_TYPE, right.T, right_scale, B_TYPE, sums)
    tl.store(out + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], sums)
