"""Our kernels and public ones at the leaderboard's clock (b200/board.py), and public ones' errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import truediv
from statistics import geometric_mean, mean
from typing import Any

from scripts.common.markdown import table
from simulator.calibration.b200.board import CLOCK_GHZ, FITTED
from simulator.calibration.packed import DATA
from simulator.calibration.rows import parameters_of

PUBLIC = DATA / "public_kernels.json"
PTX_GHZ = parameters_of("b200")["sm_clock_tensor"]["value"]


def public() -> dict[str, Any]:
    """The public kernels' times on the clock (calls/public_kernels.py)."""
    return json.loads(PUBLIC.read_text())


def span(values: Sequence[float], digits: int = 1) -> str:
    """The least and the largest, as "9.3 to 10.2"; one number if they round to the same."""
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def board_cases(key: str = "back_to_back_us") -> dict[str, tuple[str, list[float], list[float]]]:
    """Each case at the leaderboard's clock: problem, our times and the best public kernel's.

    Times are two, without and with an H200's mechanisms (b200/board.py).
    One where only that was simulated.  key: back_to_back_us or isolated_us.
    """
    cases: dict[str, list[dict[str, Any]]] = {}
    for row in public()["rows"]:
        if row["problem"] != "single" and "board" in row:
            cases.setdefault(row["case"], []).append(row)
    return {
        case: (
            found[0]["problem"],
            [found[0]["board"][variant]["ours"][key] for variant in found[0]["board"]],
            [min(row["board"][variant]["theirs"][key] for row in found) for variant in found[0]["board"]],
        )
        for case, found in cases.items()
    }


def board_rows() -> list[list[str]]:
    """The rows of board_cases() under BOARD_HEAD."""
    alone = board_cases("isolated_us")
    return [
        [
            HEADINGS.get(problem, "") + case.replace(" x ", " ").replace("x", " "), span(ours), span(best),
            span(list(map(truediv, ours, best)), 2), span(list(map(truediv, *alone[case][1:])), 2),
        ]
        for case, (problem, ours, best) in board_cases().items()
    ]  # fmt: skip


def board_ratio(problem: str, key: str = "back_to_back_us") -> str:
    """Ours over the best public kernel in geometric mean, without and with."""
    found = [(ours, best) for kind, ours, best in board_cases(key).values() if kind == problem]
    means = [geometric_mean(ours[i] / best[i] for ours, best in found) for i in range(len(found[0][0]))]
    return span(means, 2)


# Problems whose cases could be taken for the dual GEMM's.
HEADINGS = {"gemm": "GEMM ", "gemv": "GEMV, M K L "}


def board_ratios(key: str = "back_to_back_us") -> str:
    """board_ratio() of each problem that has public kernels."""
    names = {"dual": "dual GEMM", "grouped": "grouped GEMM", "gemm": "GEMM", "gemv": "GEMV"}
    found = {kind for kind, *_ in board_cases().values()}
    return ", ".join(f"{name} {board_ratio(kind, key)}" for kind, name in names.items() if kind in found)


BOARD_HEAD = [
    "M N K, us behind other calls", "ours, **simulated**", "best public kernel, **simulated**", "ours / theirs",
    "alone",
]  # fmt: skip


def _errors() -> dict[str, list[float]]:
    """Percent by which public kernels' simulated times differ from published ones, for each clock."""
    return {
        variant: [
            abs(row["board"][variant]["theirs"]["back_to_back_us"] / row["published_us"] - 1) * 100
            for row in public()["rows"]
            if variant in row.get("board", ()) and (row["kernel"], row["case"]) != FITTED and row["problem"] != "gemv"
        ]
        for variant in CLOCK_GHZ
    }


def clock_errors() -> str:
    """How far off public kernels are: "1 to 2 % off in the mean, 3 to 4 % at most"."""
    errors = _errors().values()
    means, largest = [sum(of) / len(of) for of in errors], [max(of) for of in errors]
    return f"{span(means)} % off in the mean, {span(largest, 0)} % at most"


def board_text() -> str:
    """A sentence: which clock, what the range is, and how far off public kernels are."""
    clocks = list(CLOCK_GHZ.values())
    return (
        f"**Simulated, not measured: {clock_errors()}**, on "
        f"{span([len(of) for of in _errors().values()], 0)} published rows of "
        f"{len({row['kernel'] for row in public()['rows']})} public kernels. Each time is simulated twice: from the "
        f"kernel's PTX at an SM clock of {clocks[0]} GHz, and from its machine code, with mechanisms known from an "
        f"H200, at {clocks[1]} GHz. One more published row ({' '.join(FITTED)}) sets these clocks. Ours over the best "
        f"public kernel, in geometric mean: {board_ratios()}; alone: {board_ratios('isolated_us')}."
    )


def public_errors() -> str:
    """Every public row: published, and simulated at the chip's 1.965 GHz and at the leaderboard's clock, both ways."""
    body = []
    for row in public()["rows"]:
        times = [row["theirs"], *(row["board"][variant]["theirs"] for variant in CLOCK_GHZ if variant in row["board"])]
        cells = [
            f"{of['back_to_back_us']:.1f} ({of['back_to_back_us'] / row['published_us'] - 1:+.0%})" for of in times
        ]
        cells += [""] * (1 + len(CLOCK_GHZ) - len(cells))
        body.append([row["kernel"], row["case"], f"{row['published_us']:g}", *cells])
    heads = ["at 1.965 GHz", *(f"{name}: {ghz} GHz" for name, ghz in CLOCK_GHZ.items())]
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
