"""The cost model, without the chip: shark_tank/blackwell_cost_model.json and .md, from committed counts.

    python -m scripts.cost_model            # write both
    python -m scripts.cost_model --check    # say whether they are what the counts give
    make cost-model                         # count again on the simulator first

Counts are `simulated`, rates published, others' times `judged`, Hopper's `measured:H200`, times of ours `predicted`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from eval.hardware.chip import B200_SPEED_OF_LIGHT_US
from scripts.cost_model.model import (
    CHIPS,
    Design,
    Fit,
    blackwell_bounds,
    fit,
    geomean,
    hopper_bounds,
    hypotheses,
    memory_bytes,
    parse_shape,
    rounded,
)
from scripts.cost_model.render import render

ROOT = Path(__file__).resolve().parents[2]
COUNTERS = ROOT / "shark_tank" / "cost_model_counters.json"
MEASURED = ROOT / "shark_tank" / "hopper_comparison.json"
RESULT = ROOT / "shark_tank" / "blackwell_cost_model.json"
TEXT = ROOT / "shark_tank" / "blackwell_cost_model.md"
HOPPER_LAUNCHES = 2  # a call: dequantization of A, the GEMM
EPILOGUE_WARPS = 4
FITTED = ("memory", "L2 to SM", "tensor")  # resources whose bounds are hypotheses
TARGET_US = 10.0
# The best public time of each shape, and single entries: pairs of CTAs, tiles of 64 features at M = 256 and 128 at 512.
PUBLISHED_BEST = "best of each shape"
PUBLISHED_US = {
    PUBLISHED_BEST: (12.4, 15.3, 9.43, 14.4),
    "guaguabear": (12.4, 15.3, 10.0, 14.4),
    "gau.nernst": (12.4, 16.4, 9.43, 16.3),
    "arseni_ivanov": (12.6, 16.5, 10.3, 16.4),
    "Nareg Megan": (14.4, 18.5, 10.3, 18.3),
}
# The same of gau.nernst's entry on a chip held at 1.5 GHz, as replayed by cfregly.
REPLAYED_US = (19.6, 28.2, 14.7, 26.9)


def published_design(shape: str) -> Design:
    """What the fast public kernels launch."""
    return Design(features=64 if parse_shape(shape)[0] == 256 else 128, ctas=2)


def measured_reduction() -> tuple[float, int]:
    """Microseconds, and the bytes, of a DSMEM reduction: fitted to time stamps on an H200 of the tile m256n64k2, which
    the Hopper kernel had until round 64."""
    tokens, features = 256, 64
    return 3.6, 2 * features * tokens * 4 // 2


def hopper_costs(counts: dict[str, Any], measured: dict[str, float]) -> dict[str, Any]:
    """The costs of the kernel whose times are known: what it is worth."""
    shapes = list(measured)
    bounds = {}
    for shape in shapes:
        config = counts["configs"][counts["chosen"][shape]]
        m, n, _ = parse_shape(shape)
        features = 32 * config["warpgroups_n"] * config["m_blocks"]
        ctas = -(-n // features) * -(-m // config["tile_m"]) * config["split_k"]
        bounds[shape] = hopper_bounds(counts["counters"]["auto"][shape], parse_shape(shape), ctas)
    known = [measured[shape] for shape in shapes]
    fits = {name: fit([bounds[shape][name] for shape in shapes], known) for name in FITTED}
    return {
        "chosen": counts["chosen"],
        "bounds_us": bounds,
        "measured_us": measured,
        "fits": {name: fit_json(found, shapes) for name, found in fits.items()},
        "hypotheses": hypotheses(fits),
    }


def fit_json(found: Fit, shapes: list[str]) -> dict[str, Any]:
    """A fit as it is kept."""
    return {
        "fixed_us": found.fixed_us,
        "slope": found.slope,
        "errors": dict(zip(shapes, found.errors, strict=True)),
        "left_out_errors": dict(zip(shapes, found.left_out, strict=True)),
        "error": found.error,
    }


def published_costs(shapes: list[str]) -> tuple[dict[str, Any], dict[str, Fit]]:
    """The model applied to the published designs: each entry's fits, and those of the best of each shape."""
    bounds = {shape: blackwell_bounds(published_design(shape), parse_shape(shape)) for shape in shapes}
    entries, best = {}, {}
    for label, times in (PUBLISHED_US | {"gau.nernst at 1.5 GHz": REPLAYED_US}).items():
        fits = {name: fit([bounds[shape][name] for shape in shapes], list(times)) for name in FITTED}
        entries[label] = {
            "us": dict(zip(shapes, times, strict=True)),
            "fits": {name: fit_json(found, shapes) for name, found in fits.items()},
            "hypotheses": hypotheses(fits),
        }
        if label == PUBLISHED_BEST:
            best = fits
    return {"bounds_us": bounds, "entries": entries}, best


