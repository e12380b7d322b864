"""The history as one self-contained HTML page."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

from scripts.history import markdown, plots, variants
from scripts.history.data import by_commit, chip_of, shape_series
from scripts.history.style import CSS
from scripts.rounds import ledger
from scripts.rounds.check import noise_or_none
from scripts.rounds.model import Tank
from scripts.rounds.pages import round_page, tables
from scripts.rounds.pages.round_page import NO_DATA
from scripts.rounds.pages.words import diff_command, plain

Resolve = Callable[[str], str | None]


def resolver(repo_url: str | None, folder: str) -> Resolve:
    """Maps links of a Markdown file in `folder` (from the root) to the page: rounds by anchor, files by repository."""

    def resolve(target: str) -> str | None:
        if re.match(r"https?://", target):
            return target
        found = re.search(r"(?:^|/)(\d{4})-[a-z0-9-]+/round\.(?:md|json)", target)
        if found:
            return f"#round-{found[1]}"
        if target.startswith("round.json"):
            return f"#round-{folder.rsplit('/', 1)[-1][:4]}"
        if repo_url is None:
            return None
        parts = folder.split("/")
        for part in target.split("/"):
            parts = parts[:-1] if part == ".." else [*parts, part]
        return f"{repo_url}/blob/main/{'/'.join(parts)}"

    return resolve


def commit_text(commit: str | None, repo_url: str | None) -> str:
    """A commit in Markdown, linked if the repository's address is known."""
    if not commit:
        return NO_DATA
    return f"[{commit[:9]}]({repo_url}/commit/{commit})" if repo_url else f"`{commit[:9]}`"


VERDICTS = {"adopted": "kept", "rejected": "dropped", "inconclusive": "open", "blocked": "open", "superseded": "open"}


def coloured(text: str) -> str:
    """HTML of tables with verdicts in their colours: those that fill a cell or follow a candidate."""
    words = "|".join(VERDICTS)

    def span(match: re.Match[str]) -> str:
        return f'{match[1]}<span class="{VERDICTS[match[3]]}">{match[2]}</span>'

    whole_cell = re.sub(rf"(<td[^>]*><div>)(({words})[^<;:]*)(?=</div></td>)", span, text)
    return re.sub(rf"(candidate of \d{{4}}: )(({words}))", span, whole_cell)


def _diff(data: dict[str, Any], repo_url: str | None) -> str:
    """A link to the round's change if the repository's address is known; the text has the command."""
    base, candidate = (data[side]["commit"] for side in ("base", "candidate"))
    if not repo_url or not diff_command(data):
        return ""
    return f" Difference: [{base[:9]}...{candidate[:9]}]({repo_url}/compare/{base}...{candidate})."


def _tiles(tank: Tank, rounds: list[dict[str, Any]]) -> str:
    ours = [r for r in rounds if "inherited" not in r]
    counts = {
        "rounds of our own": len(ours),
        "measured on a chip": sum(r["measurement"] is not None for r in ours),
        "inherited": len(rounds) - len(ours),
    }
    tiles = [(str(count), label) for label, count in counts.items()]
    head = ledger.headline(tank)
    if head:
        tiles.insert(0, (f"{head['us']:.1f} us", f"geometric mean now, {head['chip']}"))
        if head["of_cublas"]:
            label = tables.targets(tank)["hopper"]["baselines"]["cublas_one_gemm"]
            tiles.insert(1, (f"{head['of_cublas']:.2f}", f"of the time of {label}"))
    found = ledger.load(tank)
    if found:
        tiles.insert(0, (f"{found.first_us:.1f} us", f"{found.first_words}"))
    return "".join(f'<div class="tile"><b>{html.escape(v)}</b>{html.escape(label)}</div>' for v, label in tiles)


def _key(series: list) -> str:
    """The legend as HTML, so that it wraps on a phone."""
    items = []
    for handle in plots.legend_handles(series):
        color, marker, label = handle.get_color(), handle.get_marker(), html.escape(handle.get_label())
        if marker == "x":
            mark = f'<path d="M11 1l8 8m0-8l-8 8" stroke="{color}" stroke-width="2"/>'
        elif marker == "o":
            mark = f'<circle cx="15" cy="5" r="4" fill="{color}"/>'
        elif marker in ("s", "D"):
            turned = ' transform="rotate(45 15 5)"' if marker == "D" else ""
            mark = f'<path d="M11.5 1.5h7v7h-7z" fill="{color}"{turned}/>'
        else:
            dash = ' stroke-dasharray="6 4"' if handle.get_linestyle() == "--" else ""
            mark = f'<path d="M0 5h30" stroke="{color}" stroke-width="2.5"{dash}/>'
        items.append(f'<li><svg viewBox="0 0 30 10" aria-hidden="true">{mark}</svg>{label}</li>')
    return f'<ul class="key">{"".join(items)}</ul>'


