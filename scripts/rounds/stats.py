"""Statistics of a round: ratios with bootstrap intervals, and the fixed verdict rules. Pure functions."""

from __future__ import annotations

from statistics import geometric_mean, median

from eval.stats import Ratio
from scripts.common import bootstrap

SEED = 20261121
MIN_SAMPLES = 5
# faster-v1: the highest ratio of a single shape, however good the mean.
MAX_SHAPE_RATIO = 1.01
# noise-floor-v1: the widest A/A interval, on either side of 1, that can judge rounds.
MAX_NOISE = 0.02

Samples = dict[str, dict[str, dict[int, float]]]  # shape -> variant -> repeat -> us


def _estimate(found: Ratio) -> dict[str, float]:
    """A ratio with an interval that contains it, in six digits, so that recomputation gives the same JSON."""
    low, high = min(found.low, found.ratio), max(found.high, found.ratio)
    return {"ratio": round(found.ratio, 6), "low": round(low, 6), "high": round(high, 6)}


def compare(samples: Samples, base: str, candidate: str, seed: int = SEED) -> dict:
    """Per-shape and geometric-mean ratios of medians, candidate over base (below 1 is faster).

    Only repeats that both variants have are used, in order, so that they are resampled in pairs. Returns
    `{"seed", "draws", "shapes": {...}, "geomean": {...}}`. Raises ValueError naming the variant or shape when
    samples are missing or too few.
    """
    if not samples:
        raise ValueError("samples: empty, expected at least one shape")
    present = sorted({variant for by_variant in samples.values() for variant in by_variant})
    for role, name in (("base", base), ("candidate", candidate)):
        if name not in present:
            raise ValueError(f"{role} variant {name!r} is not in the samples; they hold: {', '.join(present)}")
    shapes: dict[str, dict] = {}
    pairs = []
    for shape in sorted(samples, key=shape_key):
        of_base, of_candidate = samples[shape].get(base, {}), samples[shape].get(candidate, {})
        shared = sorted(set(of_base) & set(of_candidate))
        if len(shared) < MIN_SAMPLES:
            raise ValueError(
                f"shape {shape}: {base!r} and {candidate!r} share {len(shared)} repeats, expected {MIN_SAMPLES} or more"
            )
        pair = [of_candidate[i] for i in shared], [of_base[i] for i in shared]
        pairs.append(pair)
        shapes[shape] = {
            "base_us": round(median(pair[1]), 4),
            "candidate_us": round(median(pair[0]), 4),
            "samples": len(shared),
            **_estimate(bootstrap.ratio_interval(*pair, seed=seed)),
        }
    mean = {
        "base_us": round(geometric_mean(median(base_side) for _, base_side in pairs), 4),
        "candidate_us": round(geometric_mean(median(side) for side, _ in pairs), 4),
        **_estimate(bootstrap.geomean_ratio_interval(pairs, seed=seed)),
    }
    return {"seed": seed, "draws": bootstrap.BOOTSTRAP_ROUNDS, "shapes": shapes, "geomean": mean}


def shape_key(shape: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Sort key that keeps "MxNxK" in the order of the problem's list of benchmarks: by weights, then by M."""
    m, n, k = (tuple(int(one) for one in part.split(",")) for part in shape.split("x"))
    return (tuple(-one for one in n), m, k)


def noise_band(measurement: dict) -> tuple[float, float]:
    """The A/A run's interval of the geomean ratio, widened to contain 1."""
    mean = measurement["geomean"]
    return min(1.0, mean["low"]), max(1.0, mean["high"])


def judge_faster(measurement: dict, band: tuple[float, float]) -> tuple[str, str]:
    """Rule faster-v1: `(state, reason)` from a measurement and the noise band of its A/A round."""
    mean = measurement["geomean"]
    text = f"geomean ratio {mean['ratio']:.4f} [{mean['low']:.4f}, {mean['high']:.4f}]"
    floor = f"noise floor {band[0]:.4f}"
    if mean["low"] >= band[0]:
        return "rejected", f"{text} is not below the {floor}"
    if mean["high"] >= band[0]:
        return "inconclusive", f"{text} straddles the {floor}"
    worst = max(measurement["shapes"], key=lambda shape: measurement["shapes"][shape]["ratio"])
    ratio = measurement["shapes"][worst]["ratio"]
    if ratio > MAX_SHAPE_RATIO:
        return "rejected", f"{text} is below the {floor}, but {worst} is at {ratio:.4f}, over {MAX_SHAPE_RATIO:.2f}"
    return "adopted", f"{text} is below the {floor}; worst shape {worst} at {ratio:.4f}"


def judge_noise(measurement: dict) -> tuple[str, str]:
    """Rule noise-floor-v1: an A/A run serves as the noise floor when its band is narrow enough."""
    low, high = noise_band(measurement)
    text = f"A/A geomean band [{low:.4f}, {high:.4f}]"
    if low < 1.0 - MAX_NOISE or high > 1.0 + MAX_NOISE:
        return "inconclusive", f"{text} is wider than {MAX_NOISE:.0%} of 1: too noisy to judge rounds with"
    return "adopted", f"{text} is the noise floor"
