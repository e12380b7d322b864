"""The dual GEMM in Triton, from NVFP4 with row-major scale factors: what a Triton user would write on Hopper.

Both operands are dequantized to fp16 in registers, with the scale factor multiplied in (exact: 6 significant bits);
even and odd k are two dot products, so that nibbles need no interleaving.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BM": bm, "BN": bn, "BK": bk}, num_warps=warps, num_stages=stages)
    for bm, bn, bk, warps, stages in (
        (128, 64, 128, 8, 3),
        (128, 64, 64, 8, 4),
        (128, 64, 128, 4, 3),
        (64, 64, 128, 4, 4),
        (128, 32, 128, 4, 4),
        (128, 128, 64, 8, 3),
        (64, 128, 128, 8, 3),
    )
]


@triton.jit
def dequantize(nibbles, scales, ROWS: tl.constexpr, HALF_K: tl.constexpr):
    """e2m1 nibbles (ROWS, HALF_K) times e4m3 scale factors (ROWS, HALF_K / 8) -> fp16 times 2^-7."""
    bits = ((nibbles & 8).to(tl.uint16) << 12) | ((nibbles & 7).to(tl.uint16) << 9)
    values = bits.to(tl.float16, bitcast=True)
    factors = scales.to(tl.float16) * 128.0
    factors = tl.broadcast_to(factors[:, :, None], (ROWS, HALF_K // 8, 8))
    return values * tl.reshape(factors, (ROWS, HALF_K))


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def dual_gemm_kernel(
    a_fp4, b1_fp4, b2_fp4, a_scales, b1_scales, b2_scales, c,
    M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    row_in, col_in = rows < M, cols < N
    byte = tl.arange(0, BK // 2)
    group = tl.arange(0, BK // 16)
    gate = tl.zeros((BM, BN), dtype=tl.float32)
    up = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a_at = rows[:, None] * (K // 2) + (k // 2 + byte)[None, :]
        b_at = cols[:, None] * (K // 2) + (k // 2 + byte)[None, :]
        as_at = rows[:, None] * (K // 16) + (k // 16 + group)[None, :]
        bs_at = cols[:, None] * (K // 16) + (k // 16 + group)[None, :]
        a = tl.load(a_fp4 + a_at, mask=row_in[:, None], other=0)
        b1 = tl.load(b1_fp4 + b_at, mask=col_in[:, None], other=0)
        b2 = tl.load(b2_fp4 + b_at, mask=col_in[:, None], other=0)
        sa = tl.load(a_scales + as_at, mask=row_in[:, None], other=0.0)
        s1 = tl.load(b1_scales + bs_at, mask=col_in[:, None], other=0.0)
        s2 = tl.load(b2_scales + bs_at, mask=col_in[:, None], other=0.0)
        a_even = dequantize(a & 15, sa, BM, BK // 2)
        a_odd = dequantize(a >> 4, sa, BM, BK // 2)
        gate = tl.dot(a_even, tl.trans(dequantize(b1 & 15, s1, BN, BK // 2)), gate)
        gate = tl.dot(a_odd, tl.trans(dequantize(b1 >> 4, s1, BN, BK // 2)), gate)
        up = tl.dot(a_even, tl.trans(dequantize(b2 & 15, s2, BN, BK // 2)), up)
        up = tl.dot(a_odd, tl.trans(dequantize(b2 >> 4, s2, BN, BK // 2)), up)
    gate = gate * 16384.0
    up = up * 16384.0
    result = gate * tl.sigmoid(gate) * up
    tl.store(c + rows[:, None] * N + cols[None, :], result.to(tl.float16), mask=row_in[:, None] & col_in[None, :])


def dual_gemm(data: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Runs the kernel on the ten-tensor form, L = 1; K a multiple of 128."""
    a, b1, b2, sfa, sfb1, sfb2 = data[:6]
    c = data[-1]
    m, n, _ = c.shape
    k = a.shape[1] * 2

    def grid(meta: dict[str, int]) -> tuple[int, int]:
        return triton.cdiv(n, meta["BN"]), triton.cdiv(m, meta["BM"])

    codes = (t.view(torch.uint8) for t in (a, b1, b2))
    dual_gemm_kernel[grid](*codes, sfa, sfb1, sfb2, c, m, n, k)
    return c
