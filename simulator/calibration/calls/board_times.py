"""One table of the B200: ours simulated, the best published time, the best kernel simulated beside, the clock's error.

README, RESULTS.md, the history and BLACKWELL_TIMES.md show it.  All times are of the leaderboard's clock
(b200/board.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from operator import truediv
from statistics import geometric_mean, mean
from typing import Any, NamedTuple

from simulator.calibration.b200.board import CLOCK_GHZ, FITTED
from simulator.calibration.packed import DATA
from simulator.calibration.rows import parameters_of
from simulator.python.markdown import table

PUBLIC = DATA / "public_kernels.json"
PTX_GHZ = parameters_of("b200")["sm_clock_tensor"]["value"]
# Published times below those of every kernel simulated here: guaguabear, CuTe DSL.
NOT_SIMULATED_US = {"512x4096x7168": 15.3, "512x3072x7168": 14.4}
WHERE_PUBLISHED = (
    "15.3 and 14.4 us in the header of guaguabear's entry 384742 of the leaderboard (CuTe DSL, not simulated here), "
    "all others in the READMEs of [gau-nernst/gpu-mode-kernels](https://github.com/gau-nernst/gpu-mode-kernels)."
)
PROBLEM_NAMES = {"dual": "dual GEMM", "grouped": "grouped GEMM", "gemm": "GEMM", "gemv": "GEMV"}
# Problems whose cases could be taken for the dual GEMM's.
HEADINGS = {"gemm": "GEMM ", "gemv": "GEMV, M K L "}


def public() -> dict[str, Any]:
    """The public kernels' times on the clock (calls/public_kernels.py)."""
    return json.loads(PUBLIC.read_text())


def span(values: Sequence[float], digits: int = 1) -> str:
    """The least and the largest, as "9.3 to 10.2"; one number if they round to the same."""
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


class Case(NamedTuple):
    """A benchmark's times in us; ranges are without and with an H200's mechanisms, one time where only that was run."""

    problem: str
    name: str
    ours: list[float]
    published: float  # the best, on a real B200
    beside: list[float]  # the best of the public kernels that are simulated too


def cases(key: str = "back_to_back_us") -> list[Case]:
    """Every case that a public kernel was simulated at.  key: back_to_back_us or isolated_us."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in public()["rows"]:
        if row["problem"] != "single" and "board" in row:
            found.setdefault(row["case"], []).append(row)
    made = []
    for name, rows in found.items():
        published = min(row["published_us"] for row in rows)
        variants = rows[0]["board"]
        ours = [variants[variant]["ours"][key] for variant in variants]
        beside = [min(row["board"][variant]["theirs"][key] for row in rows) for variant in variants]
        made.append(Case(rows[0]["problem"], name, ours, min(published, NOT_SIMULATED_US.get(name, published)), beside))
    return made


def means(problem: str, key: str = "back_to_back_us") -> Case:
    """The geometric means of a problem's cases, as a case."""
    found = [case for case in cases(key) if case.problem == problem]

    def each(columns: Iterable[Sequence[float]]) -> list[float]:
        return [geometric_mean(column) for column in zip(*columns, strict=True)]

    published = geometric_mean(case.published for case in found)
    ours, beside = each(case.ours for case in found), each(case.beside for case in found)
    return Case(problem, f"{PROBLEM_NAMES[problem]}, geometric mean", ours, published, beside)


def of_published(case: Case) -> str:
    """Ours over the best published time."""
    return span([us / case.published for us in case.ours], 2)


def of_beside(case: Case) -> str:
    """Ours over the best kernel simulated beside."""
    return span(list(map(truediv, case.ours, case.beside)), 2)


BOARD_HEAD = [
    "M N K; us a call", "ours, **simulated**", "best published, B200", "ours / published",
    "best simulated beside", "ours / best beside",
]  # fmt: skip


def _cells(case: Case) -> list[str]:
    return [span(case.ours), f"{case.published:.1f}", of_published(case), span(case.beside), of_beside(case)]


def board_rows(in_full: Sequence[str] = tuple(PROBLEM_NAMES)) -> list[list[str]]:
    """The rows under BOARD_HEAD: the cases of the problems of `in_full`, and each problem's means."""
    found, rows = cases(), []
    for problem in dict.fromkeys(case.problem for case in found):
        for case in found:
            if case.problem == problem and problem in in_full:
                name = HEADINGS.get(problem, "") + case.name.replace(" x ", " ").replace("x", " ")
                rows.append([name, *_cells(case)])
        mean_of = means(problem)
        rows.append([f"**{cell}**" for cell in (mean_of.name, *_cells(mean_of))])
    return rows


