"""Reports on the terminal: progress and tables in plain text."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, median

import torch

from eval.comparison import WIDEST, Comparison, words
from eval.hardware import chip
from eval.output import origin, record
from eval.output.outlets import whisper
from eval.output.record import Given
from eval.output.text import clean, one_line
from eval.stats import PAIRED_CONFIDENCE, Ratio, paired_interval, relative_spread
from eval.supervisor import Result
from reference.problems.interface import BOARD

PRINTED_LINES = 20  # how many of the last lines of a failed submission are shown
DIGEST_SHOWN = 12  # digits
SMALL_SHARE = 0.01  # of a time
WORTHLESS_SPREAD = 0.1  # the relative spread above which a time says little


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table; every column but the first is right-aligned."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    print(title)
    for row in (header, ["-" * width for width in widths], *rows):
        cells = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def progress(title: str, total: int) -> Callable[..., None]:
    """A function that tells standard error the name of each step.

    Its second argument says how far a step is that was named before.
    """
    done = 0

    def step(what: str, part: str = "") -> None:
        nonlocal done
        done += not part
        whisper(f"{title} {done}/{total}: {what}{part and ': '}{part}")

    return step


def shape_text(result: Result) -> str:
    """The sizes of a case, for the column that columns() heads."""
    return result.case.shape.text()


def columns(results: Sequence[Result]) -> str:
    """The heading of the sizes. All cases of a run are of one problem."""
    return results[0].case.problem.columns if results else ""


def header(given: Given, baseline: Path | None = None) -> str:
    """What is judged, and on which machine."""
    where = [chip.name(given.device)]
    if found := origin.driver(given.device):
        where.append(f"driver {found}")
    if mhz := origin.clock_mhz(given.device):
        where.append(f"{mhz:.0f} MHz now")
    asked = os.environ.get("NVFP4_BACKEND") or "auto"
    backend = asked if asked != "auto" else given.device.type
    against = f" against {baseline}" if baseline else ""
    what = f"{given.mode} of {given.submission}{against}: {given.problem}, backend {backend}"
    if given.data != BOARD:
        what += f"; {given.data} data, not the leaderboard's"
    return clean(f"{one_line(what)}\n  on {', '.join(where)}; torch {torch.__version__}")


def lacking(results: Sequence[Result]) -> str:
    """The parts that the sandbox of the results lacks; "" if it has all."""
    return "; ".join(dict.fromkeys(part for result in results for part in result.sandbox.lacking))


def footer(results: Sequence[Result], verbose: bool = False) -> str:
    """The submission's backend and libraries, if it has any, and what the sandbox lacked.

    `verbose`: all parts of the sandbox, and what a passing submission printed.
    """
    seen = record.of_results(results)
    libraries = [f"{library['name']} (sha256 {library['sha256'][:DIGEST_SHOWN]})" for library in seen["libraries"]]
    on_gpu = seen["backend"] and not seen["backend"].startswith("cpu")
    simulated = " (on the PTX simulator)" if on_gpu and os.environ.get("NVFP4_SIMULATE") == "1" else ""
    lines = [f"backend: {seen['backend']}{simulated}"] if seen["backend"] else []
    lines += [f"libraries of its own: {', '.join(libraries)}"] if libraries else []
    if verbose:
        lines += [f"sandbox: {seen['sandbox'] or 'none'}"]
        lines += dict.fromkeys(
            f"printed: {line}" for result in results if result.passed for line in result.printed.splitlines()
        )
        return clean("\n".join(lines))
    if missing := lacking(results):
        lines += [f"the sandbox LACKS {missing}"]
    if any(result.passed and result.printed for result in results):
        lines += ["the submission printed something: -v shows it"]
    return clean("\n".join(lines))


def case_notes(result: Result) -> list[str]:
    """What did not count in a case, and how far its times may be wrong if that matters."""
    return [*result.notes, *filter(None, [clock_text([result])])]


def last_words(results: Sequence[Result]) -> str:
    """A line on cases that the machine was too busy to time; "" if there are none."""
    busy = [result for result in results if result.unmeasured]
    if not busy:
        return ""
    wrong = sum(not result.passed for result in results) - len(busy)
    checked = sum(result.checked for result in busy)
    others = f"; {wrong} other cases failed" if wrong else ""
    return (
        f"{len(busy)} of {len(results)} cases NOT MEASURED: the machine was too busy, or a clock is wrong. All "
        f"{checked} of their outputs were right{others}. Run again when nothing else runs."
    )


def error_text(ratio: float | None) -> str:
    """An error / tolerance as text."""
    if ratio is None or not math.isfinite(ratio):
        return "" if ratio is None else "inf"
    short = f"{ratio:.2g}"
    return short if short != "1" else f"{ratio:.6g}"  # which side of 1 it is on decides


def print_tests(results: Sequence[Result]) -> None:
    """Prints a line per test, then each failure in full."""
    rows = [
        [
            shape_text(result),
            str(result.case.seed),
            time_text(result.seconds * 1e6) if result.seconds is not None else "",
            error_text(result.worst_error),
            "pass" if result.passed else "FAIL",
        ]
        for result in results
    ]
    kinds = {result.data for result in results} - {BOARD}
    title = f"{sum(result.passed for result in results)} of {len(results)} tests pass"
    title += f" on {', '.join(kinds)} data" if kinds else ""
    print_table(title, [columns(results), "seed", "judged in", "error / tolerance", ""], rows)
    print_failures(results)


def print_failures(results: Sequence[Result]) -> None:
    """Prints every failure; identical ones once."""
    alike: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if not result.passed:
            alike.setdefault((result.error, result.printed), []).append(result)
    for (error, printed), failed in alike.items():
        shapes = list(dict.fromkeys(shape_text(result) for result in failed))
        where = shapes[0] if len(failed) == 1 else f"{len(failed)} cases ({'; '.join(shapes)})"
        print(f"FAIL {where}: {clean(error)}".replace("\n", "\n  "))  # an error's own lines look like no other
        for line in clean(printed).splitlines()[-PRINTED_LINES:]:
            print(f"  submission: {line}")


def time_text(us: float) -> str:
    """A time with three significant digits in a suitable unit."""
    for unit in ("us", "ms"):
        if float(f"{us:.3g}") < 1000:
            return f"{us:.3g} {unit}"
        us /= 1000
    return f"{us:.3g} s" if float(f"{us:.3g}") < 1000 else f"{us:.0f} s"


def clock_text(results: Sequence[Result]) -> str:
    """How much a false clock could hide, if it is more than SMALL_SHARE of a time."""
    shares = {
        result.tolerance_us / result.median_us: result.tolerance_us
        for result in results
        if result.tolerance_us is not None and result.rounds_us
    }
    share = max(shares, default=0.0)
    if share <= SMALL_SHARE:
        return ""
    return f"a false clock of the submission could hide up to {time_text(shares[share])} a call ({100 * share:.0f} %)"


def print_benchmarks(results: Sequence[Result], chip_name: str) -> None:
    """Prints a line per benchmark with its time and the chip's speed of light, and the geometric mean."""
    floors = [chip.speed_of_light(result.case.shape, chip_name) for result in results]
    # No empty columns: single calls are not timed on a CPU, and some chips' peak rates are unknown.
    alone, known = any(result.single_us for result in results), any(floors)
    rows = []
    for result, floor in zip(results, floors, strict=True):
        if not result.passed:
            rows.append([shape_text(result), "not measured" if result.unmeasured else "FAIL"])
            continue
        row = [shape_text(result), time_text(result.median_us), f"{100 * relative_spread(result.rounds_us):.1f} %"]
        if alone:
            row += [time_text(median(result.single_us)) if result.single_us else ""]
        if known:
            row += [time_text(floor.us), f"{result.median_us / floor.us:.2f}"] if floor else ["", ""]
        rows.append([*row, f"{len(result.rounds_us)} x {result.inputs}"])
    passed = [result for result in results if result.passed]
    if passed and len(passed) == len(results):
        rows.append(["geometric mean", time_text(geometric_mean(result.median_us for result in passed))])
    header = [
        columns(results),
        "time",
        "spread",
        *["single call"] * alone,
        *["speed of light", "ratio"] * known,
        "rounds x inputs",
    ]
    rows = [[*row, *[""] * (len(header) - len(row))] for row in rows]
    print_table(f"{chip_name}: median time of a call, distinct inputs in rotation", header, rows)
    checked = sum(result.checked for result in results)
    print(f"each round: all inputs back to back, with contents never seen before; {checked} outputs checked")
    if told := clock_text(passed):
        print(told)
    for note in dict.fromkeys(f"{shape_text(result)}: {note}" for result in passed for note in result.notes):
        print(note)
    bases = "; ".join(sorted({floor.basis for floor in floors if floor}))
    print("speed of light: " + (bases or "not known for this chip; on a CPU `./nvfp4 bench cpu` compares with torch"))
    wild = [result for result in passed if relative_spread(result.rounds_us) > WORTHLESS_SPREAD]
    if wild:
        print(
            f"WARNING: the times of {'; '.join(map(shape_text, wild))} are spread so widely (more than "
            f"{100 * WORTHLESS_SPREAD:.0f} %) that they say little: is the machine busy?"
        )
    clocks = [result.clock_mhz for result in results if result.clock_mhz]
    if clocks:
        print(f"SM clock right after a timed round: {min(clocks):.0f} to {max(clocks):.0f} MHz")
    print_failures(results)


