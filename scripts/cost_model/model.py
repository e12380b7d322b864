"""The cost model's arithmetic: what a call moves and computes on the busiest SM, the bounds of that, and their fit.

A call takes a fixed time, launch, first bytes and end, and a multiple of one resource's bound.  Which resource it is,
is a hypothesis: each is fitted to known times, and judged by how well three shapes foretell the fourth.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

STAGE_K = 256  # of the Blackwell kernel: elements of K in a stage
TOKENS = 128  # of a CTA's tile
CODE_ROW_BYTES = STAGE_K // 2
SCALE_STAGE_BYTES = 4 * 512  # a stage's scale factors of 128 rows
SCALE_ROWS = 128
MUFU_PER_OUTPUT = 1.5  # an exponential each, a reciprocal for two
EPILOGUE_WARPS = 4
WARP_THREADS = 32
PROCESSING_CLUSTERS = 8  # of a B200, with its SMs spread evenly: an assumption for clusters above two CTAs


class Chip(NamedTuple):
    """Published rates; bytes and operations are an SM's a cycle, but for device memory."""

    sms: int
    clock_ghz: float
    clock_source: str
    memory_tb_s: float
    l2_to_sm_bytes: int = 64
    shared_bytes: int = 128
    special_functions: int = 16


CHIPS = {
    "blackwell": Chip(148, 1.856, "9 PFLOP/s of dense NVFP4 over 148 SMs of 16,384 multiply-adds", 7.68),
    "hopper": Chip(132, 1.83, "989.5 TFLOP/s of dense fp16 over 132 SMs of 2,048 multiply-adds", 4.8),
}
Shape = tuple[int, int, int]


def parse_shape(text: str) -> Shape:
    """M, N, K of "MxNxK"."""
    m, n, k = map(int, text.split("x"))
    return m, n, k


