"""Figures quoted in prose: each links the JSON that it comes from, and is compared with it.

`[0.953](rounds/0007-x/round.json#measurement.geomean.ratio)` quotes a value; `[4.7 %](...ratio:faster)` quotes a
ratio as percent faster, `:slower` as percent slower, `:inverse` as 1 / value. Any other number with a unit is a
problem, unless its line says why with `<!-- figure-ok: reason -->`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from scripts.rounds.model import read_round

LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.json)#([A-Za-z0-9_.:-]+)\)")
# A number that claims a measurement: a time, a rate, a share, a factor, or a bare ratio (not a version like 3.11).
FIGURE = re.compile(
    r"(?<![\w.-])\d[\d,]*(?:\.\d+)?\s?(?:us|[\u00b5\u03bc]s|ns|ms|%|percent|x|\u00d7|times|[TGM]B/s|[TPG]FLOPS?|[TPG]FLOP/s)(?![\w-])"
    r"|(?<![\w.])[01]\.\d{2,}(?!\w|\.\d)"
)
GENERATED = re.compile(r"<!-- generated:([a-z-]+) -->.*?<!-- /generated:\1 -->", re.DOTALL)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
EXEMPT = re.compile(r"<!-- figure-ok: \S.*?-->")
_AS = {
    "faster": lambda value: 100.0 * (1.0 - value),
    "slower": lambda value: 100.0 * (value - 1.0),
    "inverse": lambda value: 1.0 / value,
    "percent": lambda value: 100.0 * value,
}


def lookup(data: Any, field: str) -> Any:
    """A value by dotted path; list items by index. KeyError when it is not there."""
    for part in field.split("."):
        if isinstance(data, list) and part.isdigit() and int(part) < len(data):
            data = data[int(part)]
        elif isinstance(data, dict) and part in data:
            data = data[part]
        else:
            raise KeyError(field)
    return data


def _matches(text: str, value: float) -> bool:
    number = re.search(r"-?\d[\d,]*(?:\.\d+)?", text)
    if not number:
        return False
    digits = number.group().replace(",", "")
    decimals = len(digits.partition(".")[2])
    # Half a unit of the last printed digit, and a little for the binary fraction.
    return abs(float(digits) - value) <= 0.5 * 10**-decimals + 1e-9


def _converted(value: Any, convert: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("is not a figure")
    return _AS[convert](value) if convert else float(value)


def _split(target: str) -> tuple[str, str]:
    """Field and conversion of a link's target; TypeError if the conversion is unknown."""
    field, _, convert = target.partition(":")
    if convert and convert not in _AS:
        raise TypeError("is not a figure")
    return field, convert


def _document(path: Path) -> Any:
    """The JSON that a figure is linked to; of a round, as the tools see it."""
    return read_round(path) if path.name == "round.json" else json.loads(path.read_text())


def link_problems(text: str, folder: Path, where: str) -> list[str]:
    """Figure links that do not resolve or show another value."""
    problems = []
    for match in LINK.finditer(text):
        shown, path, target = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        try:
            field, convert = _split(target)
            expected = _converted(lookup(_document(folder / path), field), convert)
        except TypeError as error:
            problems.append(f"{where}:{line}: {path}#{target} {error}")
            continue
        except (OSError, json.JSONDecodeError, KeyError) as error:
            problems.append(f"{where}:{line}: {path}#{target}: {error!r}")
            continue
        if not _matches(shown, expected):
            problems.append(f"{where}:{line}: quotes {shown!r}, {path}#{target} is {expected:.6g}")
    return problems


def untagged_problems(text: str, where: str) -> list[str]:
    """Figures outside links, code, exempted lines and generated blocks."""
    problems = []
    for number, line in enumerate(blank(text).splitlines(), 1):
        if EXEMPT.search(line):
            continue
        bare = re.sub(r"`[^`]*`|<https?://[^>]*>", "", LINK.sub("", line))
        bare = re.sub(r"(\[[^\]]*\])\([^)]*\)", r"\1", bare)
        problems += [
            f"{where}:{number}: figure {found.group()!r} is not linked to the JSON it comes from"
            for found in FIGURE.finditer(bare)
        ]
    return problems


def prose_problems(text: str, folder: Path, where: str) -> list[str]:
    """Wrong links and unlinked figures of a text."""
    return link_problems(blank(text), folder, where) + untagged_problems(text, where)


def blank(text: str) -> str:
    """Text without generated blocks and code fences; line numbers stay."""
    for pattern in (GENERATED, FENCE):
        text = pattern.sub(lambda match: "\n" * match.group().count("\n"), text)
    return text
