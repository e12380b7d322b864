"""The history's pages in HTML: the stories, a page a chapter of rounds, and a page of all variants."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

from scripts.history import markdown, plots, stories, variants
from scripts.history.data import chip_of, shape_series
from scripts.history.style import CSS
from scripts.rounds import ledger
from scripts.rounds.check import noise_or_none
from scripts.rounds.model import Tank
from scripts.rounds.pages import round_page, tables
from scripts.rounds.pages.round_page import NO_DATA
from scripts.rounds.pages.words import diff_command, plain

Resolve = Callable[[str], str | None]
INDEX, VARIANTS = "index.html", "variants.html"


def slug(title: str) -> str:
    """A chapter's file name."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") + ".html"


def round_files(rounds: list[dict[str, Any]]) -> dict[str, str]:
    """Number of each round, four digits -> the file of its chapter."""
    return {f"{data['number']:04d}": slug(tables.chapter(data)) for data in rounds}


def resolver(repo_url: str | None, folder: str, files: dict[str, str]) -> Resolve:
    """Maps links of a Markdown file in `folder` (from the root): rounds to their chapters, files to the repository."""

    def resolve(target: str) -> str | None:
        if re.match(r"https?://", target):
            return target
        found = re.search(r"(?:^|/)(\d{4})-[a-z0-9-]+/round\.(?:md|json)", target)
        number = found[1] if found else None
        if target.startswith("round.json"):
            number = folder.rsplit("/", 1)[-1][:4]
        if number:
            return f"{files[number]}#round-{number}" if number in files else None
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


def shell(title: str, body: str, tank: Tank, repo_url: str | None) -> str:
    """A whole page around `body`."""
    commit = tank.commit("HEAD")
    at = f"Generated from commit {commit_text(commit, repo_url)}. " if commit else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<style>{CSS}</style>
</head>
<body>
<h1>{html.escape(title)}</h1>
{body}
<p class="soft">{markdown.inline(at, str)}Raw samples, environments and the check that recomputes every
figure are in the repository under shark_tank/.</p>
</body>
</html>
"""


def _tile(value: str, label: str) -> str:
    return f'<div class="tile"><b>{html.escape(value)}</b>{html.escape(label)}</div>'


def _story(story: stories.Story, place: int, html_of: Callable[[str], str], files: dict[str, str]) -> str:
    told = story.told
    tiles = ""
    if story.start_us:
        tiles += _tile(f"{story.start_us:.1f} us", f"start: {told.get('start_words', 'the first right kernel')}")
    if story.now_us:
        tiles += _tile(f"{story.now_us:.1f} us", "now, geometric mean")
    if story.of_peer:
        tiles += _tile(f"{story.of_peer:.3f}", f"of the time of {told['now']['peer_words']}")
    figure = ""
    if len(story.steps) > 1:
        drawn = plots.svg(
            plots.waterfall_figure(story.steps, story.unit), f"w{place}", f"time by step, {told['title']}"
        )
        figure = f'<figure class="one">{drawn}</figure>'
    places = "".join(f'<a href="{slug(title)}">{html.escape(title)}: its rounds</a>' for title in told["chapters"])
    places = places if set(files.values()) >= {slug(title) for title in told["chapters"]} else ""
    drawings = "".join(
        f"<h3>{when}</h3><pre class='scroll' tabindex='0'>{html.escape(told[key].strip(chr(10)))}</pre>"
        for when, key in (("The kernel at first", "before"), ("The kernel now", "after"))
    )
    return f"""<section><h2 id="{told["id"]}">{html.escape(told["title"])}</h2>
<p class="soft">{html.escape(told["evidence"])}.</p>
<div class="tiles">{tiles}</div>
{html_of(told["words"])}
{figure}<p>{html.escape(story.sentence)}</p>
{html_of(story.now)}
{drawings}<nav>{places}</nav></section>"""


def index_page(tank: Tank, repo_url: str | None) -> str:
    """The first page: a story a problem, how good the predictions were, the rounds by chapter, what they taught."""
    rounds = tank.all()
    files = round_files(rounds)
    resolve = resolver(repo_url, "shark_tank", files)

    def html_of(text: str) -> str:
        return markdown.render(text, resolve)

    told = stories.load(tank)
    ours = [data for data in rounds if "inherited" not in data]
    measured = sum(data["measurement"] is not None for data in ours)
    counts = (
        f"{len(ours)} rounds of our own, {measured} measured on a chip; {len(rounds) - len(ours)} of others before."
    )
    figure = plots.calibration_figure(rounds)
    calibration = plots.svg(figure, "c", "measured ratio by predicted ratio") if figure else ""
    chapters = "".join(
        f"<details><summary>{html.escape(title)}: {tables.counted(members)}</summary>"
        f'<p><a href="{slug(title)}">All of these rounds in full</a></p>'
        f"{coloured(html_of(tables.index_table(members)))}</details>"
        for title, members in tables.chapters(rounds)
    )
    links = "".join(f'<a href="#{one.told["id"]}">{html.escape(one.told["title"])}</a>' for one in told)
    body = f"""<p>How each kernel got fast: where it began, what each kept idea was worth, where it stands. Every idea
