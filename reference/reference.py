"""The leaderboard's contract: inputs, the reference kernel and the check; and a float64 oracle for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from reference import nvfp4

RTOL = ATOL = 1e-3
MISMATCHES_SHOWN = 5
# What an fp32 sum may lose, in 2^-23 of its sum of magnitudes, before check_with_rounding calls it wrong.
USUAL_ROUNDINGS = 1.0
FP16_MAX = 65504.0
# Halfway between the largest fp16 value and the next power of two: what rounds to infinity.
FP16_OVERFLOW = 65520.0
SILU_MAX_SLOPE = 1.1  # of silu, at x = 2.4: 1.0998
# Leaves the codes 0, 0.5, 1, 1.5 and their negatives in both nibbles.
LEADERBOARD_CODE_MASK = 0xBB
# HW: fp4 tensor cores come with compute capability 10.0 (PTX ISA, tcgen05.mma kind::mxf4nvf4).
FP4_COMPUTE_CAPABILITY = (10, 0)

Data = Sequence[torch.Tensor]


def default_device() -> torch.device:
    """The current CUDA device if there is one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _random_codes(rows: int, k: int, batches: int, mask: int, generator: torch.Generator) -> torch.Tensor:
    """(rows, K/2, L) e2m1 codes over memory (L, rows, K/2)."""
    shape = (batches, rows, k // 2)
    random = torch.randint(0, 256, shape, dtype=torch.uint8, device=generator.device, generator=generator)
    return (random & mask).view(torch.float4_e2m1fn_x2).permute(1, 2, 0)


def _leaderboard_scales(shape: tuple[int, int, int], generator: torch.Generator) -> torch.Tensor:
    uniform = torch.rand(shape, device=generator.device, generator=generator)
    return uniform.to(torch.float8_e4m3fn).view(torch.uint8)


def _full_scales(shape: tuple[int, int, int], generator: torch.Generator) -> torch.Tensor:
    """Every finite magnitude and random signs, in rows of two kinds.

    Half the rows draw from all 127 magnitudes, so their sums are large and many outputs overflow fp16; the
    others from those below 1/8, subnormals and zero included, so that moderate outputs are plentiful too.
    """
    options = {"device": generator.device, "generator": generator}
    small = nvfp4.SCALE_MAX_FINITE // 4 + 1
    any_magnitude = torch.randint(0, nvfp4.SCALE_MAX_FINITE + 1, shape, dtype=torch.uint8, **options)
    small_magnitude = torch.randint(0, small, shape, dtype=torch.uint8, **options)
    row_is_small = torch.rand((*shape[:2], 1), **options) < 0.5
    sign = torch.randint(0, 2, shape, dtype=torch.uint8, **options) << 7
    return torch.where(row_is_small, small_magnitude, any_magnitude) | sign


def generate_input(
    m: int,
    n: int,
    k: int,
    l: int = 1,  # noqa: E741  (the leaderboard's name)
    seed: int = 1111,
    full: bool = False,
    device: torch.device | str | None = None,
) -> tuple[torch.Tensor, ...]:
    """The leaderboard's ten tensors: a, b1, b2, sfa, sfb1, sfb2, the three scales permuted, and c.

    Codes (rows, K/2, L), scale factors (rows, K/16, L) and permuted (32, 4, ceil(rows/128), 4, K/64, L), c
    (M, N, L) float16, uninitialised. K is a multiple of 64. The leaderboard's data has codes masked with 0xBB
    and scale factors uniform in [0, 1); `full` draws every code and every finite scale magnitude, with random
    sign bits. Padding of the permuted scale factors is NaN. A seed gives the same data on one kind of device.
    """
    for name, value in (("m", m), ("n", n), ("k", k), ("l", l)):
        if value < 1:
            raise ValueError(f"{name} is {value}; expected at least 1")
    if k % 64 != 0:
        raise ValueError(f"k is {k}; expected a multiple of 64")
    device = torch.device(device) if device is not None else default_device()
    generator = torch.Generator(device).manual_seed(seed)
    mask, draw = (0xFF, _full_scales) if full else (LEADERBOARD_CODE_MASK, _leaderboard_scales)
    codes = [_random_codes(rows, k, l, mask, generator) for rows in (m, n, n)]
    scales = [
        draw((l, rows, k // nvfp4.GROUP_ELEMS), generator).view(torch.float8_e4m3fn).permute(1, 2, 0)
        for rows in (m, n, n)
    ]
    c = torch.empty((l, m, n), dtype=torch.float16, device=device).permute(1, 2, 0)
    return (*codes, *scales, *(nvfp4.to_blocked(scale) for scale in scales), c)


def _operands(data: Data) -> tuple[Data, Data, torch.Tensor]:
    """(a, b1, b2), (sfa, sfb1, sfb2) and c of the ten- or the seven-tensor form."""
    if len(data) not in (7, 10):
        raise ValueError(f"data has {len(data)} tensors; expected 7 or 10")
    return data[0:3], data[3:6], data[-1]


def _exact_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b^T of dequantized operands in their own precision, TF32 off."""
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        return a @ b.t()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed


def _scaled_product(codes: Data, scales: Data, batch: int) -> torch.Tensor:
    """A @ B^T in fp32 on the chip's fp4 tensor cores, from one batch of (a, b) and their scale factors."""
    # cuBLAS is given magnitudes, so that the sign bit cannot matter there.
    blocked = [
        (nvfp4.as_bytes(nvfp4.to_blocked(scale[:, :, batch : batch + 1], padding=0)) & nvfp4.SCALE_MAGNITUDE_MASK)
        .permute(5, 2, 4, 0, 1, 3)
        .reshape(-1)
        .view(torch.float8_e4m3fn)
        for scale in scales
    ]
    a, b = (code[:, :, batch] for code in codes)
    return torch._scaled_mm(a, b.t(), blocked[0], blocked[1], out_dtype=torch.float32)


def _has_fp4_tensor_cores(tensor: torch.Tensor) -> bool:
    return tensor.is_cuda and torch.cuda.get_device_capability(tensor.device) >= FP4_COMPUTE_CAPABILITY


def ref_kernel(data: Data) -> torch.Tensor:
    """silu(A @ B1^T) * (A @ B2^T) as a new float16 tensor (M, N, L); data as for custom_kernel.

    Uses torch._scaled_mm where the chip has fp4 tensor cores and the shape suits it, else dequantizes exactly and
    multiplies in fp32 with TF32 off. SiLU and the product are fp32, rounded to fp16 once.
    """
    codes, scales, c = _operands(data)
    m, n, batches = c.shape
    output = torch.empty((batches, m, n), dtype=torch.float16, device=c.device)
    # torch._scaled_mm wants 16-byte aligned rows of its operands and multiples of 16 of the output.
    scaled = _has_fp4_tensor_cores(c) and m % 128 == 0 and n % 128 == 0
    for batch in range(batches):
        if scaled:
            gate, up = (_scaled_product((codes[0], codes[i]), (scales[0], scales[i]), batch) for i in (1, 2))
        else:
            a, b1, b2 = (
                nvfp4.decode(code[:, :, batch], scale[:, :, batch]) for code, scale in zip(codes, scales, strict=True)
            )
            gate, up = _exact_product(a, b1), _exact_product(a, b2)
        output[batch] = (torch.nn.functional.silu(gate) * up).half()
    return output.permute(1, 2, 0)


class Oracle(NamedTuple):
    """The result in float64, (M, N, L), and how far fp32 sums may lead a right kernel from it."""

    value: torch.Tensor
    fp32_error: torch.Tensor


def oracle_with_error(data: Data, roundings: float | None = None) -> Oracle:
    """silu(A @ B1^T) * (A @ B2^T) in float64, not rounded, with a bound of what fp32 sums may lose.

    The bound takes each sum to lose `roundings` times 2^-23 of its sum of magnitudes: None is K/16, the most that
    a sum of K/16 terms can lose, rounded or truncated; see check_with_rounding for a smaller one.  Where one
    factor is near zero and the other large, that can exceed the leaderboard's tolerance by far.
    """
    codes, scales, _ = _operands(data)
    values, errors = [], []
    for batch in range(codes[0].shape[2]):
        a, b1, b2 = (
            nvfp4.decode(code[:, :, batch], scale[:, :, batch]).double()
            for code, scale in zip(codes, scales, strict=True)
        )
        gate, up = a @ b1.t(), a @ b2.t()
        silu = torch.nn.functional.silu(gate)
        relative = (a.shape[1] / nvfp4.GROUP_ELEMS if roundings is None else roundings) * 2.0**-23
        gate_error, up_error = (relative * (a.abs() @ b.abs().t()) for b in (b1, b2))
        values.append(silu * up)
        errors.append(SILU_MAX_SLOPE * gate_error * (up.abs() + up_error) + silu.abs() * up_error)
    return Oracle(torch.stack(values, dim=-1), torch.stack(errors, dim=-1))


def oracle(data: Data) -> torch.Tensor:
    """silu(A @ B1^T) * (A @ B2^T) in float64, not rounded: a new tensor (M, N, L)."""
    return oracle_with_error(data).value


def _rounded_up(bound: torch.Tensor) -> torch.Tensor:
    """The upper bound of fp16 values that stand for numbers up to bound; infinity where those overflow."""
    bound = bound.masked_fill(bound >= FP16_OVERFLOW, torch.inf)
    # Below the most negative value but not yet overflowing: rounded up to that value.
    return torch.where((bound < -FP16_MAX) & (bound > -FP16_OVERFLOW), -FP16_MAX, bound)


def check_against_oracle(data: Data, output: torch.Tensor, roundings: float | None = None) -> tuple[bool, str]:
    """As check_implementation, but for any NVFP4 input: against float64, with the error fp32 sums are due.

    That error is oracle_with_error's.  Where it and the tolerance leave open whether fp16 overflows, the largest
    values and infinity pass.
    """
    reason = _kind_differs(output, data[-1])
    if reason:
        return False, reason
    want, error = oracle_with_error(data, roundings)
    slack = ATOL + RTOL * want.abs() + error
    got = output.double()
    # What fp16 makes of an interval: ends past the overflow reach infinity, others at most the largest value.
    below, above = -_rounded_up(slack - want), _rounded_up(want + slack)
    right = (below <= got) & (got <= above) | (got.isnan() & want.isnan())
    return _verdict(right, output, want)


def _verdict(right: torch.Tensor, got: torch.Tensor, want: torch.Tensor) -> tuple[bool, str]:
    if right.all():
        return True, ""
    wrong = (~right).nonzero()
    shown = "; ".join(
        f"at {tuple(index)} got {got[tuple(index)].item():g}, expected {want[tuple(index)].item():g}"
        for index in wrong[:MISMATCHES_SHOWN].tolist()
    )
    return False, f"{len(wrong)} of {want.numel()} elements differ: {shown}"


def _kind_differs(got: object, want: torch.Tensor) -> str:
    """How the output's type, shape, dtype or device differs from those wanted; empty if it does not."""
    if not isinstance(got, torch.Tensor):
        return f"the output is a {type(got).__name__}; expected a torch.Tensor"
    if got.shape != want.shape:
        return f"the output has shape {tuple(got.shape)}; expected {tuple(want.shape)}"
    if got.dtype != want.dtype:
        return f"the output has dtype {got.dtype}; expected {want.dtype}"
    if got.device != want.device:
        return f"the output is on {got.device}; expected {want.device}"
    return ""


def compare(got: torch.Tensor, want: torch.Tensor, rtol: float = RTOL, atol: float = ATOL) -> tuple[bool, str]:
    """Whether got is want within |got - want| <= atol + rtol * |want|, NaNs and infinities in the same places.

    The message is empty if so, else it counts the mismatches and lists the first ones.
    """
    reason = _kind_differs(got, want)
    if reason:
        return False, reason
    x, y = got.double(), want.double()
    close = (x - y).abs() <= atol + rtol * y.abs()
    # The difference of equal infinities is NaN, of unequal ones infinite.
    special = ~(x.isfinite() & y.isfinite())
    right = torch.where(special, (x == y) | (x.isnan() & y.isnan()), close)
    return _verdict(right, got, want)


def check_implementation(data: Data, output: torch.Tensor) -> tuple[bool, str]:
    """Whether output is the reference's result for data within the leaderboard's tolerance, and why not."""
    return compare(output, ref_kernel(data))


def check_with_rounding(data: Data, output: torch.Tensor) -> tuple[bool, str]:
    """As check_implementation, but an output it refuses passes if float64 and the rounding of fp32 sums explain it.

    An element whose up sum cancels to nearly nothing is that sum's rounding error times the gate.  On an H200 a
    right kernel so missed the leaderboard's tolerance in one element of some thousand outputs: too rare for the
    leaderboard's 50 inputs, yet not for checks of thousands of fresh ones.  The allowance, USUAL_ROUNDINGS, is
    far below the worst case of check_against_oracle, so that sums in fewer bits still fail.
    """
    ok, message = check_implementation(data, output)
    if ok or _kind_differs(output, data[-1]):
        return ok, message
    return (True, "") if check_against_oracle(data, output, USUAL_ROUNDINGS)[0] else (False, message)
