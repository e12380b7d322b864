"""A round in plain words: its outcome, the change of time, and the command that shows the code's change."""

from __future__ import annotations

from typing import Any

from scripts.rounds.stats import shape_key

# What stands beside the dual GEMM in runs on a GPU.
BASELINES = {
    "cublas_one_gemm": "cuBLAS fp16, one [2N, K] GEMM on dequantized operands, no SiLU",
    "cublas_two_gemms": "two cuBLAS GEMMs on dequantized operands, silu * mul",
    "dequantize_cublas": "from NVFP4: dequantize, one cuBLAS GEMM, silu * mul",
    "triton": "from NVFP4: a fused Triton kernel",
}
LEVEL = 0.01  # a smaller change of a shape's time is called level
_NUMBERS = ("no", "one", "two", "three", "four")
_FATE = {"adopted": "Kept", "rejected": "Not kept", "inconclusive": "Left open", "blocked": "Stopped"}
_WITHOUT_TIMES = {
    "simulated": "on the simulator's counts, without a time",
    "compiled": "on the compiler's output, without a time",
    "judged": "on the leaderboard's times",
    "predicted": "before anything was measured",
}


def percent(ratio: float) -> str:
    """A ratio of times as "13 % faster" or "2.1 % slower"; "as fast" within half of the last digit."""
    change = 100.0 * abs(1.0 - ratio)
    text = f"{change:.0f}" if round(change, 1) >= 10.0 else f"{change:.1f}"
    return "as fast" if float(text) == 0.0 else f"{text} % {'faster' if ratio < 1.0 else 'slower'}"


def _count(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)


def _by_shape(shapes: dict[str, Any]) -> str:
    """The range of the change over the shapes, or the one shape that changed."""
    changed = {shape: entry["ratio"] for shape, entry in shapes.items() if abs(entry["ratio"] - 1.0) > LEVEL}
    if not changed:
        return ""
    if len(changed) == 1:
        (shape, ratio), others = next(iter(changed.items())), len(shapes) - 1
        rest = f", {_count(others)} level" if others else ""
        return f" ({percent(ratio)} at {shape.replace('x', ' ')}{rest})"
    least, most = (percent(edge(changed.values(), key=lambda ratio: abs(1.0 - ratio))) for edge in (min, max))
    if least[-6:] == most[-6:] and least != most:  # both faster or both slower: name that once
        least = least[:-7]
    where = "by shape" if len(changed) == len(shapes) else f"at {_count(len(changed))} of {_count(len(shapes))} shapes"
    return f" ({least} to {most} {where})" if least != most else f" ({most} {where})"


def fate(data: dict[str, Any]) -> str:
    """The outcome of the round in a few words."""
    if data["state"] == "superseded":
        by = f" by round {data['superseded_by']:04d}" if "superseded_by" in data else ""
        return f"Replaced{by}"
    if "kept_although" in data:
        return "Kept although its rule does not adopt it"
    return _FATE.get(data["verdict"]["state"], "Open") if data["verdict"] else "Not measured yet"


def plain(data: dict[str, Any]) -> str:
    """The first sentence about a round: "Kept: 9.5 % faster over all shapes (27 % faster at ..., three level)."."""
    found = data["measurement"]
    if "inherited" in data:
        return f"{fate(data)}: published by others, not measured here."
    if found is None:
        how = _WITHOUT_TIMES.get(data["evidence"], "")
        return f"{fate(data)} {how}.".replace(" .", ".") if data["verdict"] else "Not measured yet."
    ratio = found["geomean"]["ratio"]
    if data["kind"] == "noise-floor":
        return f"The yardstick: one kernel timed twice differs by {100 * abs(1 - ratio):.2f} %."
    shapes = {shape: found["shapes"][shape] for shape in sorted(found["shapes"], key=shape_key)}
    return f"{fate(data)}: {percent(ratio)} over all shapes{_by_shape(shapes)}."


def diff_command(data: dict[str, Any]) -> str:
    """The command that shows what the round changed; "" if it does not name two commits."""
    base, candidate = (data[side]["commit"] for side in ("base", "candidate"))
    if not base or not candidate or base == candidate:
        return ""
    return f"git diff {base[:9]} {candidate[:9]} -- submission/"


def what_changed(data: dict[str, Any]) -> str:
    """The command that shows the round's change, in Markdown; "" if nothing was built."""
    if diff_command(data):
        return f"What changed: `{diff_command(data)}`."
    if data["base"]["commit"]:
        return "What changed: a choice at run time; both variants are of one commit."
    return ""
