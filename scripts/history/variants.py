"""Tables of all variants of all runs, losers and baselines included, with the meaning of their names."""

from __future__ import annotations

import re
from statistics import geometric_mean
from typing import Any

from scripts.common.markdown import table
from scripts.rounds.model import Tank
from scripts.rounds.pages import tables
from scripts.rounds.pages.round_page import NO_DATA
from scripts.rounds.pages.words import BASELINES
from scripts.rounds.stats import shape_key

# f64x128c4s2k2w4: features x tokens, then what the round tried; m256n64k2: a tile's name today.
_OLD_TILE = re.compile(r"f(\d+)x(\d+)((?:[cskw]\d)*)")
_TILE = re.compile(r"m(\d+)n(\d+)(k\d)?")
_GROUPED_TILE = re.compile(r"m(\d+)(k\d)?")  # the grouped GEMM's tiles all have one width
_LETTERS = {
    "c": "clusters of {}",
    "s": "{} stages",
    "k": "K split in {}",
    "w": "{} warpgroups side by side",
}
_NAMES = {
    "expand_cublas": "a baseline: dequantize NVFP4, then cuBLAS",
    "cublas_product": "a baseline: cuBLAS fp16 on operands dequantized beforehand",
    "copy": "a baseline: a copy of as many bytes",
    "plain_gemm": "the package's plain product, whatever the GEMM takes",
}
_SUFFIXES = {"again": "the same once more, for the noise", "plain": "launched without dependent launch"}


def _tile(name: str) -> str:
    if name == "auto":
        return "the library's own choice of tile"
    old, new, grouped = (pattern.fullmatch(name) for pattern in (_OLD_TILE, _TILE, _GROUPED_TILE))
    if old:
        parts = [_LETTERS[letter].format(digit) for letter, digit in re.findall(r"([cskw])(\d)", old[3])]
        parts = ["no clusters" if part == "clusters of 1" else part for part in parts]
        return ", ".join([f"tile of {old[1]} rows of B by {old[2]} of A", *parts])
    if new:
        return f"tile of {new[1]} rows of A by {new[2]} of B" + (", K split in two" if new[3] else "")
    if grouped:
        return f"tile of {grouped[1]} rows of a group's A" + (", K split in two" if grouped[2] else "")
    return ""


def meaning(name: str, commit: str | None = None) -> str:
    """A variant's name in words, as far as its parts are known; `commit` is its library's."""
    if name in _NAMES:
        return _NAMES[name]
    library, _, rest = name.rpartition("/")
    config, *suffixes = rest.split("+")
    parts = [_tile(config), *(_SUFFIXES.get(suffix, "") for suffix in suffixes)]
    if library:
        whose = {"base": "the library before the change", "prev": "the library before the change"}
        of_commit = f"the library of commit {(commit or library)[:9]}"
        named = commit or re.fullmatch(r"[0-9a-f]{7,}", library)
        parts.append(whose.get(library) or (of_commit if named else f"another library, '{library}'"))
    return "; ".join(part for part in parts if part)


def _roles(of_run: list[dict[str, Any]], variant: str, baseline: bool) -> str:
    roles = [
        f"candidate of {data['number']:04d}: {data['verdict']['state']}"
        for data in of_run
        if data["candidate"]["variant"] == variant
    ]
    based = [f"{data['number']:04d}" for data in of_run if data["base"]["variant"] == variant]
    roles += ["base of " + ", ".join(based)] if based else []
    return "; ".join(roles) or ("baseline" if baseline else "in no round")


def _commit_text(commit: str | None, repo_url: str | None) -> str:
    if not commit:
        return NO_DATA
    return f"[{commit[:9]}]({repo_url}/commit/{commit})" if repo_url else f"`{commit[:9]}`"


MOST_COLUMNS = 8  # columns of shapes that a page on a desktop screen has room for


def run_tables(tank: Tank, rounds: list[dict[str, Any]], repo_url: str | None) -> list[tuple[str, str, str]]:
    """(run, sentence, Markdown table) of each run, in the order of its first round."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for data in rounds:
        if data["measurement"]:
            runs.setdefault(data["measurement"]["run"], []).append(data)
    found = []
    for run, of_run in runs.items():
        medians, rows = tables.run_medians(tank, run), []
        shapes = sorted(of_run[0]["measurement"]["shapes"], key=shape_key)
        columns = shapes if len(shapes) <= MOST_COLUMNS else []  # else the round's page has them, a row each
        for variant in sorted(medians, key=lambda name, times=medians: geometric_mean(times[name].values())):
            commits = [d[s]["commit"] for d in of_run for s in ("candidate", "base") if d[s]["variant"] == variant]
            commit, times = (commits[0] if commits else None), medians[variant]
            cells = [f"{times[shape]:.2f}" if shape in times else NO_DATA for shape in columns]
            name = BASELINES.get(variant) or f"`{variant}`"
            words = "" if variant in BASELINES else meaning(variant, commit)
            mean = f"{geometric_mean(times.values()):.2f}" if len(times) == len(shapes) else NO_DATA
            role = _roles(of_run, variant, variant in BASELINES)
            rows.append([name, words, role, _commit_text(commit, repo_url), *cells, mean])
        numbers = ", ".join(f"{data['number']:04d}" for data in of_run)
        env = tank.env(run)
        before = "" if "program" in env else " Recorded before samples named their program, host and clock."
        sentence = f"{env['chip']}, driver {env['driver']}; rounds {numbers}; medians in us, fastest first.{before}"
        head = ["variant", "what it is", "role", "commit", *(s.replace("x", " ") for s in columns), "geomean"]
        found.append((run, sentence, table(head, rows, len(columns) + 1)))
    return found
