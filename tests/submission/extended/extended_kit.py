"""Random problems of the extended operation, and what of an output is wrong: for its tests on every backend."""

from __future__ import annotations

from typing import NamedTuple
from unittest import mock

import torch

from reference import extended_reference as extended
from reference import nvfp4
from reference.extended_reference import NVFP4, Extension
from submission import gated_gemm, plain_gemm

FP16_LARGEST = 65504.0
LARGEST = 6.0 * 448  # the largest NVFP4 value without a global scale
ROUNDING = {extended.FP16: 2.0**-11, extended.BF16: 2.0**-8}  # bf16: 2^-9; twice, for sums that straddle a binade
SMALLEST = {extended.FP16: 2.0**-25, extended.BF16: 2.0**-133}


class Case(NamedTuple):
    """(a, b1, b2) and (sfa, sfb1, sfb2) as bytes, gate and up apart, b2 None where the product is plain; or a
    in float16 or bfloat16 and sfa None."""

    codes: tuple[torch.Tensor | None, ...]
    scales: tuple[torch.Tensor | None, ...]
    extension: Extension
    weights: int

    def arguments(self, blocked: bool) -> tuple[torch.Tensor | None, ...]:
        """a, b1, b2, sfa, sfb1, sfb2 as the operator takes them."""
        tensors = [*self.codes, *self.scales]
        if self.weights != extended.APART:
            tensors[1:3] = extended.join(*tensors[1:3], self.weights), None
            tensors[4:6] = extended.join(*tensors[4:6], self.weights), None
        if blocked:
            tensors[3:] = [
                None if one is None else nvfp4.to_blocked(one.view(torch.float8_e4m3fn).unsqueeze(-1))[..., 0]
                for one in tensors[3:]
            ]
        return tuple(tensors)

    def options(self) -> dict[str, object]:
        """Keyword arguments of the operator; a plain product gets none of the activation's."""
        extension = self.extension
        options = {"token_scale": extension.token_scale, "out_dtype": extension.output, "scale_c": extension.scale_c}
        if extension.activation is not None:
            options["activation"] = extension.activation
        if extension.plain:
            return {**options, "scale": extension.scale_gate, "bias": extension.bias_gate}
        names = {0: "apart", 1: "stacked"}
        limit = 0.0 if extension.limit == torch.inf else extension.limit
        return {
            **options,
            "scale_gate": extension.scale_gate,
            "scale_up": extension.scale_up,
            "weights": names.get(self.weights, f"interleaved{self.weights}"),
            "limit": limit,
            "alpha": extension.alpha,
            "beta": extension.beta,
            "bias_gate": extension.bias_gate,
            "bias_up": extension.bias_up,
        }


def with_biases(extension: Extension, n: int, exact: bool = False, seed: int = 7) -> Extension:
    """Biases of every column, for exact_case() whole numbers that keep its gates 0 or at least 32."""
    generator = torch.Generator().manual_seed(seed)
    gate, up = torch.randn(2, n, generator=generator)
    if exact:
        gate, up = (
            torch.randint(0, 3, (n,), generator=generator) * 64.0,
            torch.randint(-4, 5, (n,), generator=generator) * 8.0,
        )
    return extension._replace(bias_gate=gate, bias_up=None if extension.plain else up)


def with_activation(extension: Extension, activation: str, n: int, exact: bool = False) -> Extension:
    """The activation, and biases.  Exact outputs of a plain product have one without an exponential."""
    if exact and extension.plain and activation != extended.RELU2:
        activation = None
    alpha = extension.alpha if activation == extended.SILU and not extension.plain else 1.0
    return with_biases(extension._replace(activation=activation, alpha=alpha), n, exact)