def validated() -> dict[str, dict[str, float]]:
    """Public kernels' simulated times over the published ones, for each clock by kernel and case."""
    return {
        variant: {
            f"{row['kernel']} {row['case']}": row["board"][variant]["theirs"]["back_to_back_us"] / row["published_us"]
            for row in public()["rows"]
            if variant in row.get("board", ()) and (row["kernel"], row["case"]) != FITTED and row["problem"] != "gemv"
        }
        for variant in CLOCK_GHZ
    }


def errors() -> dict[str, list[float]]:
    """Percent by which public kernels' simulated times differ from published ones, for each clock."""
    return {variant: [abs(ratio - 1) * 100 for ratio in found.values()] for variant, found in validated().items()}


def clock_errors() -> str:
    """How far off public kernels are: "1 to 2 % off in the mean, 3 to 4 % at most"."""
    found = errors().values()
    in_mean, largest = [mean(of) for of in found], [max(of) for of in found]
    return f"{span(in_mean)} % off in the mean, {span(largest, 0)} % at most"


def clock_bias() -> str:
    """A sentence: simulated over published times in geometric mean, and the row where the clock flatters most."""
    found = validated()
    in_mean = span([geometric_mean(of.values()) for of in found.values()], 2)
    flattered = min((ratio, name) for of in found.values() for name, ratio in of.items())[1]
    there = span([of[flattered] for of in found.values() if flattered in of], 2)
    return (
        f"Simulated over published, their rows are {in_mean} in geometric mean, and {there} where the clock flatters "
        f"most ({flattered}). It may flatter ours there, too: ours / best beside is then the fairer ratio."
    )


def board_text(in_full: Sequence[str] = tuple(PROBLEM_NAMES)) -> str:
    """The table of board_rows() below how far off its clock is, above what its columns are."""
    by_ptx, by_machine_code = CLOCK_GHZ.values()
    rows, kernels = span([len(of) for of in errors().values()], 0), len({row["kernel"] for row in public()["rows"]})
    claim = (
        f"**Ours is simulated, not measured.** On {rows} published rows of {kernels} public kernels the clock is "
        f"{clock_errors()}. `make bring-up` on one B200 would settle it."
    )
    notes = [
        f"Best published: {WHERE_PUBLISHED}",
        f"Best simulated beside: the fastest of those {kernels} kernels on the same clock. {clock_bias()}",
        f"A range is a time simulated twice, behind other calls as on the leaderboard: from PTX at an SM clock of "
        f"{by_ptx} GHz, and from machine code, with mechanisms known from an H200, at {by_machine_code} GHz. One more "
        f"published row ({' '.join(FITTED)}) sets these clocks. Ours at 512 4096 7168 stores scale factors by warps: "
        "the clock does not charge shared memory for MMAs, which may matter there (shark_tank round 164).",
    ]
    return "\n\n".join([claim, table(BOARD_HEAD, board_rows(in_full)), "\n".join(f"- {note}" for note in notes)])


def alone_text() -> str:
    """A sentence: the ratios of calls on an idle chip."""
    problems = dict.fromkeys(case.problem for case in cases())
    ratios = [f"{PROBLEM_NAMES[problem]} {of_beside(means(problem, 'isolated_us'))}" for problem in problems]
    return f"One call alone on an idle chip, ours over the best simulated beside, geometric mean: {', '.join(ratios)}."


def public_errors() -> str:
    """Every public row: published, and simulated at the leaderboard's clock, both ways."""
    body = []
    for row in public()["rows"]:
        times = [row["board"][variant]["theirs"] for variant in CLOCK_GHZ if variant in row["board"]]
        cells = [
            f"{of['back_to_back_us']:.1f} ({of['back_to_back_us'] / row['published_us'] - 1:+.0%})" for of in times
        ]
        cells += [""] * (len(CLOCK_GHZ) - len(cells))
        body.append([row["kernel"], row["case"], f"{row['published_us']:g}", *cells])
    heads = [f"{name}: {ghz} GHz" for name, ghz in CLOCK_GHZ.items()]
    return table(["kernel", "case", "published, us", *heads], body)


def errors_by_clock() -> str:
    """Mean and largest error without the mechanisms by clock, but for gemv; times as linear in the clock's period."""
    clocks, body = (1.3, CLOCK_GHZ["without"], 1.45, 1.5, 1.6, 1.8, PTX_GHZ), []
    for ghz in clocks:
        errors = []
        for row in (row for row in public()["rows"] if row["problem"] != "gemv"):
            fast, slow = (of["theirs"]["back_to_back_us"] for of in (row, row["board"]["without"]))
            share = (1 / ghz - 1 / PTX_GHZ) / (1 / CLOCK_GHZ["without"] - 1 / PTX_GHZ)
            errors.append(abs((fast + share * (slow - fast)) / row["published_us"] - 1))
        body.append([f"{ghz:g}", f"{mean(errors):.1%}", f"{max(errors):.0%}"])
    return table(["GHz", "mean error", "largest"], body)