def print_comparisons(compared: Sequence[Comparison], chip_name: str) -> None:
    """Prints a line per case with both times, their ratio, its interval and the verdict."""
    rows = []
    for one in compared:
        shape = shape_text(one.own)
        if not one.passed:
            failed = "FAIL" if one.own.error else "baseline FAILs"
            rows.append([shape, *("",) * 5, failed])
            continue
        times = [time_text(side.median_us) for side in (one.own, one.baseline)]
        pairs = str(len(one.own.rounds_us))
        rows.append([shape, *times, pairs, *ratio_texts(one.ratio), one.verdict])
    if len(compared) > 1 and all(one.ratio for one in compared):
        ratio = paired_interval([(one.own.rounds_us, one.baseline.rounds_us) for one in compared])
        busy, favoured = any(one.busy for one in compared), any(one.favoured for one in compared)
        rows.append(["geometric mean", "", "", "", *ratio_texts(ratio), words(ratio, busy, favoured)])
    interval = f"{100 * PAIRED_CONFIDENCE:.0f} % interval"
    sizes = columns([one.own for one in compared])
    header = [sizes, "submission", "baseline", "pairs", "ratio", interval, "the submission is"]
    print_table(f"{chip_name}: median times of a call, in pairs of processes", header, rows)
    alike = [one.ratio for one in compared if one.ratio and one.ratio.low <= 1 <= one.ratio.high]
    unseen = max((max(ratio.high - 1, 1 - ratio.low) for ratio in alike), default=0.0)
    if unseen > WIDEST / 2:
        print(f"the processes of a file differ: a difference of less than {100 * unseen:.0f} % may not show")
    for one in compared:
        for note in one.own.notes:
            print(f"{shape_text(one.own)}: {note}")
    print_failures([one.own for one in compared])
    failed = [replace(one.baseline, error=f"the baseline: {one.baseline.error}") for one in compared]
    print_failures([result for result, one in zip(failed, compared, strict=True) if one.baseline.error])


def ratio_texts(ratio: Ratio | None) -> list[str]:
    """A ratio and its interval as text; without one, empty cells."""
    if ratio is None:
        return ["", ""]
    return [f"{ratio.ratio:.4f}", f"{ratio.low:.4f} to {ratio.high:.4f}"]