def random_case(m: int, n: int, k: int, extension: Extension, weights: int = 0, seed: int = 1) -> Case:
    """Codes of every kind and scale factors from 1/4 to 2, so that a model's global scales bring sums to about 1."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(m, k), (n, k), None if extension.plain else (n, k)]
    codes, scales = [], []
    for shape in shapes:
        if shape is None:
            codes.append(None)
            scales.append(None)
            continue
        codes.append(torch.randint(0, 256, (shape[0], k // 2), dtype=torch.uint8, generator=generator))
        scales.append(torch.randint(0x28, 0x41, (shape[0], k // 16), dtype=torch.uint8, generator=generator))
    return Case(tuple(codes), tuple(scales), extension, weights)


def of_16_bits(case: Case, dtype: torch.dtype, seed: int = 1) -> Case:
    """The case with an A of 16 bits: a dequantized A that is exact in them, or random numbers from -2 to 2 where the
    case is random, some of them subnormal."""
    values = nvfp4.decode(case.codes[0], case.scales[0])
    if len(case.scales[0].unique()) > 1:
        values = torch.rand(values.shape, generator=torch.Generator().manual_seed(seed)) * 4 - 2
        values[:, ::7] *= 2.0**-22 if dtype == torch.float16 else 2.0**-30
    return case._replace(codes=(values.to(dtype), *case.codes[1:]), scales=(None, *case.scales[1:]))


def exact_case(m: int, n: int, k: int, extension: Extension, weights: int = 0, seed: int = 1) -> Case:
    """A case whose sums are exact in any order and whose gates are 0 or at least 32, so that sigmoid is 1/2 or 1: every
    backend has the same bits.  Codes are 0 and 1 in A and gate, and -1 too in up."""
    generator = torch.Generator().manual_seed(seed)

    def draw(rows: int, values: tuple[int, ...]) -> torch.Tensor:
        nibbles = torch.tensor(values, dtype=torch.uint8)[torch.randint(0, len(values), (rows, k), generator=generator)]
        return nibbles[:, 0::2] | nibbles[:, 1::2] << 4

    one, minus_one = 2, 10
    codes = [draw(m, (0, one, one)), draw(n, (0, one)), draw(n, (0, one, minus_one))]
    # e4m3 of 128, 1/2 and 1/64; token scales are 1/2 at least.
    kinds = ((m, 0x70), (n, 0x30), (n, 0x08))
    scales = [torch.full((rows, k // 16), byte, dtype=torch.uint8) for rows, byte in kinds]
    if extension.plain:
        codes[1:], scales[1:] = [codes[2], None], [scales[2], None]
    return Case(tuple(codes), tuple(scales), extension, weights)


def as_rows(scales: torch.Tensor, m: int, n: int) -> torch.Tensor:
    """An NVFP4 output's scale factors by rows, as bytes."""
    if scales.dim() == 2:
        return scales.view(torch.uint8)
    memory = scales.permute(2, 4, 0, 1, 3).contiguous().permute(2, 3, 0, 4, 1)
    return nvfp4.from_blocked(memory.unsqueeze(-1), m, n // 16)[..., 0].view(torch.uint8)


def wrong_bits(case: Case, found: object) -> str:
    """A message about the bits in which an output differs from the reference; "" if none (all NaNs are equal)."""
    want = extended.reference(case.codes, case.scales, case.extension)
    if case.extension.output != NVFP4:
        same = (found == want) | (found.isnan() & want.isnan())
        return "" if same.all() else f"{int((~same).sum())} of {want.numel()} differ, first at {(~same).nonzero()[0]}"
    codes, scales = found
    m, n = want.codes.shape[0], want.codes.shape[1] * 2
    if not torch.equal(as_rows(scales, m, n), want.scales):
        return f"scale factors differ: {as_rows(scales, m, n)} and {want.scales}"
    return "" if torch.equal(codes, want.codes) else f"codes differ at {(codes != want.codes).nonzero()[:3].tolist()}"


def wrong_values(case: Case, found: object) -> str:
    """A message about elements outside the oracle's error and the output's rounding; "" if there are none."""
    want, error = extended.oracle(case.codes, case.scales, case.extension)
    output = case.extension.output
    if output != NVFP4:
        slack = error + want.abs() * ROUNDING[output] + SMALLEST[output]
        value = found.double()
        right = (value - want).abs() <= slack
        if output == extended.FP16:  # what may overflow
            right |= (value.isinf() | (value.abs() == FP16_LARGEST)) & (want.abs() + slack >= FP16_LARGEST)
            right &= value.isinf() | (value.abs() <= FP16_LARGEST)
        return "" if right.all() else f"{int((~right).sum())} wrong: {value[~right][:3]}, expected {want[~right][:3]}"
    m, n = want.shape
    scales = as_rows(found[1], m, n)
    value = extended.dequantize(extended.Quantized(found[0], scales), case.extension.scale_c)
    # Half of e2m1's widest step, 2, of a scale factor that is up to 1/16 off; subnormal ones up to 2^-10.
    scale_c = 1.0 if case.extension.scale_c is None else float(case.extension.scale_c)
    want = want.clamp(-LARGEST / scale_c, LARGEST / scale_c)
    most = want.abs().unflatten(-1, (-1, 16)).amax(-1, keepdim=True).expand(m, n // 16, 16).flatten(1)
    slack = most / 6 * 1.08 + error + 6 * 2.0**-10 / scale_c
    right = (value - want).abs() <= slack
    return "" if right.all() else f"{int((~right).sum())} wrong: {value[~right][:3]}, expected {want[~right][:3]}"


def poisoned(*arguments: object, _empty: object = torch.empty, **options: object) -> torch.Tensor:
    """What torch.empty() gives, full of bytes that no output has by chance."""
    memory = _empty(*arguments, **options)
    memory.view(torch.uint8).fill_(0x5B)
    return memory


def padding(scales: torch.Tensor, m: int, n: int) -> torch.Tensor:
    """The bytes of blocked scale factors that belong to no group of m rows of n columns."""
    memory = scales.permute(2, 4, 0, 1, 3).contiguous().permute(2, 3, 0, 4, 1).unsqueeze(-1)
    rows = nvfp4.from_blocked(memory, 128 * scales.shape[2], 4 * scales.shape[4])[..., 0].view(torch.uint8)
    return torch.cat([rows[m:].flatten(), rows[:m, n // 16 :].flatten()])


@mock.patch.object(torch, "empty", poisoned)
def call(case: Case, blocked: bool, device: str = "cpu") -> object:
    """The operator's output of a case, on the CPU.  RuntimeError if blocked scale factors' padding is not zero."""
    moved = [None if one is None else one.to(device) for one in case.arguments(blocked)]
    options = {
        name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in case.options().items()
    }
    layout = "swizzled128x4" if blocked else "linear"
    if case.extension.plain:
        found = plain_gemm(moved[0], moved[1], moved[3], moved[4], scale_layout=layout, **options)
    else:
        found = gated_gemm(*moved, scale_layout=layout, **options)
    if not isinstance(found, tuple):
        return found.cpu()
    codes, scales = (one.cpu() for one in found)
    if scales.dim() > 2 and padding(scales, codes.shape[0], 2 * codes.shape[1]).any():
        raise RuntimeError("the padding of blocked scale factors is not zero")
    return codes, scales
