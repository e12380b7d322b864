"""Generated text of the record: blocks of round.md, a round's whole page, and the tables of shark_tank/README.md."""

from __future__ import annotations

import json
import math
import re
from statistics import geometric_mean, median
from typing import Any

from scripts.common.markdown import table
from scripts.rounds.ledger import record_table
from scripts.rounds.model import SECTIONS, TODO, VIEWPOINTS, RoundError, Tank
from scripts.rounds.simulated import modelled, simulation
from scripts.rounds.stats import noise_band, shape_key
from scripts.rounds.words import plain, what_changed

NO_DATA = "-"
_PROMPTS = {
    "Pitch": "the idea and its arithmetic: which bytes, cycles or launches it saves, out of how many.",
    "Hypothesis": "because X, resource Y falls from a to b.",
    "Feasibility": "does it assemble, does it fit: registers, shared memory, barriers, hardware limits.",
    "Objections": "one question that a number can answer from each viewpoint:\n\n"
    "- Performance: \n- Practicality: \n- Theory: ",
    "Cost": "lines changed, registers, shared memory; the same in round.json under `cost`.",
    "What would reopen it": "the change of circumstances under which this is worth another round; the short form "
    "goes to `reopen_if` in round.json.",
}


# --- blocks -------------------------------------------------------------------------------------------
def block(name: str, content: str) -> str:
    """A generated block with its markers."""
    return f"<!-- generated:{name} -->\n{content.strip()}\n<!-- /generated:{name} -->"


