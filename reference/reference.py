"""The leaderboard's contract for the dual GEMM: inputs, reference kernel and check; and a float64 oracle."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from reference import nvfp4
from reference.check import ATOL as ATOL
from reference.check import RTOL as RTOL
from reference.check import USUAL_ROUNDINGS, Oracle, compare, compare_with_oracle, form_problem
from reference.device import default_device
from reference.operands import (
    LEADERBOARD_CODE_MASK,
    exact_product,
    full_scales,
    has_fp4_tensor_cores,
    random_codes,
    scaled_product,
)

SILU_MAX_SLOPE = 1.1  # silu's largest slope is 1.0998, at x = 2.4
Data = Sequence[torch.Tensor]


def _leaderboard_scales(shape: tuple[int, int, int], generator: torch.Generator) -> torch.Tensor:
    uniform = torch.rand(shape, device=generator.device, generator=generator)
    return uniform.to(torch.float8_e4m3fn).view(torch.uint8)


def generate_input(
    m: int,
    n: int,
    k: int,
    l: int = 1,  # noqa: E741  (the leaderboard's name)
    seed: int = 1111,
    full: bool = False,
    device: torch.device | str | None = None,
) -> tuple[torch.Tensor, ...]:
    """The leaderboard's ten tensors: a, b1, b2, sfa, sfb1, sfb2, the same three scales permuted, and c.

    Codes are (rows, K/2, L), scale factors (rows, K/16, L), permuted ones (32, 4, ceil(rows/128), 4, K/64, L) and
    padded with NaN; c (M, N, L) is uninitialised float16. K is a multiple of 64. The leaderboard's data has codes
    masked with 0xBB and scale factors uniform in [0, 1); `full` draws every code and every finite scale magnitude
    with random sign bits. The same seed gives the same data on the same kind of device.
    """
    for name, value in (("m", m), ("n", n), ("k", k), ("l", l)):
        if value < 1:
            raise ValueError(f"{name} is {value}; expected at least 1")
    if k % 64 != 0:
        raise ValueError(f"k is {k}; expected a multiple of 64")
    device = torch.device(device) if device is not None else default_device()
    generator = torch.Generator(device).manual_seed(seed)
    mask, draw = (0xFF, full_scales) if full else (LEADERBOARD_CODE_MASK, _leaderboard_scales)
    codes = [random_codes(rows, k, l, mask, generator) for rows in (m, n, n)]
    scales = [
        draw((l, rows, k // nvfp4.GROUP_ELEMS), generator).view(torch.float8_e4m3fn).permute(1, 2, 0)
        for rows in (m, n, n)
    ]
    c = torch.empty((l, m, n), dtype=torch.float16, device=device).permute(1, 2, 0)
    return (*codes, *scales, *(nvfp4.to_blocked(scale) for scale in scales), c)


def _operands(data: Data) -> tuple[Data, Data, torch.Tensor]:
    """(a, b1, b2), (sfa, sfb1, sfb2) and c, from the form with ten or with seven tensors."""
    if len(data) not in (7, 10):
        raise ValueError(f"data has {len(data)} tensors; expected 7 or 10")
    return data[0:3], data[3:6], data[-1]


def ref_kernel(data: Data) -> torch.Tensor:
    """silu(A @ B1^T) * (A @ B2^T) as a new float16 tensor (M, N, L); data as for custom_kernel.

    Uses torch._scaled_mm if the chip has fp4 tensor cores and M and N are multiples of 128; else dequantizes exactly
    and multiplies in fp32 with TF32 off. SiLU and the product are fp32, rounded to fp16 once.
    """
    codes, scales, c = _operands(data)
    m, n, batches = c.shape
    output = torch.empty((batches, m, n), dtype=torch.float16, device=c.device)
    # torch._scaled_mm needs 16-byte aligned rows of its operands and multiples of 16 in the output.
    scaled = has_fp4_tensor_cores(c) and m % 128 == 0 and n % 128 == 0
    for batch in range(batches):
        if scaled:
            gate, up = (scaled_product((codes[0], codes[i]), (scales[0], scales[i]), batch) for i in (1, 2))
        else:
            a, b1, b2 = (
                nvfp4.decode(code[:, :, batch], scale[:, :, batch]) for code, scale in zip(codes, scales, strict=True)
            )
            gate, up = exact_product(a, b1), exact_product(a, b2)
        output[batch] = (torch.nn.functional.silu(gate) * up).half()
    return output.permute(1, 2, 0)


def oracle_with_error(data: Data, roundings: float | None = None) -> Oracle:
    """silu(A @ B1^T) * (A @ B2^T) in float64, not rounded, with a bound on the error of fp32 sums.

    The bound assumes that each sum errs by `roundings` times 2^-23 of its sum of magnitudes. None means K/16, the
    worst case of a sum of K/16 terms, rounded or truncated; check_with_rounding() uses a smaller value. If one
    factor is near zero and the other large, the bound can exceed the leaderboard's tolerance by far.
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


def check_against_oracle(data: Data, output: torch.Tensor, roundings: float | None = None) -> tuple[bool, str]:
    """check_implementation() for any NVFP4 input: compares with float64 and grants oracle_with_error()'s bound.

    If bound and tolerance leave open whether fp16 overflows, both the largest values and infinity pass.
    """
    reason = form_problem(output, data[-1])
    return (False, reason) if reason else compare_with_oracle(output, oracle_with_error(data, roundings))


def check_implementation(data: Data, output: torch.Tensor) -> tuple[bool, str]:
    """True if output is within the leaderboard's tolerance of ref_kernel(data); else a message says where it is not."""
    return compare(output, ref_kernel(data))


def check_with_rounding(data: Data, output: torch.Tensor) -> tuple[bool, str]:
    """check_implementation(), but an output that it refuses passes if the rounding of fp32 sums explains it.

    If the sum for up cancels to almost zero, the output is the sum's rounding error times the gate. On an H200, a
    right kernel missed the leaderboard's tolerance this way in one element of some thousand outputs: too rare to
    matter in the leaderboard's 50 inputs, but not in checks of thousands of fresh inputs. The allowance,
    USUAL_ROUNDINGS, is far below check_against_oracle()'s worst case, so that sums in fewer bits still fail.
    """
    ok, message = check_implementation(data, output)
    if ok or form_problem(output, data[-1]):
        return ok, message
    return (True, "") if check_against_oracle(data, output, USUAL_ROUNDINGS)[0] else (False, message)
