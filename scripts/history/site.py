"""Render the history of the rounds: build/history/index.html, its further pages, and shark_tank/progress.png."""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path

from scripts.history import page, plots
from scripts.history.data import chip_of, png_digest, series_digest, shape_series
from scripts.rounds.model import RoundError, Tank

ROOT = Path(__file__).resolve().parents[2]


def repository_url(tank: Tank) -> str | None:
    """The repository's web address: from pyproject.toml or an https remote, or None."""
    project = tank.root / "pyproject.toml"
    if project.is_file():
        urls = tomllib.loads(project.read_text()).get("project", {}).get("urls", {})
        found = next((url for name, url in urls.items() if name.lower() in ("repository", "source")), None)
        if found:
            return found.rstrip("/")
    remote = tank.git("remote", "get-url", "origin") or ""
    return remote.removesuffix(".git") if remote.startswith("https://") and "@" not in remote else None


def write_progress(tank: Tank, path: Path) -> bool:
    """Draws the main plot unless the file already shows these data; returns whether it was written."""
    rounds = tank.all()
    series = shape_series(tank, rounds)
    digest = series_digest(series)
    if path.is_file() and png_digest(path) == digest:
        return False
    plots.png(plots.progress_figure(series, chip_of(rounds)), path, digest)
    return True


def write_history(tank: Tank, out: Path, repo_url: str | None) -> Path:
    """Write the pages into `out`; returns the first one's path."""
    out.mkdir(parents=True, exist_ok=True)
    for name, text in page.pages(tank, repo_url).items():
        (out / name).write_text(text)
    return out / page.INDEX


def main(argv: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(prog="./nvfp4 history", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="repository root (default: this one)")
    parser.add_argument("--out", type=Path, help="default: build/history under the root")
    parser.add_argument("--repo-url", help="web address for links to commits (default: pyproject.toml, remote)")
    args = parser.parse_args(argv)
    tank = Tank(args.root)
    try:
        path = write_history(tank, args.out or tank.root / "build" / "history", args.repo_url or repository_url(tank))
        if write_progress(tank, tank.dir / "progress.png"):
            print(f"wrote {tank.relative(tank.dir / 'progress.png')}: commit it")
    except RoundError as error:
        print(f"history: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0
