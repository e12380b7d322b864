"""Every option of the extended GEMM on a CUDA device against the float64 oracle, and cases of exact sums by their bits.

    python -m tests.submission.extended.on_card [--small]

Needs no pytest.  --small: few and small cases, for compute-sanitizer.  test_extended_cuda.py runs the same.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator

import torch

import submission
from reference.extended_reference import Extension
from tests.submission.extended.extended_kit import (
    call,
    exact_case,
    of_16_bits,
    random_case,
    with_activation,
    wrong_bits,
    wrong_values,
)

NARROW = (("m8", 5), ("m16", 9), ("m16warps", 16), ("m32", 40))
WIDE = (("m128n64", 70), ("m64n64k2", 70), ("m64n32k8", 33), ("m256n64", 300), ("m128n64k2", 129))
SHARES = (("m32n128s", 33), ("m64n64s", 65), ("m96n64s", 90), ("m128n64s", 129), ("m160n64s", 150), ("m192n64s", 400))
FEW_ROWS = (("m128k1", 17), ("m128k2", 64), ("m128k2", 130), ("m128k4", 128), ("m128k4", 5))
TILES = {"hopper": (*NARROW, *WIDE, *SHARES), "blackwell": FEW_ROWS}
REFUSED = ("has no extended GEMM of this kind", "is not one of the extended GEMM's")
DTYPES = (None, torch.float16, torch.bfloat16)
WEIGHTS = (0, 1, 8, 32, 64, -1)  # -1: a plain product
OUTPUTS = ("float16", "bfloat16", "nvfp4")
ACTIVATIONS = (None, "silu", "gelu_tanh", "relu2")  # None: no biases


def backend() -> str:
    """The backend of this machine's card, "" if these cases are for none."""
    return next((one.name for one in submission.backends() if one.available and one.name in TILES), "")


def cases(small: bool) -> Iterator[tuple[object, ...]]:
    """Tile, M, N, K, weights, output, dtype of A, whether scale factors lie in blocks, activation."""
    dtypes = DTYPES if backend() == "hopper" else (None,)
    for i, ((tile, m), dtype, weights) in enumerate(itertools.product(TILES[backend()], dtypes, WEIGHTS)):
        if small and i % 7:
            continue
        m = min(m, 70) if small else m
        for j, output in enumerate(OUTPUTS):
            if small and (i + j) % 3:
                continue
            n, k = (128, 320) if small else ((256, 1088), (384, 4096))[(i + j) % 2]
            yield tile, m, n, k, weights, output, dtype, (i + j) % 2 == 0, ACTIVATIONS[(i + j) % 4]
    if not small:
        every = itertools.product((1, 8, 16, 17, 64, 128, 256), dtypes, (0, -1))
        for i, (m, dtype, weights) in enumerate(every):
            yield "", m, 2048, 7168, weights, OUTPUTS[m % 3], dtype, True, ACTIVATIONS[i % 4]


def wrong(case: tuple[object, ...]) -> str:
    """What is wrong with a case; "" if nothing is, or if the tile refuses it by name."""
    tile, m, n, k, weights, output, dtype, blocked, activation = case
    name = backend().upper() if backend() == "hopper" or weights in (0, 1) else "GROUPED"
    variable = f"NVFP4_{name}_CONFIG"
    os.environ[variable] = tile
    plain, nvfp4 = weights < 0, output == "nvfp4"
    tokens = 0.5 + torch.arange(m).float() / m
    small = torch.tensor(0.3 / k**0.5)
    options = Extension(plain, output, small, None if plain else small, tokens, torch.tensor(2.0) if nvfp4 else None)
    if not plain:
        options = options._replace(limit=2.0, alpha=1.702, beta=1.0)
    exact = Extension(plain, output, None, None, torch.full((m,), 0.5), torch.tensor(0.07) if nvfp4 else None)
    if activation is not None:
        options, exact = with_activation(options, activation, n), with_activation(exact, activation, n, exact=True)
    pair = [random_case(m, n, k, options, max(weights, 0)), exact_case(m, n, k, exact, max(weights, 0))]
    if dtype is not None:
        pair = [of_16_bits(one, dtype) for one in pair]
    try:
        return wrong_values(pair[0], call(pair[0], blocked, "cuda")) or wrong_bits(
            pair[1], call(pair[1], blocked, "cuda")
        )
    except RuntimeError as error:
        return "" if any(text in str(error) for text in REFUSED) else str(error)
    finally:
        os.environ.pop(variable)


def rows_that_change() -> str:
    """A message if a row's bits change with the rows beside it, at a model's size within a narrow tile."""
    for dtype in DTYPES:
        case = random_case(8, 2048, 7168, Extension(output="bfloat16", scale_gate=torch.tensor(0.001)))
        case = case if dtype is None else of_16_bits(case, dtype)
        want = call(case, False, "cuda")
        for m in (1, 3, 7):
            first = case._replace(
                codes=(case.codes[0][:m].contiguous(), *case.codes[1:]),
                scales=(None if dtype else case.scales[0][:m].contiguous(), *case.scales[1:]),
            )
            if not torch.equal(call(first, False, "cuda"), want[:m]):
                return f"rows 0 to {m - 1} of 8 differ from the same rows alone, A in {dtype}"
    return ""


def main() -> int:
    """Prints what is wrong; returns the exit status."""
    small = "--small" in sys.argv[1:]
    found, count = [], 0
    for case in cases(small):
        count += 1
        text = wrong(case)
        if text:
            found.append(f"{case}: {text}")
            print(found[-1], flush=True)
    changing = rows_that_change() if not small and backend() == "hopper" else ""
    if changing:
        found.append(changing)
        print(changing)
    print(f"{count} cases, {len(found)} wrong")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