def put_block(text: str, name: str, content: str, where: str) -> str:
    """Replace one generated block; RoundError when its markers are not there exactly once."""
    pattern = re.compile(rf"<!-- generated:{name} -->.*?<!-- /generated:{name} -->", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise RoundError(f"{where}: expected the markers <!-- generated:{name} --> ... <!-- /generated:{name} --> once")
    return pattern.sub(lambda _: block(name, content), text)


# --- words --------------------------------------------------------------------------------------------
def round_id(data: dict[str, Any]) -> str:
    """Folder name of a round."""
    return f"{data['number']:04d}-{data['slug']}"


def state_text(data: dict[str, Any]) -> str:
    """The state as tables show it, with the kind of an unmeasured adoption and the successor of a superseded round."""
    if data["state"] == "superseded":
        by = f" by {data['superseded_by']:04d}" if "superseded_by" in data else ""
        return f"superseded{by}"
    if data["state"] == "adopted" and data["measurement"] is None and "inherited" not in data:
        return "adopted (by the clock)" if "model" in data else "adopted (unmeasured)"
    return data["state"]


def verdict_state(data: dict[str, Any]) -> str | None:
    """The verdict before any superseding."""
    return data["verdict"]["state"] if data["verdict"] else None


def interval_text(low: float, high: float) -> str:
    """An interval of ratios."""
    return f"{low:.3f} to {high:.3f}"


def estimate_text(estimate: dict[str, float]) -> str:
    """A ratio with its interval."""
    return f"{estimate['ratio']:.4f} [{estimate['low']:.4f}, {estimate['high']:.4f}]"


def predicted_geomean(data: dict[str, Any]) -> tuple[float, float] | None:
    """Geometric means of the low and of the high ends of the predicted intervals."""
    if "inherited" in data:
        found = data["inherited"].get("predicted")
        return (found[0], found[1]) if found else None
    if not data["prediction"] or not data["prediction"]["shapes"]:
        return None
    intervals = data["prediction"]["shapes"].values()
    return geometric_mean(low for low, _ in intervals), geometric_mean(high for _, high in intervals)


def inherited_ratio(data: dict[str, Any]) -> float | None:
    """Geometric mean of the published after / before times of an inherited round."""
    figures = data.get("inherited", {}).get("figures")
    return geometric_mean(f["after_us"] / f["before_us"] for f in figures) if figures else None


def _predicted_text(data: dict[str, Any]) -> str:
    found = predicted_geomean(data)
    return interval_text(*found) if found else NO_DATA


def _measured_text(data: dict[str, Any]) -> str:
    if data["measurement"]:
        return estimate_text(data["measurement"]["geomean"])
    if "model" in data:
        return f"{data['model']['geomean']:.4f} (simulated)"
    ratio = inherited_ratio(data)
    return f"{ratio:.3f}" if ratio else NO_DATA


# --- round.md -----------------------------------------------------------------------------------------
def new_round_md(data: dict[str, Any]) -> str:
    """round.md of a draft: every section with a prompt."""
    parts = [f"# Round {data['number']:04d}: {data['title']}", block("status", "")]
    for section in SECTIONS:
        parts.append(f"## {section}")
        if section == "Verdict":
            parts.append(block("verdict", ""))
            parts.append(f"{TODO}: after the measurement, the lesson; figures as links into round.json.")
        elif section in _PROMPTS:
            parts.append(f"{TODO}: {_PROMPTS[section]}")
    return render_round_md(data, "\n\n".join(parts) + "\n", "new round.md")


def render_round_md(data: dict[str, Any], text: str, where: str) -> str:
    """round.md with its generated blocks brought up to date."""
    for name, content in (("status", _status(data)), ("verdict", _verdict(data))):
        text = put_block(text, name, content, where)
    return text


def whole_page(data: dict[str, Any], text: str, noise: dict[str, Any] | None = None) -> str:
    """round.md with the tables of prediction and measurement, which are not committed.

    `noise` is the measurement of the rule's A/A round.
    """
    tables = {
        "Objections": f"## Prediction\n\n{_prediction(data)}",
        "Verdict": f"## Measurement\n\n{_measurement(data, noise)}",
    }
    for section, content in tables.items():
        text = text.replace(f"## {section}\n", f"{content}\n\n## {section}\n", 1)
    if "judged_again" in data:
        text = text.replace("## Cost\n", f"{modelled.again_table(data)}\n\n## Cost\n", 1)
    return text


def _status(data: dict[str, Any]) -> str:
    def side(name: str) -> str:
        commit = data[name]["commit"]
        return f"`{data[name]['variant']}`" + (f" at {commit[:9]}" if commit else "")

    parent = f"{data['parent']:04d}" if data["parent"] else "none"
    lines = [
        f"**{plain(data)}** {what_changed(data)}".strip(),
        f"State: **{state_text(data)}**. Evidence: {data['evidence']}. Backend: {data['backend']}. Parent: {parent}.",
    ]
    if "inherited" in data:
        lines.append(
            f"**Inherited**: the figures are those published at <{data['inherited']['source']}>; nothing here was "
            "measured by this project."
        )
    else:
        lines.append(f"Base: {side('base')}. Candidate: {side('candidate')}. Rule: {data['rule']['name']}.")
    if "reconstructed" in data:
        made = data["reconstructed"]
        lines.append(f"**Reconstructed from git, measured later**: {made['from'][:9]} made the change. {made['why']}")
    return "\n".join(lines)


def _prediction(data: dict[str, Any]) -> str:
    if "inherited" in data:
        found = predicted_geomean(data)
        return (
            f"Published expectation, as candidate time / base time: {interval_text(*found)}."
            if found
            else "No published expectation in figures."
        )
    if "reconstructed" in data:
        return "None: written down after the fact, when the outcome was known. It counts in no calibration."
    prediction = data["prediction"]
    if not prediction:
        return "None yet."
    shapes = sorted(prediction["shapes"], key=shape_key)
    rows = [[s.replace("x", " "), interval_text(*prediction["shapes"][s])] for s in shapes]
    views = [
        [name, f"{prediction['viewpoints'][name]['ratio']:.3f}", prediction["viewpoints"][name]["because"]]
        for name in VIEWPOINTS
        if name in prediction["viewpoints"]
    ]
    return (
        "Ratio of times, candidate / base; below 1 is faster.\n\n"
        + table(["M N K", "predicted ratio"], rows, 1)
        + "\n\n"
        + table(["viewpoint", "predicted geomean", "because"], views)
    )


def _measurement(data: dict[str, Any], noise: dict[str, Any] | None) -> str:
    if "inherited" in data:
        figures = data["inherited"].get("figures", [])
        if not figures:
            return "No times were published."
        rows = [
            [f["case"], f"{f['before_us']:g}", f"{f['after_us']:g}", f"{f['after_us'] / f['before_us']:.3f}"]
            for f in figures
        ]
        rows.append(["geomean", "", "", f"{inherited_ratio(data):.3f}"])
        return table(["case (inherited)", "before, us", "after, us", "ratio"], rows, 3)
    found = data["measurement"]
    if "simulation" in data:
        return simulation.block(data)
    if "model" in data:
        return modelled.block(data)
    if not found:
        return "None yet."
    predicted = data["prediction"]["shapes"] if data["prediction"] else {}
    rows = []
    for shape in sorted(found["shapes"], key=shape_key):
        entry = found["shapes"][shape]
        low, high = predicted.get(shape, (math.nan, math.nan))
        hit = "inside" if low <= entry["ratio"] <= high else "outside"
        rows.append(
            [
                shape.replace("x", " "),
                f"{entry['base_us']:.2f}",
                f"{entry['candidate_us']:.2f}",
                estimate_text(entry),
                f"{interval_text(low, high)}, {hit}" if shape in predicted else NO_DATA,
            ]
        )
    mean = found["geomean"]
    rows.append(
        ["geomean", f"{mean['base_us']:.2f}", f"{mean['candidate_us']:.2f}", estimate_text(mean), _predicted_text(data)]
    )
    band = f" Noise floor: {noise_band(noise)[0]:.4f} to {noise_band(noise)[1]:.4f}." if noise else ""
    ahead = f" Prediction committed in {found['prediction_commit'][:9]}." if found["prediction_commit"] else ""
    return (
        f"{found['chip']}, run [{found['run']}](../../runs/{found['run']}.jsonl.gz), medians of "
        f"{min(e['samples'] for e in found['shapes'].values())} interleaved repeats, 95 % bootstrap intervals "
        f"({found['draws']} draws).{ahead}{band}\n\n"
        + table(["M N K", "base, us", "candidate, us", "ratio", "predicted"], rows, 4)
    )


def _verdict(data: dict[str, Any]) -> str:
    if not data["verdict"]:
        return "None yet."
    text = f"**{state_text(data)}**: {data['verdict']['reason']}."
    return text + ("\n\n" + modelled.again_text(data) if "judged_again" in data else "")


# --- README tables --------------------------------------------------------------------------------------
def targets(tank: Tank) -> dict[str, Any]:
    """shark_tank/targets.json: floors, baselines and published entries by backend."""
    return json.loads((tank.dir / "targets.json").read_text())


def readme_blocks(tank: Tank, base: str = "") -> dict[str, str]:
    """Content of the generated tables; `base` is the path prefix of links."""
    rounds = tank.all()
    return {
        "record": record_table(tank, base),
        "rounds": rounds_index(rounds, base),
        "calibration": calibration_table(rounds),
    }


def _link(data: dict[str, Any], base: str) -> str:
    return f"[{data['number']:04d}]({base}rounds/{round_id(data)}/round.md)"


_BACKENDS = {"hopper": "Hopper", "blackwell": "Blackwell", "geforce": "GeForce", "cpu": "CPU"}


def chapter(data: dict[str, Any]) -> str:
    """The chapter of the record that a round belongs to: its backend and its shapes."""
    if "inherited" in data:
        return "Published by others before this project"
    shapes = data.get("shapes", [])
    kind = "grouped GEMM" if "," in "".join(shapes) else "dual GEMM at other shapes" if shapes else "dual GEMM"
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


def rounds_index(rounds: list[dict[str, Any]], base: str = "") -> str:
    """All rounds in a line each, folded by chapter."""
    parts = []
    for title, members in chapters(rounds):
        kept = sum(data["state"] == "adopted" for data in members)
        rows = [[_link(data, base), data["title"], _short_ratio(data), state_text(data)] for data in members]
        parts.append(
            f"<details><summary>{title}: {len(members)} rounds, {kept} adopted</summary>\n\n"
            + table(["round", "idea", "ratio", "state"], rows)
            + "\n\n</details>"
        )
    return "\n\n".join(parts)


def progress_table(rounds: list[dict[str, Any]], base: str = "") -> str:
    """Every round: prediction, measurement, verdict, evidence."""
    rows = [
        [_link(r, base), r["title"], r["backend"], _predicted_text(r), _measured_text(r), state_text(r), r["evidence"]]
        for r in rounds
    ]
    return table(["round", "idea", "backend", "predicted", "measured ratio", "state", "evidence"], rows)


def failures_table(rounds: list[dict[str, Any]], base: str = "") -> str:
    """Rounds that were rejected, inconclusive or blocked, superseded since or not."""
    failed = [r for r in rounds if verdict_state(r) in ("rejected", "inconclusive", "blocked")]
    if not failed:
        return "None yet."
    rows = [
        [
            _link(r, base),
            r["title"] + (" (inherited)" if "inherited" in r else ""),
            _predicted_text(r),
            _measured_text(r),
            r["verdict"]["why"],
            r["reopen_if"],
        ]
        for r in failed
    ]
    return table(["round", "idea", "predicted", "measured", "why", "reopen if"], rows)


def current_best(rounds: list[dict[str, Any]], backend: str) -> dict[str, Any] | None:
    """The fastest adopted round at the benchmark's shapes that is not superseded; the A/A round before there is one."""
    standing = [r for r in rounds if r["backend"] == backend and r["measurement"] and r["state"] == "adopted"]
    standing = [r for r in standing if "shapes" not in r]
    changes = [r for r in standing if r["kind"] == "change"]
    return min(changes or standing, key=lambda r: r["measurement"]["geomean"]["candidate_us"], default=None)


def run_medians(tank: Tank, run: str) -> dict[str, dict[str, float]]:
    """Median us of every variant of a run: variant -> shape -> us."""
    medians: dict[str, dict[str, float]] = {}
    for shape, variants in tank.samples(run).items():
        for variant, repeats in variants.items():
            medians.setdefault(variant, {})[shape] = median(repeats.values())
    return medians


def latest_baselines(tank: Tank, rounds: list[dict[str, Any]], backend: str) -> dict[str, dict[str, float]]:
    """Medians of each baseline named in targets.json, from the latest run that timed it."""
    names = targets(tank)[backend]["baselines"]
    found: dict[str, dict[str, float]] = {}
    for data in rounds:
        if data["backend"] == backend and data["measurement"]:
            medians = run_medians(tank, data["measurement"]["run"])
            found.update({name: medians[name] for name in names if name in medians})
    return found


def shapes_table(tank: Tank, rounds: list[dict[str, Any]]) -> str:
    """Per backend and shape, us: the present kernel, the floor and the baselines."""
    parts = []
    for backend, target in targets(tank).items():
        shapes = list(target["floor"]["us"])
        best = current_best(rounds, backend)
        rows = []

        def add(label: str, times: dict[str, float], evidence: str, rows: list = rows, shapes: list = shapes) -> None:
            cells = [f"{times[s]:g}" if s in times else NO_DATA for s in shapes]
            whole = all(s in times for s in shapes)
            mean = f"{geometric_mean(times[s] for s in shapes):.2f}" if whole else NO_DATA
            rows.append([label, evidence, *cells, mean])

        add(target["floor"]["label"], target["floor"]["us"], target["floor"]["evidence"])
        if best:
            times = {s: round(e["candidate_us"], 2) for s, e in best["measurement"]["shapes"].items()}
            add(f"ours, round {best['number']:04d} (`{best['candidate']['variant']}`)", times, best["evidence"])
        else:
            add("ours", {}, "not measured yet")
        for name, times in latest_baselines(tank, rounds, backend).items():
            rounded = {s: round(us, 2) for s, us in times.items()}
            add(target["baselines"][name], rounded, f"measured:{best['measurement']['chip']}" if best else "measured")
        for entry in target.get("published", []):
            add(entry["label"], entry["us"], entry["evidence"])
        head = [f"{backend}, us", "evidence", *(s.replace("x", " ") for s in shapes), "geomean"]
        parts.append(table(head, rows, len(shapes) + 1) + f"\n\nFloor: {target['floor']['source']}")
    return "\n\n".join(parts)


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