def page(tank: Tank, repo_url: str | None, commit: str | None) -> str:
    """The whole page; `repo_url` is the repository's web address, for links, or None."""
    rounds = tank.all()
    resolve = resolver(repo_url, "shark_tank")

    def html_of(text: str) -> str:
        return markdown.render(text, resolve)

    series = shape_series(tank, rounds)
    chip = chip_of(rounds)
    index = "".join(
        f"<h3>{html.escape(title)}</h3>{coloured(html_of(tables.progress_table(members)))}"
        for title, members in tables.chapters(rounds)
    )
    shape_plots = "".join(
        "<figure>" + plots.svg(plots.shape_figure(one), f"s{i}", f"time by round, {one.shape}, {chip}") + "</figure>"
        for i, one in enumerate(series)
    )
    prediction = "".join(
        "<figure>" + plots.svg(figure, f"p{i}", "predicted and measured ratio by round") + "</figure>"
        for i, figure in enumerate(plots.prediction_figures(by_commit(tank, rounds)))
    )
    steps = ledger.load(tank)
    waterfall = (
        f"<figure class='one'>{plots.svg(plots.ledger_figure(steps), 'l', 'time by step')}</figure>" if steps else ""
    )
    runs = "".join(
        f"<h3>Run {html.escape(run)}</h3><p>{html.escape(sentence)}</p>{coloured(html_of(text))}"
        for run, sentence, text in variants.run_tables(tank, rounds, repo_url)
    )
    details = []
    for data in rounds:
        folder = round_page.round_id(data)
        text = round_page.whole_page(
            data, (tank.rounds_dir / folder / "round.md").read_text(), noise_or_none(tank, data)
        )
        text = re.sub(r"\A# .*\n", "", text)
        body = markdown.render(text, resolver(repo_url, f"shark_tank/rounds/{folder}"), shift=2)
        commits = ""
        if data["measurement"]:
            ahead = data["measurement"]["prediction_commit"]
            pairs = [("prediction", ahead)] if ahead else []
            pairs += [(side, data[side]["commit"]) for side in ("base", "candidate")]
            named = ", ".join(f"{name} {commit_text(commit, repo_url)}" for name, commit in pairs)
            commits = html_of(f"Commits: {named}." + _diff(data, repo_url))
        state = VERDICTS.get(data["state"], "")
        title = (
            f"{data['number']:04d} {html.escape(data['title'])} "
            f'(<span class="{state}">{html.escape(round_page.state_text(data))}</span>)'
            f'<span class="short">{html.escape(plain(data))}</span>'
        )
        details.append(  # The anchor is inside, so that following a link to it opens the round.
            f'<details><summary>{title}</summary><div id="round-{data["number"]:04d}">{commits}{coloured(body)}</div>'
            "</details>"
        )
    at = f"Generated from commit {commit_text(commit, repo_url)}. " if commit else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>NVFP4 dual GEMM: history of the optimisation rounds</title>
<link rel="icon" href="data:,">
<style>{CSS}</style>
</head>
<body>
<h1>NVFP4 dual GEMM: history of the optimisation rounds</h1>
<p>Every idea that was meant to make the kernel faster, with its prediction, its measurement and its verdict by a rule
fixed in advance. Ratios are candidate time / base time: below 1 is faster.</p>
<div class="tiles">{_tiles(tank, rounds)}</div>
<nav><a href="#ledger">Step by step</a><a href="#times">Times</a><a href="#predictions">Predictions</a>
<a href="#rounds">Rounds</a>
<a href="#failures">What did not work</a><a href="#shapes">Per shape</a><a href="#variants">All variants</a>
<a href="#calibration">Calibration</a><a href="#learnings">Learnings</a><a href="#details">Round by round</a></nav>
<h2 id="ledger">From the first right kernel to now</h2>
<p>Each step is a round that was kept, in the order of its commits. Within a row both times are of one run, so that the
ratio holds; "since the step before" is the ratio between the runs of two rounds.</p>
{waterfall}
{html_of(ledger.ledger_table(tank))}
<h2 id="times">Time per call by round, {html.escape(chip)}</h2>
<p>Rounds in the order of the commits that they measured. A mark is the candidate's time; the line is the kernel that
stood. A kept round off the line measured a feature that the kernel already had, or a tile chosen later.</p>
<div class="plots">{shape_plots}</div>
{_key(series)}
<h2 id="predictions">Prediction against measurement</h2>
<p>Grey: the predicted ratio. A dot is the measured one, in the colour of the verdict.</p>
<div class="plots">{prediction}</div>
<h2 id="rounds">Rounds</h2>
{index}
<h2 id="failures">What did not work</h2>
{html_of(tables.failures_table(rounds))}
<h2 id="shapes">Per shape, against the floor and the baselines</h2>
{html_of(tables.shapes_table(tank, rounds))}
<h2 id="variants">All variants, losers included</h2>
<p>A variant is a build of the library with its settings: <code>base/auto</code> is the library before the change, with
its own choice of tile, <code>auto</code> the library after it; a name like <code>f64x128</code> forces one tile.</p>
{runs or "<p>No variant has been measured yet.</p>"}
<h2 id="calibration">Calibration of the predictions</h2>
{html_of(tables.calibration_table(rounds))}
<h2 id="learnings">Learnings</h2>
{html_of(re.sub(r"^# .*", "", (tank.dir / "LEARNINGS.md").read_text()))}
<h2 id="details">Round by round</h2>
{"".join(details)}
<p class="soft">{markdown.inline(at, resolve)}Raw samples, environments and the check that recomputes every
figure are in the repository under shark_tank/.</p>
</body>
</html>
"""
