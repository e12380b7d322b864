"""What a bring-up found, by its steps' samples: medians, tiles beside the library's choice, the clock's predictions."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from eval.output.report import print_table
from eval.stats import relative_spread
from scripts.bring_up.steps import PASSED
from simulator.calibration.calls.board_times import means, span

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "shark_tank" / "bring_up.schema.json"
COST_MODEL = ROOT / "simulator" / "calibration" / "data" / "blackwell_calls.json"
ON_THE_CLOCK = {"dual_gemm": "dual", "group_gemm": "grouped", "gemm": "gemm"}  # problems of the simulated B200
SHOWN_FAILURES = 5  # of a check
SHOWN_TILES = 3  # the fastest at a shape


def shape_key(shape: list[int | str]) -> str:
    """A shape as compare.py's options write it."""
    return "x".join(map(str, shape))


def times_of(step: str, problem: str, samples: Path, left_out: dict[str, str]) -> list[dict[str, Any]]:
    """A step's samples by shape and variant, and the variants without samples."""
    found: dict[tuple[str, str], list[float]] = {}
    for line in samples.read_text().splitlines() if samples.is_file() else []:
        sample = json.loads(line)
        found.setdefault((shape_key(sample["shape"]), sample["variant"]), []).append(round(sample["us"], 3))
    entries = []
    for (shape, variant), us in found.items():
        spread = round(relative_spread(us), 5) if len(us) > 1 else 0.0
        measured = {"median_us": round(median(us), 3), "spread": spread, "samples_us": us, "left_out": ""}
        entries.append({"step": step, "problem": problem, "shape": shape, "variant": variant, **measured})
    for variant, reason in left_out.items():
        nothing = {"median_us": None, "spread": None, "samples_us": [], "left_out": reason}
        entries.append({"step": step, "problem": problem, "shape": "", "variant": variant, **nothing})
    return entries


def against_cost_model(times: list[dict[str, Any]], backend: str) -> list[dict[str, Any]]:
    """Compares the library's choice and every tile with its predicted interval, at each predicted shape."""
    try:
        predicted = json.loads(COST_MODEL.read_text())["predictions"].get(backend, {})
    except (OSError, ValueError, KeyError):
        return []
    rows = []
    for entry in times:
        found = predicted.get(entry["shape"], {}) if entry["problem"] == "dual_gemm" else {}
        tiles = {"auto": found["us"]} | found.get("tiles_us", {}) if found else {}
        if entry["median_us"] and entry["variant"] in tiles:
            us, expected = entry["median_us"], tiles[entry["variant"]]
            low, high = (round(expected * found[end] / found["us"], 3) for end in ("low_us", "high_us"))
            rows.append(
                {
                    "shape": entry["shape"],
                    "variant": entry["variant"],
                    "measured_us": us,
                    "predicted_us": expected,
                    "low_us": low,
                    "high_us": high,
                    "inside": low <= us <= high,
                    "measured_over_predicted": round(us / expected, 4),
                }
            )
    return rows


def schema_problems(report: dict[str, Any]) -> list[str] | None:
    """Violations of the report's schema; None without jsonschema."""
    try:
        import jsonschema
    except ImportError:
        return None
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(report)]


def mean_rows(times: list[dict[str, Any]], backend: str) -> list[list[str]]:
    """A row for each problem's variant: geometric mean over the shapes, ours over it; on a B200 what was simulated."""
    rows = []
    for problem in dict.fromkeys(entry["problem"] for entry in times):
        of_problem = [entry for entry in times if entry["step"] == f"time {problem}" and entry["problem"] == problem]
        by: dict[str, dict[str, float]] = {}
        for entry in of_problem:
            if entry["median_us"]:
                by.setdefault(entry["variant"], {})[entry["shape"]] = entry["median_us"]
        ours = by.get("auto", {})
        for variant, us in sorted(by.items(), key=lambda item: (item[0] != "auto", item[0])):
            ratio = geometric_mean(ours.values()) / geometric_mean(us.values()) if us.keys() == ours.keys() else None
            figures = [f"{one:.1f}" for one in us.values()]
            rows.append([problem, variant, ", ".join(figures), f"{geometric_mean(us.values()):.2f}"])
            rows[-1].append("-" if ratio is None else f"{ratio:.3f}")
        if ours and backend == "blackwell" and problem in ON_THE_CLOCK:
            mean = geometric_mean(ours.values())
            simulated = means(ON_THE_CLOCK[problem])
            found = [mean / us for us in simulated.ours]
            rows.append([problem, "simulated before", "", span(simulated.ours, 2), span(found, 3)])
            rows.append([problem, "best published, B200", "", f"{simulated.published:.2f}"])
            rows[-1].append(f"{mean / simulated.published:.3f}")
    return rows


def tile_rows(times: list[dict[str, Any]], predictions: list[dict[str, Any]]) -> list[list[str]]:
    """A row for each shape whose tiles were timed: the fastest ones, the library's choice, the clock's best tile."""
    rows = []
    of_tiles = [entry for entry in times if entry["step"].startswith("tiles ") and entry["median_us"]]
    for problem, shape in dict.fromkeys((entry["problem"], entry["shape"]) for entry in of_tiles):
        us = {e["variant"]: e["median_us"] for e in of_tiles if (e["problem"], e["shape"]) == (problem, shape)}
        tiles = sorted((time, name) for name, time in us.items() if name != "auto")
        if "auto" not in us or not tiles:
            continue
        clock = [row for row in predictions if (row["shape"], problem) == (shape, "dual_gemm")]
        best = min(
            (row for row in clock if row["variant"] != "auto"), key=lambda row: row["predicted_us"], default=None
        )
        fastest = ", ".join(f"{name} {time:.1f}" for time, name in tiles[:SHOWN_TILES])
        of_clock = f"{best['variant']} {best['predicted_us']:.1f}" if best else ""
        rows.append([f"{problem} {shape}", fastest, f"{us['auto']:.1f}", f"{us['auto'] / tiles[0][0]:.3f}", of_clock])
    return rows


def print_report(report: dict[str, Any]) -> None:
    """Prints a summary for a person."""
    rows = []
    for step in report["steps"]:
        said = step["log_tail"].strip().splitlines()[-1:] if step["outcome"] != PASSED else []
        rows.append([step["name"], step["outcome"], f"{step['seconds']:.1f}", *(line[:60] for line in said or [""])])
    print_table(f"bring-up, {report['backend']} backend, {report['mode']}", ["step", "outcome", "s", "last line"], rows)
    dry = " (dry run: without meaning)" * (report["mode"] == "dry")
    if rows := mean_rows(report["times"], "" if dry else report["backend"]):
        head = ["problem", "variant", "us a call by shape", "mean", "ours / it"]
        print_table(f"the benchmarks: medians of interleaved rounds{dry}", head, rows)
    if rows := tile_rows(report["times"], report["against_cost_model"]):
        head = ["shape", "fastest tiles, us", "chosen, us", "chosen / fastest", "the clock's best, us"]
        print_table(f"the tiles{dry}", head, rows)
    if rows := report["against_cost_model"]:
        inside = sum(row["inside"] for row in rows)
        ratio = geometric_mean(row["measured_over_predicted"] for row in rows)
        print(
            f"{inside} of {len(rows)} times are in the clock's interval; measured / predicted {ratio:.3f} in the mean"
        )
    for check in report["checks"]:
        for failure in check["failures"][:SHOWN_FAILURES]:
            print(f"FAIL {check['step']}: {failure}")