has a prediction made before its measurement, and a verdict by a rule fixed in advance. Ratios are candidate time / base
time: below 1 is faster. {counts}</p>
<nav>{links}<a href="#predictions">Predictions</a><a href="#rounds">Rounds</a><a href="#learnings">Learnings</a>
<a href="{VARIANTS}">All variants</a></nav>
{"".join(_story(one, place, html_of, files) for place, one in enumerate(told))}
<h2 id="predictions">Prediction against measurement</h2>
<p>A mark is a round: the middle of its predicted interval, and the measured ratio. On the line the prediction was
right; above it the round promised too much.</p>
<figure class="one">{calibration}</figure>
{html_of(tables.calibration_table(rounds))}
<h2 id="rounds">Rounds</h2>
{chapters}
<h2 id="learnings">Learnings</h2>
{html_of(re.sub(r"^# .*", "", (tank.dir / "LEARNINGS.md").read_text()))}"""
    return shell("NVFP4 kernels: how each got fast", body, tank, repo_url)


def _details(tank: Tank, data: dict[str, Any], repo_url: str | None, files: dict[str, str]) -> str:
    """A round, folded: its text, tables and commits."""
    folder = round_page.round_id(data)
    text = round_page.page_text(tank.rounds_dir / folder, data)
    text = round_page.whole_page(data, text, noise_or_none(tank, data))
    resolve = resolver(repo_url, f"shark_tank/rounds/{folder}", files)
    body = markdown.render(re.sub(r"\A# .*\n", "", text), resolve, shift=2)
    commits = ""
    if data["measurement"]:
        ahead = data["measurement"]["prediction_commit"]
        pairs = [("prediction", ahead)] if ahead else []
        pairs += [(side, data[side]["commit"]) for side in ("base", "candidate")]
        named = ", ".join(f"{name} {commit_text(commit, repo_url)}" for name, commit in pairs)
        commits = markdown.render(f"Commits: {named}." + _diff(data, repo_url), resolve)
    state = VERDICTS.get(data["state"], "")
    title = (
        f"{data['number']:04d} {html.escape(data['title'])} "
        f'(<span class="{state}">{html.escape(round_page.state_text(data))}</span>)'
        f'<span class="short">{html.escape(plain(data))}</span>'
    )
    # The anchor is inside, so that following a link to it opens the round.
    return (
        f'<details><summary>{title}</summary><div id="round-{data["number"]:04d}">{commits}{coloured(body)}</div>'
        "</details>"
    )


def chapter_page(tank: Tank, title: str, members: list[dict[str, Any]], repo_url: str | None) -> str:
    """A chapter's rounds in full, with what did not work; the dual GEMM on Hopper has its times and steps too."""
    rounds = tank.all()
    files = round_files(rounds)
    resolve = resolver(repo_url, "shark_tank", files)

    def html_of(text: str) -> str:
        return markdown.render(text, resolve)

    own = ""
    if title == tables.BENCHMARK_CHAPTER:
        series, chip = shape_series(tank, rounds), chip_of(rounds)
        shape_plots = "".join(
            "<figure>"
            + plots.svg(plots.shape_figure(one), f"s{i}", f"time by round, {one.shape}, {chip}")
            + "</figure>"
            for i, one in enumerate(series)
        )
        own = f"""<h2 id="ledger">From the first right kernel to now</h2>
<p>Each step is a round that was kept, in the order of its commits. Within a row both times are of one run, so that the
ratio holds; "since the step before" is the ratio between the runs of two rounds.</p>
{html_of(ledger.ledger_table(tank))}
<h2 id="times">Time per call by round, {html.escape(chip)}</h2>
<p>Rounds in the order of the commits that they measured. A mark is the candidate's time; the line is the kernel that
stood. A kept round off the line measured a feature that the kernel already had, or a tile chosen later.</p>
<div class="plots">{shape_plots}</div>
{_key(series)}
"""
    body = f"""<nav><a href="{INDEX}">All stories</a><a href="{VARIANTS}">All variants</a></nav>
{own}<h2 id="failures">What did not work</h2>
{html_of(tables.failures_table(members))}
<h2 id="details">Round by round</h2>
{"".join(_details(tank, data, repo_url, files) for data in members)}"""
    return shell(title, body, tank, repo_url)


def variants_page(tank: Tank, repo_url: str | None) -> str:
    """Every variant of every run, losers included."""
    rounds = tank.all()
    resolve = resolver(repo_url, "shark_tank", round_files(rounds))
    runs = "".join(
        f"<h2>Run {html.escape(run)}</h2><p>{html.escape(sentence)}</p>{coloured(markdown.render(text, resolve))}"
        for run, sentence, text in variants.run_tables(tank, rounds, repo_url)
    )
    body = f"""<nav><a href="{INDEX}">All stories</a></nav>
<p>A variant is a build of the library with its settings: <code>base/auto</code> is the library before the change, with
its own choice of tile, <code>auto</code> the library after it; a name like <code>f64x128</code> forces one tile.</p>
{runs or "<p>No variant has been measured yet.</p>"}"""
    return shell("All variants, losers included", body, tank, repo_url)


def pages(tank: Tank, repo_url: str | None) -> dict[str, str]:
    """File name -> HTML of the whole history."""
    found = {INDEX: index_page(tank, repo_url), VARIANTS: variants_page(tank, repo_url)}
    for title, members in tables.chapters(tank.all()):
        found[slug(title)] = chapter_page(tank, title, members, repo_url)
    return found
