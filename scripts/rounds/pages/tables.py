"""Tables over all rounds, for shark_tank/README.md and the history page."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

from reference.problems import PROBLEMS
from scripts.common.gpu_backends import GPU_BACKENDS
from scripts.rounds.ledger import record_table
from scripts.rounds.model import VIEWPOINTS, Tank, benchmark_shapes
from scripts.rounds.pages.round_page import (
    NO_DATA,
    inherited_ratio,
    measured_text,
    predicted_text,
    round_id,
    state_text,
    verdict_state,
)
from scripts.rounds.pages.words import BASELINES
from simulator.python.markdown import table


def readme_blocks(tank: Tank, base: str = "") -> dict[str, str]:
    """Content of the generated tables; `base` is the path prefix of links."""
    rounds = tank.all()
    return {
        "record": record_table(tank, base),
        "rounds": rounds_index(rounds, base),
        "calibration": calibration_table(rounds),
    }


def _link(data: dict[str, Any], base: str) -> str:
    return f"[{data['number']:04d}]({base}rounds/{round_id(data)}/round.{'json' if 'page' in data else 'md'})"


_BACKENDS = {name: backend.title for name, backend in GPU_BACKENDS.items()} | {"cpu": "CPU"}


GEMM_SHAPES = {f"{shape.m}x{shape.n}x{shape.k}" for shape in PROBLEMS["gemm"].published_us["B200"]}
BENCHMARK_CHAPTER = f"{_BACKENDS['hopper']}: dual GEMM"


def chapter(data: dict[str, Any]) -> str:
    """The chapter of the record that a round belongs to: its backend and its shapes."""
    if "inherited" in data:
        return "Published by others before this project"
    shapes = data.get("shapes", [])
    if "," in "".join(shapes):
        kind = "grouped GEMM"
    elif shapes and set(shapes) <= GEMM_SHAPES:
        kind = "GEMM"
    else:
        kind = "dual GEMM at other shapes" if shapes else "dual GEMM"
    return f"{_BACKENDS[data['backend']]}: {kind}"


def chapters(rounds: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Rounds by chapter, the chapters in the order of their first rounds."""
    found: dict[str, list[dict[str, Any]]] = {}
    for data in rounds:
        found.setdefault(chapter(data), []).append(data)
    return list(found.items())


def _short_ratio(data: dict[str, Any]) -> str:
    if data["measurement"]:
        return f"{data['measurement']['geomean']['ratio']:.3f}"
    if "model" in data:
        return f"{data['model']['geomean']:.3f} (simulated)"
    ratio = inherited_ratio(data)
    return f"{ratio:.3f}" if ratio else NO_DATA


def index_table(rounds: list[dict[str, Any]], base: str = "") -> str:
    """Rounds in a line each."""
    rows = [[_link(data, base), data["title"], _short_ratio(data), state_text(data)] for data in rounds]
    return table(["round", "idea", "ratio", "state"], rows)


def counted(members: list[dict[str, Any]]) -> str:
    """How many rounds, and how many of them were adopted."""
    adopted = sum(data["state"] == "adopted" for data in members)
    return f"{len(members)} round{'s' * (len(members) != 1)}, {adopted} adopted"


def rounds_index(rounds: list[dict[str, Any]], base: str = "") -> str:
    """All rounds in a line each, folded by chapter."""
    parts = []
    for title, members in chapters(rounds):
        parts.append(
            f"<details><summary>{title}: {counted(members)}</summary>\n\n"
            + index_table(members, base)
            + "\n\n</details>"
        )
    return "\n\n".join(parts)


def failures_table(rounds: list[dict[str, Any]], base: str = "") -> str:
    """Rounds that were rejected, inconclusive or blocked, superseded since or not."""
    failed = [r for r in rounds if verdict_state(r) in ("rejected", "inconclusive", "blocked")]
    if not failed:
        return "None yet."
    rows = [
        [
            _link(r, base),
            r["title"] + (" (inherited)" if "inherited" in r else ""),
            predicted_text(r),
            measured_text(r),
            r["verdict"]["why"],
            r["reopen_if"],
        ]
        for r in failed
    ]
    return table(["round", "idea", "predicted", "measured", "why", "reopen if"], rows)


def run_medians(tank: Tank, run: str) -> dict[str, dict[str, float]]:
    """Median us of every variant of a run: variant -> shape -> us."""
    medians: dict[str, dict[str, float]] = {}
    for shape, variants in tank.samples(run).items():
        for variant, repeats in variants.items():
            medians.setdefault(variant, {})[shape] = median(repeats.values())
    return medians


def latest_baselines(tank: Tank, rounds: list[dict[str, Any]], backend: str) -> dict[str, dict[str, float]]:
    """Medians of each of BASELINES, from the latest run that timed it at the benchmark's shapes."""
    shapes = set(benchmark_shapes(tank.root))
    found: dict[str, dict[str, float]] = {}
    for data in rounds:
        if data["backend"] == backend and data["measurement"]:
            medians = run_medians(tank, data["measurement"]["run"])
            found.update({name: medians[name] for name in BASELINES if shapes <= medians.get(name, {}).keys()})
    return found


def calibration(rounds: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Per viewpoint: rounds, mean of log(measured / predicted) as a ratio, and the typical error as a factor - 1."""
    result: dict[str, dict[str, float]] = {}
    measured = [r for r in rounds if r["measurement"] and r["prediction"] and r["kind"] == "change"]
    for name in VIEWPOINTS:
        errors = [
            math.log(r["measurement"]["geomean"]["ratio"] / r["prediction"]["viewpoints"][name]["ratio"])
            for r in measured
        ]
        if errors:
            result[name] = {
                "rounds": len(errors),
                "bias": math.exp(sum(errors) / len(errors)),
                "error": math.exp(sum(map(abs, errors)) / len(errors)) - 1.0,
            }
    inside = total = 0
    for r in measured:
        for shape, entry in r["measurement"]["shapes"].items():
            if shape in r["prediction"]["shapes"]:
                low, high = r["prediction"]["shapes"][shape]
                inside, total = inside + (low <= entry["ratio"] <= high), total + 1
    if total:
        result["intervals"] = {"inside": inside, "total": total}
    return result


def calibration_table(rounds: list[dict[str, Any]]) -> str:
    """Errors of the predictions by viewpoint, and how many intervals held the measured ratio."""
    found = calibration(rounds)
    if not found:
        return "No round of ours has been measured yet."
    rows = [
        [name, f"{found[name]['rounds']}", f"{found[name]['bias']:.3f}", f"{100 * found[name]['error']:.1f} %"]
        for name in VIEWPOINTS
    ]
    inside, total = found["intervals"]["inside"], found["intervals"]["total"]
    return (
        table(["viewpoint", "rounds", "measured / predicted", "typical error"], rows, 3)
        + f"\n\nPer-shape intervals that held the measured ratio: {inside} of {total}. Above 1 in the third column "
        "means the viewpoint promised too much."
    )
