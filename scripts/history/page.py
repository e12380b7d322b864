"""The history as one self-contained HTML page."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from statistics import geometric_mean
from typing import Any

from scripts.common.markdown import table
from scripts.history import markdown, plots
from scripts.history.data import chip_of, shape_series
from scripts.rounds import render
from scripts.rounds.model import Tank
from scripts.rounds.render import NO_DATA

CSS = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2128; --soft: #57606a; --line: #d4d9df; --card: #f5f7f9;
  --link: #0b5fc4; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0f1318; --ink: #e4e8ed; --soft: #a3adb8; --line: #323a44; --card: #191f26; --link: #7db4ff; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 68rem; padding: 1rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem; }
h3, h4, h5 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
p, li { max-width: 46rem; overflow-wrap: anywhere; }
a { color: var(--link); }
.soft, figcaption { color: var(--soft); font-size: .875rem; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; margin: .8rem 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .7rem; padding: 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; }
.tile b { display: block; font-size: 1.4rem; line-height: 1.3; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: .7rem; }
figure { margin: .6rem 0; }
figure svg { display: block; width: 100%; height: auto; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
.wide svg { min-width: 34rem; max-width: 52rem; }
.scroll { overflow-x: auto; margin: .6rem 0; -webkit-overflow-scrolling: touch; }
table { border-collapse: collapse; width: max-content; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
td div { width: max-content; max-width: 16rem; }
.n div { margin-left: auto; }
@media (max-width: 40rem) { td div { max-width: 11rem; } }
th { background: var(--card); }
.n { text-align: right; white-space: nowrap; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .875em; }
pre { background: var(--card); padding: .6rem; border-radius: .4rem; }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; list-style: none; padding: 0; font-size: .875rem; }
.key svg { width: 1.9rem; height: .8rem; vertical-align: middle; margin-right: .35rem; }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .5rem 0; padding: 0 .8rem; }
details > div { scroll-margin-top: 3.5rem; }
summary { cursor: pointer; padding: .55rem 0; font-weight: 600; }
"""

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
    """A commit in Markdown, linked where the repository's address is known."""
    if not commit:
        return NO_DATA
    return f"[{commit[:9]}]({repo_url}/commit/{commit})" if repo_url else f"`{commit[:9]}`"


def variants_table(tank: Tank, rounds: list[dict[str, Any]], repo_url: str | None) -> str:
    """Every variant of every run, losers and baselines included, in Markdown."""
    baselines = {name: label for target in render.targets(tank).values() for name, label in target["baselines"].items()}
    runs: dict[str, list[dict[str, Any]]] = {}
    for data in rounds:
        if data["measurement"]:
            runs.setdefault(data["measurement"]["run"], []).append(data)
    rows, shapes = [], []
    for run, of_run in runs.items():
        medians = render.run_medians(tank, run)
        shapes = list(of_run[0]["measurement"]["shapes"])
        order = sorted(medians, key=lambda name: geometric_mean(medians[name].values()))
        for variant in order:
            roles = [
                f"candidate of {data['number']:04d}: {data['verdict']['state']}"
                for data in of_run
                if data["candidate"]["variant"] == variant
            ]
            based = [f"{data['number']:04d}" for data in of_run if data["base"]["variant"] == variant]
            roles += ["base of " + ", ".join(based)] if based else []
            commits = [d[s]["commit"] for d in of_run for s in ("candidate", "base") if d[s]["variant"] == variant]
            times = medians[variant]
            cells = [f"{times[shape]:.2f}" if shape in times else NO_DATA for shape in shapes]
            role = "; ".join(roles) or ("baseline" if variant in baselines else "in no round")
            rows.append(
                [
                    baselines.get(variant, f"`{variant}`"),
                    role,
                    of_run[0]["measurement"]["chip"],
                    run,
                    commit_text(commits[0] if commits else None, repo_url),
                    *cells,
                    f"{geometric_mean(times.values()):.2f}" if len(times) == len(shapes) else NO_DATA,
                ]
            )
    if not rows:
        return "No variant has been measured yet."
    head = ["variant", "role", "chip", "run", "commit", *(s.replace("x", " ") for s in shapes), "geomean"]
    return table(head, rows, len(shapes) + 1)


def _tiles(tank: Tank, rounds: list[dict[str, Any]]) -> str:
    ours = [r for r in rounds if "inherited" not in r]
    counts = {
        "rounds of our own": len(ours),
        "measured on a chip": sum(r["measurement"] is not None for r in ours),
        "inherited": len(rounds) - len(ours),
    }
    tiles = [(str(count), label) for label, count in counts.items()]
    best = render.current_best(rounds, "hopper")
    if best:
        mean = best["measurement"]["geomean"]
        tiles.insert(0, (f"{mean['candidate_us']:.1f} us", f"geomean now, {best['measurement']['chip']}"))
        baselines = render.latest_baselines(tank, rounds, "hopper")
        labels = render.targets(tank)["hopper"]["baselines"]
        for name, times in list(baselines.items())[:1]:
            ratio = mean["candidate_us"] / geometric_mean(times.values())
            tiles.insert(1, (f"{ratio:.2f}", f"of the time of {labels[name]}"))
    return "".join(f'<div class="tile"><b>{html.escape(v)}</b>{html.escape(label)}</div>' for v, label in tiles)