def memory_bytes(shape: Shape) -> int:
    """Each operand and scale factor once, and C."""
    m, n, k = shape
    return (m + 2 * n) * (k // 2 + k // 16) + 2 * m * n


def clusters_at_once(cluster: int, sms: int) -> int:
    """Clusters resident together; those above two CTAs must lie in one processing cluster."""
    if cluster <= 2:
        return sms // cluster
    return PROCESSING_CLUSTERS * (sms // PROCESSING_CLUSTERS // cluster)


class Design(NamedTuple):
    """A tile configuration of ours or of others: what the cost model has to know of it."""

    features: int
    ctas: int  # that share an MMA
    splits: int = 1
    tail: int = 1  # stages whose gate products come first

    def grid(self, shape: Shape) -> int:
        """CTAs of a launch."""
        m, n, _ = shape
        return -(-m // (TOKENS * self.ctas)) * self.ctas * self.splits * -(-n // self.features)

    def waves(self, shape: Shape, sms: int) -> int:
        """How often the busiest SM is filled."""
        cluster = self.ctas * self.splits
        return -(-(self.grid(shape) // cluster) // max(clusters_at_once(cluster, sms), 1))

    def stages(self, shape: Shape) -> int:
        """Stages of the CTA with the largest share of K."""
        return math.ceil(math.ceil(shape[2] / STAGE_K) / self.splits)

    def scale_tiles(self) -> int:
        """Scale tiles along the features that a tile may touch."""
        return 1 if SCALE_ROWS % self.features == 0 else 2

    def stage_bytes(self) -> int:
        """Into a CTA's shared memory."""
        codes = (TOKENS + 2 * self.features // self.ctas) * CODE_ROW_BYTES
        return codes + (1 + 2 * self.scale_tiles()) * SCALE_STAGE_BYTES

    def issued_stage_bytes(self) -> int:
        """Of a CTA's copies: scale factors of B are issued once for both CTAs of a pair."""
        return self.stage_bytes() - 2 * self.scale_tiles() * SCALE_STAGE_BYTES * (self.ctas - 1) // self.ctas

    def tensor_cycles(self) -> int:
        """Of a stage: four steps of both products, half a cycle a feature each."""
        return 4 * self.features

    def reduction_bytes(self) -> int:
        """That leave a CTA, and come to it, where K is split: fp32 sums of both products."""
        return 2 * TOKENS * self.features * 4 * (self.splits - 1) // self.splits


def blackwell_bounds(design: Design, shape: Shape, epilogue_instructions: int | None = None) -> dict[str, float]:
    """Microseconds that each resource of the busiest SM, or the device's memory, takes alone at its published rate."""
    chip = CHIPS["blackwell"]
    cycle_us = 1e-3 / chip.clock_ghz
    waves, stages = design.waves(shape, chip.sms), design.stages(shape)
    sm_bytes = waves * (stages * design.stage_bytes() + design.reduction_bytes())
    bounds = {
        "memory": memory_bytes(shape) / chip.memory_tb_s * 1e-6,
        "L2 to SM": waves * stages * design.stage_bytes() / chip.l2_to_sm_bytes * cycle_us,
        # What is copied in is read once by the tensor cores: A is kept for the second product.
        "shared": 2 * sm_bytes / chip.shared_bytes * cycle_us,
        "tensor": waves * stages * design.tensor_cycles() * cycle_us,
    }
    outputs = design.features // design.splits
    special = TOKENS * outputs * MUFU_PER_OUTPUT / chip.special_functions
    # A scheduler issues an instruction a cycle, and has one of the four epilogue warps.
    bounds["epilogue"] = waves * max(special, epilogue_instructions or 0.0) * cycle_us
    # The up products that come after the gates' end cover as much of it.
    covered = design.tail * design.tensor_cycles() / 2 if design.splits == 1 else 0.0
    bounds["epilogue exposed"] = max(bounds["epilogue"] - covered * cycle_us, bounds["epilogue"] / 3)
    return bounds


def hopper_bounds(counted: dict[str, float], shape: Shape, ctas: int) -> dict[str, float]:
    """The same of the Hopper kernel; one wave, its GEMM's CTAs given (the dequantization's have no tensor work)."""
    chip = CHIPS["hopper"]
    cycle_us = 1e-3 / chip.clock_ghz
    return {
        "memory": memory_bytes(shape) / chip.memory_tb_s * 1e-6,
        "L2 to SM": counted["tma_load_bytes"] / ctas / chip.l2_to_sm_bytes * cycle_us,
        "tensor": counted["tensor_cycles"] / ctas * cycle_us,
    }


# --- fits -----------------------------------------------------------------------------------------------
class Fit(NamedTuple):
    """known = fixed + slope * bound, and what it is worth."""

    fixed_us: float
    slope: float
    errors: list[float]  # fitted / known - 1
    left_out: list[float]  # the same, of each shape by a fit to the others

    @property
    def error(self) -> float:
        """Root mean square of what three shapes say of the fourth."""
        return math.sqrt(sum(e * e for e in self.left_out) / len(self.left_out))

    def at(self, bound: float) -> float:
        """Microseconds of a kernel with that bound."""
        return self.fixed_us + self.slope * bound


def line(x: list[float], y: list[float]) -> tuple[float, float]:
    """Least squares: y = fixed + slope * x."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - mean_x) ** 2 for a in x)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread if spread else 0.0
    return mean_y - slope * mean_x, slope


def fit(bounds: list[float], known: list[float]) -> Fit:
    """The line, its errors, and those of lines that did not see the shape."""
    fixed, slope = line(bounds, known)
    left_out = []
    for i, (bound, us) in enumerate(zip(bounds, known, strict=True)):
        others = line(bounds[:i] + bounds[i + 1 :], known[:i] + known[i + 1 :])
        left_out.append((others[0] + others[1] * bound) / us - 1)
    errors = [(fixed + slope * bound) / us - 1 for bound, us in zip(bounds, known, strict=True)]
    return Fit(fixed, slope, errors, left_out)


def hypotheses(fits: dict[str, Fit]) -> list[str]:
    """Resources that explain the known times at most twice as badly as the one that does best."""
    best = min(found.error for found in fits.values())
    return [name for name, found in fits.items() if found.error <= 2 * best]


def geomean(values: list[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def rounded(data: Any, digits: int = 4) -> Any:
    """Every float of a JSON tree to so many digits behind the point."""
    if isinstance(data, float):
        return round(data, digits)
    if isinstance(data, dict):
        return {key: rounded(value, digits) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [rounded(value, digits) for value in data]
    return data
