"""Figures quoted in prose: each links the JSON that it comes from, and is compared with it.

`[0.953](rounds/0007-x/round.json#measurement.geomean.ratio)` quotes a value; `[4.7 %](...ratio:faster)` quotes a
ratio as percent faster, `:slower` as percent slower, `:inverse` as 1 / value. Any other number with a unit is a
problem, unless its line says why with `<!-- figure-ok: reason -->`.

A superlative in a round's text ("the largest step", "most at M = 512") needs a figure that is the extreme of its kind:
`...ratio:faster:most-of-shapes` is compared with the run's other shapes, `:least-of-rounds` with the adopted rounds of
the backend. A superlative about nothing measured has `<!-- superlative-ok: reason -->` on its line; on older pages,
"(Added: no figure of this was kept.)" follows the sentence.
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

_EXTREMES = {"most": max, "least": min}
_GROUPS = ("shapes", "rounds")
_SHAPE = re.compile(r"\d+x\d+x\d+(?:x\d+)?")
# "most" and "least" count where they compare; "at best" is a bound.
SUPERLATIVE = re.compile(
    r"(?<!\bat )\b(?:larg|small|fast|slow|bigg|great|high|low|long|short|cheap|strong|weak|wid|narrow|deep|steep)est\b"
    r"|(?<!\bat )\b(?:best|worst)\b"
    r"|\b(?<!\bat )(?:most|least)(?=\s+(?:at|by|for|from|in|on|when|where|with)\b)|\bthe\s+(?:most|least)\b",
    re.IGNORECASE,
)
CLAIMS_NOTHING = re.compile(r"<!-- superlative-ok: \S.*?-->")
NOT_KEPT = "(Added: no figure of this was kept.)"
# A sentence ends at a full stop, a paragraph at an empty line, a heading or the start of an item. A later addition in
# brackets belongs to the sentence before it.
_SENTENCE_END = re.compile(r"[.!?][\"')]*(?=\s)(?!\s+\((?:Added|Corrected): )|\n(?=\s*\n|#|- )")


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


def _split(target: str) -> tuple[str, str, str]:
    """Field, conversion and extreme of a link's target; TypeError if one is unknown."""
    field, *suffixes = target.split(":")
    extreme = suffixes.pop() if suffixes and "-of-" in suffixes[-1] else ""
    convert = suffixes.pop() if suffixes else ""
    least_or_most, _, group = extreme.partition("-of-")
    if (
        suffixes
        or (convert and convert not in _AS)
        or (extreme and (least_or_most not in _EXTREMES or group not in _GROUPS))
    ):
        raise TypeError("is not a figure")
    return field, convert, extreme


def _document(path: Path) -> Any:
    """The JSON that a figure is linked to; of a round, as the tools see it."""
    return read_round(path) if path.name == "round.json" else json.loads(path.read_text())


def _group(path: Path, field: str, group: str) -> list[Any]:
    """Values to compare an extreme with: the field's for each shape of the run, or in each adopted round."""
    data = _document(path)
    if group == "shapes":
        before, _, after = re.split(rf"(?:^|(?<=\.))({_SHAPE.pattern})(?=\.|$)", field)
        shapes = lookup(data, before.rstrip("."))
        return [lookup(shapes, f"{other}{after}") for other in shapes]
    rounds = [read_round(other) for other in path.resolve().parents[1].glob("*/round.json")]
    return [
        lookup(other, field)
        for other in rounds
        if other["measurement"]
        and other["backend"] == data["backend"]
        and other.get("shapes") == data.get("shapes")
        and (other["verdict"] or {}).get("state") == "adopted"
    ]


def link_problems(text: str, folder: Path, where: str) -> list[str]:
    """Figure links that do not resolve, show another value, or are not the extreme that they claim to be."""
    problems = []
    for match in LINK.finditer(text):
        shown, path, target = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        try:
            field, convert, extreme = _split(target)
            expected = _converted(lookup(_document(folder / path), field), convert)
        except TypeError as error:
            problems.append(f"{where}:{line}: {path}#{target} {error}")
            continue
        except (OSError, json.JSONDecodeError, KeyError) as error:
            problems.append(f"{where}:{line}: {path}#{target}: {error!r}")
            continue
        if not _matches(shown, expected):
            problems.append(f"{where}:{line}: quotes {shown!r}, {path}#{target} is {expected:.6g}")
        if extreme:
            least_or_most, _, group = extreme.partition("-of-")
            try:
                values = [_converted(value, convert) for value in _group(folder / path, field, group)]
                bound = _EXTREMES[least_or_most](values)
            except (KeyError, TypeError, ValueError) as error:
                problems.append(f"{where}:{line}: {path}#{target}: no {group} to compare with ({error!r})")
                continue
            if expected != bound:
                problems.append(
                    f"{where}:{line}: {path}#{target} is {expected:.6g}, the {least_or_most} is {bound:.6g}"
                )
    return problems


def superlative_problems(text: str, where: str) -> list[str]:
    """Superlatives in sentences without such a figure; a question claims nothing."""
    text = blank(text)
    problems, begin = [], 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]:
        sentence = text[begin:end]
        compared = any("-of-" in target for _, _, target in LINK.findall(sentence))
        backed = compared or NOT_KEPT in sentence or sentence.rstrip("\"')").endswith("?")
        for found in SUPERLATIVE.finditer("" if backed else sentence):
            place = begin + found.start()
            last = text.find("\n", place)
            if not CLAIMS_NOTHING.search(text[text.rfind("\n", 0, place) + 1 : last if last >= 0 else len(text)]):
                line = text.count("\n", 0, place) + 1
                problems.append(f"{where}:{line}: {found.group()!r} has no figure that is compared with its like")
        begin = end
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
