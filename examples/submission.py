#!POPCORN leaderboard nvfp4_dual_gemm
#!POPCORN gpu B200
"""A right submission in plain torch for all four problems: the place to start.  It is slow: make product() fast.

    ./nvfp4 eval test --submission examples/submission.py --problem gemv      # or dual_gemm, group_gemm, gemm

The first line names the leaderboard that gets the file.  task.md and reference/problems/*/task.md state the problems.
"""

from typing import Any

import torch

GROUP = 16  # values along K that share a scale factor
MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of e2m1's codes 0 to 7; codes 8 to 15 are negative


def decode(codes: torch.Tensor, blocked: torch.Tensor) -> torch.Tensor:
    """Codes (rows, K/2), two in a byte, and their scale factors in tensor cores' order -> float32 (rows, K)."""
    numbers = torch.tensor([*MAGNITUDES, *(-x for x in MAGNITUDES)], device=codes.device)
    packed = codes.view(torch.uint8).int()
    values = torch.stack((numbers[packed & 15], numbers[packed >> 4]), -1).flatten(1)  # the even k: the low half
    # [row % 32, row % 128 // 32, row // 128, group % 4, group // 4] -> [row, group], without the rows that pad 128.
    scales = blocked.permute(2, 1, 0, 4, 3).reshape(-1, values.shape[1] // GROUP)[: len(values)]
    return values * scales.float().abs().repeat_interleave(GROUP, 1)


def product(a: torch.Tensor, b: torch.Tensor, sfa: torch.Tensor, sfb: torch.Tensor) -> torch.Tensor:
    """a @ b^T in float32, which the tolerance needs: torch keeps TF32 off unless a program turns it on."""
    return decode(a, sfa) @ decode(b, sfb).t()


def custom_kernel(data: tuple[Any, ...]) -> torch.Tensor | list[torch.Tensor]:
    """Writes every element of c, in fp16 rounded once, and returns c; of the grouped GEMM, the list of all c."""
    if isinstance(data[0], list):  # nvfp4_group_gemm: tuples of each group, with M, N and K of its own
        for (a, b, c), (sfa, sfb) in zip(data[0], data[2], strict=True):
            c[..., 0] = product(a[..., 0], b[..., 0], sfa[..., 0], sfb[..., 0])
        return [c for _, _, c in data[0]]
    *inputs, c = data  # a and one or two b; their scale factors by rows; the same in tensor cores' order
    operands = len(inputs) // 3
    for batch in range(c.shape[2]):
        a, *bs = (tensor[..., batch] for tensor in inputs[:operands])
        sfa, *sfbs = (tensor[..., batch] for tensor in inputs[2 * operands :])
        products = [product(a, b[: c.shape[1]], sfa, sfb) for b, sfb in zip(bs, sfbs, strict=True)]
        if len(products) == 2:  # nvfp4_dual_gemm
            c[..., batch] = torch.nn.functional.silu(products[0]) * products[1]
        else:  # nvfp4_gemm; nvfp4_gemv, whose b has 127 rows of padding
            c[..., batch] = products[0]
    return c
