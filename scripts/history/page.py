"""The history's pages: the stories, and a page a chapter with its rounds' own Markdown."""

from __future__ import annotations

import html
import re
from typing import Any

from scripts.history import markdown, plots, stories
from scripts.history.data import chip_of, shape_series
from scripts.history.style import CSS
from scripts.rounds import ledger
from scripts.rounds.check import noise_or_none
from scripts.rounds.model import Tank
from scripts.rounds.pages import round_page, tables
from scripts.rounds.pages.words import diff_command, plain

INDEX = "index.html"


def slug(title: str) -> str:
    """A chapter's file name."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") + ".html"


def round_files(rounds: list[dict[str, Any]]) -> dict[str, str]:
    """Number of each round, four digits -> the file of its chapter."""
    return {f"{data['number']:04d}": slug(tables.chapter(data)) for data in rounds}


def resolver(repo_url: str | None, folder: str, files: dict[str, str]) -> markdown.Resolve:
    """Maps links of a Markdown file in `folder` (from the root): rounds to their chapters, files to the repository."""

    def resolve(target: str) -> str | None:
        if re.match(r"https?://", target) or target in files.values():
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


def _figure(drawn: str) -> str:
    return f'<figure class="one">{drawn}</figure>'


def shell(title: str, body: str, tank: Tank) -> str:
    """A whole page around `body`."""
    commit = tank.commit("HEAD")
    at = f"Generated from commit {commit[:9]}. " if commit else ""
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
<p>{at}Raw samples, environments and the check that recomputes every figure are in the repository under shark_tank/.</p>
</body>
</html>
"""


def story_text(story: stories.Story, files: dict[str, str]) -> tuple[str, str]:
    """A story in Markdown: what comes before its figure, and what comes after."""
    told, heads = story.told, []
    if story.start_us:
        heads.append(f"start: **{story.start_us:.1f} us**, {told.get('start_words', 'the first right kernel')}")
    if story.now_us:
        heads.append(f"now: **{story.now_us:.1f} us**, geometric mean")
    if story.of_peer:
        heads.append(f"**{story.of_peer:.3f}** of the time of {told['now']['peer_words']}")
    known = [title for title in told["chapters"] if slug(title) in files.values()]
    drawings = "\n\n".join(
        f"### {when}\n\n```\n{told[key].strip(chr(10))}\n```"
        for when, key in (("The kernel at first", "before"), ("The kernel now", "after"))
    )
    places = ", ".join(f"[{title}: its rounds]({slug(title)})" for title in known)
    before = "\n\n".join([f"{told['evidence']}.", "\n".join(f"- {head}" for head in heads), told["words"]])
    return before, "\n\n".join([story.sentence, story.now, drawings, places])


def index_page(tank: Tank, repo_url: str | None) -> str:
    """The first page: a story a problem, how good the predictions were, the rounds by chapter, what they taught."""
    rounds = tank.all()
    files = round_files(rounds)
    resolve = resolver(repo_url, "shark_tank", files)

    def html_of(text: str) -> str:
        return markdown.render(text, resolve)

    def told_html(place: int, story: stories.Story) -> str:
        before, after = story_text(story, files)
        title, bars = story.told["title"], ""
        if len(story.steps) > 1:
            figure = plots.waterfall_figure(story.steps, story.unit, story.start_us)
            bars = _figure(plots.svg(figure, f"w{place}", f"time by step, {title}"))
        return f'<h2 id="{story.told["id"]}">{html.escape(title)}</h2>\n{html_of(before)}\n{bars}\n{html_of(after)}'

    told = stories.load(tank)
    ours = [data for data in rounds if "inherited" not in data]
    measured = sum(data["measurement"] is not None for data in ours)
    figure = plots.calibration_figure(rounds)
    predictions = _figure(plots.svg(figure, "c", "measured ratio by predicted ratio")) if figure else ""
    chapters = "\n".join(
        f"<details><summary>{html.escape(title)}: {tables.counted(members)}</summary>\n"
        f"{html_of(f'[All of these rounds in full]({slug(title)})')}\n{html_of(tables.index_table(members))}</details>"
        for title, members in tables.chapters(rounds)
    )
    links = "".join(f'<a href="#{one.told["id"]}">{html.escape(one.told["title"])}</a>' for one in told)
    body = f"""<p>How each kernel got fast: where it began, what each kept idea was worth, where it stands. Every idea
has a prediction made before its measurement, and a verdict by a rule fixed in advance. Ratios are candidate time / base
time: below 1 is faster. {len(ours)} rounds of our own, {measured} measured on a chip; {len(rounds) - len(ours)} of
others before.</p>
<nav>{links}<a href="#predictions">Predictions</a><a href="#rounds">Rounds</a><a href="#learnings">Learnings</a></nav>
{"".join(told_html(place, one) for place, one in enumerate(told))}
<h2 id="predictions">Prediction against measurement</h2>
<p>A mark is a round: the middle of its predicted interval, and the measured ratio. On the line the prediction was
right; above it the round promised too much.</p>
{predictions}
{html_of(tables.calibration_table(rounds))}
<h2 id="rounds">Rounds</h2>
{chapters}
<h2 id="learnings">Learnings</h2>
{html_of(re.sub(r"^# .*", "", (tank.dir / "LEARNINGS.md").read_text()))}"""
    return shell("NVFP4 kernels: how each got fast", body, tank)