class Predictor:
    """Times of a design: fitted hypotheses, what PDL hides, what a DSMEM reduction costs."""

    def __init__(self, fits: dict[str, Fit], gains_us: list[float]) -> None:
        names = hypotheses(fits)
        self.fits = {name: fits[name] for name in names}
        self.gains_us = gains_us
        self.reduction_us, self.reduction_bytes = measured_reduction()

    def predict(self, design: Design, bounds: dict[str, float], waves: int) -> dict[str, Any]:
        """The mean of the hypotheses, and the envelope of all that is open."""
        chip = CHIPS["blackwell"]
        single = {name: found.at(bounds[name]) for name, found in self.fits.items()}
        moved = waves * design.reduction_bytes()
        # In proportion to the bytes: on an H200 the reduction takes as long without its barriers (round 30).
        reduction = self.reduction_us * moved / self.reduction_bytes
        least = moved / chip.l2_to_sm_bytes / chip.clock_ghz * 1e-3
        low = min(single[name] * (1 - self.fits[name].error) for name in single)
        high = max(single[name] * (1 + self.fits[name].error) for name in single)
        gain = sum(self.gains_us) / len(self.gains_us)
        return {
            "by_hypothesis_us": {name: us + reduction - gain for name, us in single.items()},
            "us": sum(single.values()) / len(single) + reduction - gain,
            "low_us": low + least - max(self.gains_us),
            "high_us": high + reduction,
            "isolated_us": sum(single.values()) / len(single) + reduction,
            "reduction_us": reduction,
            # The hope behind splitting K: bytes into the SM bind, and the sums come as fast as operands do.
            "hoped_us": single.get("L2 to SM", max(single.values())) + least - gain,
        }


def blackwell_cost_model(counts: dict[str, Any], shapes: list[str], predictor: Predictor) -> dict[str, Any]:
    """Every configuration at every shape: counts, bounds, predictions; and the choices."""
    rows: dict[str, dict[str, Any]] = {shape: {} for shape in shapes}
    for name, figures in counts["configs"].items():
        design = Design(figures["tile_n"], figures["ctas"], figures["split_k"], figures["tail"])
        for text in shapes:
            shape, counted = parse_shape(text), counts["counters"][name][text]
            waves = design.waves(shape, CHIPS["blackwell"].sms)
            # The kernel's first and last instructions are in it too.
            instructions = counted["epilogue_instructions"] // (EPILOGUE_WARPS * counted["ctas"])
            bounds = blackwell_bounds(design, shape, instructions)
            rows[text][name] = {
                "ctas": counted["ctas"],
                "waves": waves,
                "l2_bytes": counted["tma_load_bytes"],
                "sm_bytes": waves * design.stages(shape) * design.stage_bytes(),
                "reduction_bytes": waves * design.reduction_bytes(),
                "tensor_cycles": waves * counted["tensor_cycles"] // counted["ctas"],
                "prologue_instructions": counted["prologue_instructions"],
                "epilogue_instructions": instructions,
                "store_sectors": counted["global_store_sectors"],
                "bounds_us": bounds,
                "binding": max(("memory", "L2 to SM", "shared", "tensor"), key=lambda resource: bounds[resource]),
                "predicted": predictor.predict(design, bounds, waves),
            }
    best = {shape: min(rows[shape], key=lambda name: rows[shape][name]["predicted"]["us"]) for shape in shapes}
    return {"rows": rows, "chosen": counts["chosen"], "best_by_model": best}