def _key(series: list) -> str:
    """The legend as HTML, so that it wraps on a phone."""
    items = []
    for handle in plots.legend_handles(series):
        color, marker, label = handle.get_color(), handle.get_marker(), html.escape(handle.get_label())
        if marker == "x":
            mark = f'<path d="M11 1l8 8m0-8l-8 8" stroke="{color}" stroke-width="2"/>'
        elif marker == "o":
            fill = "none" if handle.get_markerfacecolor() == "none" else color
            mark = f'<circle cx="15" cy="5" r="4" fill="{fill}" stroke="{color}" stroke-width="1.6"/>'
        else:
            dash = ' stroke-dasharray="6 4"' if handle.get_linestyle() == "--" else ""
            mark = f'<path d="M0 5h30" stroke="{color}" stroke-width="2.5"{dash}/>'
        items.append(f'<li><svg viewBox="0 0 30 10" aria-hidden="true">{mark}</svg>{label}</li>')
    return f'<ul class="key">{"".join(items)}</ul>'


def page(tank: Tank, repo_url: str | None, commit: str | None) -> str:
    """The whole page. `repo_url` is the repository's web address for links to commits and files, or None."""
    rounds = tank.all()
    resolve = resolver(repo_url, "shark_tank")

    def html_of(text: str) -> str:
        return markdown.render(text, resolve)

    series = shape_series(tank, rounds)
    chip = chip_of(rounds)
    shape_plots = "".join(
        "<figure>" + plots.svg(plots.shape_figure(one), f"s{i}", f"time by round, {one.shape}, {chip}") + "</figure>"
        for i, one in enumerate(series)
    )
    figure = plots.prediction_figure(rounds)
    prediction = plots.svg(figure, "p", "predicted and measured ratio by round") if figure else ""
    details = []
    for data in rounds:
        folder = render.round_id(data)
        text = re.sub(r"\A# .*\n", "", (tank.rounds_dir / folder / "round.md").read_text())
        body = markdown.render(text, resolver(repo_url, f"shark_tank/rounds/{folder}"), shift=2)
        commits = ""
        if data["measurement"]:
            pairs = [("prediction", data["measurement"]["prediction_commit"])]
            pairs += [(side, data[side]["commit"]) for side in ("base", "candidate")]
            commits = html_of("Commits: " + ", ".join(f"{n} {commit_text(c, repo_url)}" for n, c in pairs) + ".")
        title = html.escape(f"{data['number']:04d} {data['title']} ({render.state_text(data)})")
        details.append(  # The anchor is inside, so that following a link to it opens the round.
            f'<details><summary>{title}</summary><div id="round-{data["number"]:04d}">{commits}{body}</div></details>'
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
<nav><a href="#times">Times</a><a href="#predictions">Predictions</a><a href="#rounds">Rounds</a>
<a href="#failures">What did not work</a><a href="#shapes">Per shape</a><a href="#variants">All variants</a>
<a href="#calibration">Calibration</a><a href="#learnings">Learnings</a><a href="#details">Round by round</a></nav>
<h2 id="times">Time per call by round, {html.escape(chip)}</h2>
<div class="plots">{shape_plots}</div>
{_key(series)}
<h2 id="predictions">Prediction against measurement</h2>
<figure class="wide scroll" tabindex="0">{prediction}</figure>
<h2 id="rounds">Rounds</h2>
{html_of(render.progress_table(rounds))}
<h2 id="failures">What did not work</h2>
{html_of(render.failures_table(rounds))}
<h2 id="shapes">Per shape, against the floor and the baselines</h2>
{html_of(render.shapes_table(tank, rounds))}
<h2 id="variants">All variants, losers included</h2>
<p>Median us of each variant in each run, fastest first.</p>
{html_of(variants_table(tank, rounds, repo_url))}
<h2 id="calibration">Calibration of the predictions</h2>
{html_of(render.calibration_table(rounds))}
<h2 id="learnings">Learnings</h2>
{html_of(re.sub(r"^# .*", "", (tank.dir / "LEARNINGS.md").read_text()))}
<h2 id="details">Round by round</h2>
{"".join(details)}
<p class="soft">{markdown.inline(at, resolve)}Raw samples, environments and the check that recomputes every
figure are in the repository under shark_tank/.</p>
</body>
</html>
"""