def _details(tank: Tank, data: dict[str, Any], repo_url: str | None, files: dict[str, str]) -> str:
    """A round, folded: the Markdown of `./nvfp4 rounds show`."""
    folder = round_page.round_id(data)
    text = round_page.page_text(tank.rounds_dir / folder, data)
    text = round_page.whole_page(data, text, noise_or_none(tank, data))
    base, candidate = (data[side]["commit"] for side in ("base", "candidate"))
    if repo_url and diff_command(data):
        text += f"\n\n[{base[:9]}...{candidate[:9]}]({repo_url}/compare/{base}...{candidate})\n"
    resolve = resolver(repo_url, f"shark_tank/rounds/{folder}", files)
    body = markdown.render(re.sub(r"\A# .*\n", "", text), resolve, shift=2)
    title = f"{data['number']:04d} {data['title']} ({round_page.state_text(data)}): {plain(data)}"
    # The anchor is inside, so that following a link to it opens the round.
    anchor = f'<div id="round-{data["number"]:04d}">'
    return f"<details><summary>{html.escape(title)}</summary>{anchor}{body}</div></details>"


def chapter_page(tank: Tank, title: str, members: list[dict[str, Any]], repo_url: str | None) -> str:
    """A chapter's rounds in full, with what did not work; the dual GEMM on Hopper has its times and steps too."""
    rounds = tank.all()
    files = round_files(rounds)
    resolve = resolver(repo_url, "shark_tank", files)
    own = ""
    if title == tables.BENCHMARK_CHAPTER:
        chip = chip_of(rounds)
        drawn = plots.svg(plots.progress_figure(shape_series(tank, rounds), chip), "s", f"time by round, {chip}")
        own = f"""<h2 id="ledger">From the first right kernel to now</h2>
<p>Each step is a round that was kept, in the order of its commits. Within a row both times are of one run, so that the
ratio holds; "since the step before" is the ratio between the runs of two rounds.</p>
{markdown.render(ledger.ledger_table(tank), resolve)}
<h2 id="times">Time per call by round, {html.escape(chip)}</h2>
<p>Rounds in the order of the commits that they measured. A mark is the candidate's time; the line is the kernel that
stood. A kept round off the line measured a feature that the kernel already had, or a tile chosen later.</p>
<figure>{drawn}</figure>
"""
    body = f"""<nav><a href="{INDEX}">All stories</a></nav>
{own}<h2 id="failures">What did not work</h2>
{markdown.render(tables.failures_table(members), resolve)}
<h2 id="details">Round by round</h2>
{"".join(_details(tank, data, repo_url, files) for data in members)}"""
    return shell(title, body, tank)


def pages(tank: Tank, repo_url: str | None) -> dict[str, str]:
    """File name -> HTML of the whole history."""
    found = {INDEX: index_page(tank, repo_url)}
    for title, members in tables.chapters(tank.all()):
        found[slug(title)] = chapter_page(tank, title, members, repo_url)
    return found