def totals(costs: dict[str, Any], names: dict[str, str]) -> dict[str, float]:
    """Geometric means of a choice of configurations: prediction, envelope, isolated call."""
    rows = [costs["rows"][shape][name]["predicted"] for shape, name in names.items()]
    return {key: geomean([row[key] for row in rows]) for key in ("us", "low_us", "high_us", "isolated_us")}


def hidden_for_target(costs: dict[str, Any], names: dict[str, str]) -> float:
    """Microseconds to hide from every call for the target's geometric mean, by bisection."""
    times = [costs["rows"][shape][name]["predicted"]["isolated_us"] for shape, name in names.items()]
    low, high = 0.0, min(times) - 0.1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if geomean([us - middle for us in times]) > TARGET_US else (low, middle)
    return high


def compute(counts: dict[str, Any], comparison: dict[str, Any]) -> dict[str, Any]:
    """The whole model."""
    shapes = list(comparison["median_us"]["auto"])
    medians = comparison["median_us"]
    gains = [(medians["auto+plain"][shape] - medians["auto"][shape]) / HOPPER_LAUNCHES for shape in shapes]
    published, fits = published_costs(shapes)
    predictor = Predictor(fits, gains)
    blackwell = blackwell_cost_model(counts["blackwell"], shapes, predictor)
    hopper = hopper_costs(counts["hopper"], medians["auto"])
    chosen, best = blackwell["chosen"], blackwell["best_by_model"]
    reduction_us, reduction_bytes = measured_reduction()
    hopper_fits = [hopper["fits"][name] for name in hopper["hypotheses"]]
    return rounded(
        {
            "format": "cost-model-1",
            "evidence": {"counts": "simulated", "published": "judged", "hopper": "measured:H200", "ours": "predicted"},
            "chips": {name: chip._asdict() for name, chip in CHIPS.items()},
            "pdl_gain_us": dict(zip(shapes, gains, strict=True)),
            "reduction": {"us": reduction_us, "bytes": reduction_bytes, "evidence": "measured:H200"},
            "speed_of_light_us": {shape: B200_SPEED_OF_LIGHT_US[(*parse_shape(shape), 1)] for shape in shapes},
            "memory_bytes": {shape: memory_bytes(parse_shape(shape)) for shape in shapes},
            "published": published,
            "hypotheses": list(predictor.fits),
            "blackwell": blackwell,
            "hopper": hopper,
            "geomean": {
                "chosen": totals(blackwell, chosen),
                "best_by_model": totals(blackwell, best),
                "published_best_us": geomean(list(PUBLISHED_US[PUBLISHED_BEST])),
                "hoped_us": geomean(
                    [min(row["predicted"]["hoped_us"] for row in rows.values()) for rows in blackwell["rows"].values()]
                ),
                "target_us": TARGET_US,
                "to_hide_for_target_us": hidden_for_target(blackwell, best),
            },
            "predictions": {
                "blackwell": {
                    shape: {
                        key: blackwell["rows"][shape][chosen[shape]]["predicted"][key]
                        for key in ("us", "low_us", "high_us")
                    }
                    | {"config": chosen[shape]}
                    for shape in shapes
                },
                "hopper": {
                    shape: {
                        "us": us,
                        "low_us": us * (1 - max(found["error"] for found in hopper_fits)),
                        "high_us": us * (1 + max(found["error"] for found in hopper_fits)),
                        "config": hopper["chosen"][shape],
                    }
                    for shape in shapes
                    for us in [
                        sum(medians["auto"][shape] * (1 + found["errors"][shape]) for found in hopper_fits)
                        / len(hopper_fits)
                    ]
                },
            },
        }
    )


def documents() -> dict[Path, str]:
    """Both files as the committed counts give them."""
    content = COUNTERS.read_bytes()
    costs = compute(json.loads(content), json.loads(MEASURED.read_text()))
    costs["counters_sha256"] = hashlib.sha256(content).hexdigest()
    return {RESULT: json.dumps(costs, indent=1) + "\n", TEXT: render(costs)}


def main(arguments: list[str]) -> int:
    """Writes the cost model, or says whether it is current."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.cost_model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    status = 0
    for path, text in documents().items():
        if not options.check:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            print(f"{path.relative_to(ROOT)} is not current; run python -m scripts.cost_model", file=sys.stderr)
            status = 1
    if not options.check:
        print(TEXT.read_text())
    return status
