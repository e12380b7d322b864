"""A round's page: the generated blocks of round.md, and the whole page with its tables."""

from __future__ import annotations

import math
import re
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from scripts.rounds import modelled
from scripts.rounds.model import SECTIONS, UNWRITTEN, VIEWPOINTS, RoundError
from scripts.rounds.pages.words import plain, what_changed
from scripts.rounds.stats import noise_band, shape_key
from simulator.python.markdown import table

NO_DATA = "-"
_PROMPTS = {
    "Pitch": "the idea and its arithmetic: which bytes, cycles or launches it saves, out of how many.",
    "Hypothesis": "because X, resource Y falls from a to b.",
    "Feasibility": "does it assemble, does it fit: registers, shared memory, barriers, hardware limits.",
    "Objections": "one question that a number can answer from each viewpoint:\n\n"
    "- Performance: \n- Practicality: \n- Theory: ",
    "Cost": "lines changed, registers, shared memory; `rounds finish` takes the numbers.",
    "What would reopen it": "the change of circumstances under which this is worth another round; "
    "`rounds finish` takes the short form.",
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
    """The state as tables show it: how an unmeasured round was adopted, its successor, code that stays."""
    if data["state"] == "superseded":
        by = f" by {data['superseded_by']:04d}" if "superseded_by" in data else ""
        return f"superseded{by}"
    if data["state"] == "adopted" and data["measurement"] is None and "inherited" not in data:
        return "adopted (by the clock)" if "model" in data else "adopted (unmeasured)"
    return f"{data['state']}, code kept" if "kept_although" in data else data["state"]


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


def predicted_text(data: dict[str, Any]) -> str:
    found = predicted_geomean(data)
    return interval_text(*found) if found else NO_DATA


def measured_text(data: dict[str, Any]) -> str:
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
            parts.append(f"{UNWRITTEN}: after the measurement, the lesson; figures as links into round.json.")
        elif section in _PROMPTS:
            parts.append(f"{UNWRITTEN}: {_PROMPTS[section]}")
    return render_round_md(data, "\n\n".join(parts) + "\n", "new round.md")


def page_text(folder: Path, data: dict[str, Any]) -> str:
    """round.md, or what round.json says of a lost round whose text is in git alone."""
    if "page" not in data:
        return (folder / "round.md").read_text()
    why, reopen = (f"{text[:1].upper()}{text[1:]}." for text in (data["verdict"]["why"], data["reopen_if"]))
    return (
        f"# Round {data['number']:04d}: {data['title']}\n\n{_status(data)}\n\n## Verdict\n\n{_verdict(data)}\n\n"
        f"{why}\n\n## What would reopen it\n\n{reopen}\n\n"
        f"Pitch and objections: `git show {data['page']}:shark_tank/rounds/{folder.name}/round.md`.\n"
    )


def render_round_md(data: dict[str, Any], text: str, where: str) -> str:
    """round.md with its generated block brought up to date."""
    return put_block(text, "status", _outcome(data), where)


def whole_page(data: dict[str, Any], text: str, noise: dict[str, Any] | None = None) -> str:
    """round.md with what round.json has besides: status, tables of prediction and measurement, the rule's verdict.

    `noise` is the measurement of the rule's A/A round.
    """
    if "page" not in data:
        text = put_block(text, "status", _status(data), round_id(data))
        text = text.replace("## Verdict\n", f"## Verdict\n\n{_verdict(data)}\n", 1)
    tables = {
        "Verdict": f"## Measurement\n\n{_measurement(data, noise)}",
        "Objections" if "page" not in data else "Measurement": f"## Prediction\n\n{_prediction(data)}",
    }
    for section, content in tables.items():
        text = text.replace(f"## {section}\n", f"{content}\n\n## {section}\n", 1)
    if "judged_again" in data:
        text = text.replace("## Cost\n", f"{modelled.again_table(data)}\n\n## Cost\n", 1)
    return text


def _outcome(data: dict[str, Any]) -> str:
    """What a reader of round.md sees first: the outcome in words, the state, and the ratio."""
    found = "measured" if data["measurement"] else "published" if "inherited" in data else "found"
    ratios = [("predicted", predicted_text(data)), (found, measured_text(data))]
    known = ", ".join(f"{name} {text}" for name, text in ratios if text != NO_DATA)
    ratio = f" Ratio of times over all shapes: {known}." if known else ""
    origin = ", by others" if "inherited" in data else ""
    origin = ", reconstructed from git and measured later" if "reconstructed" in data else origin
    state = f"**{state_text(data)}**{origin}"
    shown = f"All figures: `./nvfp4 rounds show {data['number']}`."
    return f"**{plain(data)}** {what_changed(data)}".strip() + f"\nState: {state}.{ratio} {shown}"


def _status(data: dict[str, Any]) -> str:
    def side(name: str) -> str:
        commit = data[name]["commit"]
        return f"`{data[name]['variant']}`" + (f" at {commit[:9]}" if commit else "")

    parent = f"{data['parent']:04d}" if data["parent"] else "none"
    lines = [
        _outcome(data),
        f"Evidence: {data['evidence']}. Backend: {data['backend']}. Parent: {parent}.",
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
        return (
            "Counts of one simulated call, which are no times: those that the verdict quotes are in round.json, all in "
            f"git (`git ls-tree 6fd25e8b shark_tank/runs/`). Prediction committed in "
            f"{data['simulation']['prediction_commit'][:9]}."
        )
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
        ["geomean", f"{mean['base_us']:.2f}", f"{mean['candidate_us']:.2f}", estimate_text(mean), predicted_text(data)]
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
