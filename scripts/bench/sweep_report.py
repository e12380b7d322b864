"""Tables of a sweep over M; reads sweep.py's record and needs no torch."""

from __future__ import annotations

from collections import Counter
from statistics import geometric_mean
from typing import Any

OURS = "auto"
AGAIN = "auto+again"  # the same variant again, for the noise
LABELS = {
    "cublas_one_gemm": "cuBLAS fp16",
    "torch_bf16": "torch bf16",
    "torch_fp32": "torch fp32",
}

Shape = tuple[int, int, int]
Sweep = dict[str, Any]  # the record: env, median_us by variant and shape, floor_us by shape, exactness


def shapes_of(record: Sweep) -> list[Shape]:
    """The shapes (M, N, K) that ours was timed at, by weights in the order measured, then by M."""
    found = [tuple(map(int, shape.split("x"))) for shape in record["median_us"][OURS]]
    order = list(dict.fromkeys(shape[1:] for shape in found))
    return sorted(found, key=lambda shape: (order.index(shape[1:]), shape[0]))  # type: ignore[return-value,arg-type]


def key(shape: Shape) -> str:
    """A shape as the record names it."""
    return "x".join(map(str, shape))


def baselines(record: Sweep) -> list[str]:
    """The baselines that have times in the record."""
    return [name for name, times in record["median_us"].items() if name in LABELS and times]


def us_text(us: float) -> str:
    """A time in us with its significant digits."""
    return f"{us:.0f}" if us >= 1000 else f"{us:.1f}"


def ratio(record: Sweep, shape: Shape, peer: str) -> float | None:
    """Ours over a peer's time; None if one is missing."""
    times = record["median_us"]
    ours, other = times[OURS].get(key(shape)), times.get(peer, {}).get(key(shape))
    return ours / other if ours and other else None


def rows(record: Sweep) -> tuple[list[str], list[list[str]]]:
    """The whole table: a row a shape, and a geometric mean for each size of weights."""
    others, floors = baselines(record), record.get("floor_us", {})
    header = ["N x K", "M", "ours, us", *(f"{LABELS[name]}, us" for name in others)]
    header += [f"ours / {LABELS[name]}" for name in others]
    header += ["floor: memory, us", "tensor, us", "ours / floor"] if floors else []
    table, shapes = [], shapes_of(record)
    for shape in shapes:
        m, n, k = shape
        ours = record["median_us"][OURS][key(shape)]
        line = [f"{n} x {k}", str(m), us_text(ours)]
        line += [
            us_text(us) if (us := record["median_us"][name].get(key(shape))) is not None else "-" for name in others
        ]
        line += [f"{r:.2f}" if (r := ratio(record, shape, name)) is not None else "-" for name in others]
        if floors:
            floor = floors.get(key(shape))
            line += [us_text(floor[0]), us_text(floor[1]), f"{ours / max(floor):.2f}"] if floor else ["-"] * 3
        table.append(line)
    for weights in dict.fromkeys(shape[1:] for shape in shapes):
        of_weights = [shape for shape in shapes if shape[1:] == weights]
        means = []
        for name in others:
            known = [r for shape in of_weights if (r := ratio(record, shape, name)) is not None]
            means.append(f"{geometric_mean(known):.3f}" if known else "-")
        line = [f"{weights[0]} x {weights[1]}", "geomean", "", *[""] * len(others), *means]
        table.append(line + [""] * (len(header) - len(line)))
    return header, table


def summary(record: Sweep) -> tuple[list[str], list[list[str]]]:
    """The short table: a row for each M, ours in us at each size of weights with its ratio to the first peer.

    Weights with a time at one M alone are no part of a sweep.
    """
    peer = baselines(record)[0]
    rows_of = Counter(shape[1:] for shape in shapes_of(record))
    weights = [size for size, count in rows_of.items() if count > 1]
    shapes = [shape for shape in shapes_of(record) if shape[1:] in weights]
    header = ["M", *(f"{n} x {k}" for n, k in weights)]
    table = []
    for m in sorted({shape[0] for shape in shapes}):
        line = [str(m)]
        for n, k in weights:
            ours, against = record["median_us"][OURS].get(key((m, n, k))), ratio(record, (m, n, k), peer)
            line.append(f"{us_text(ours)} ({against:.2f})" if ours and against else "-")
        table.append(line)
    return header, table


def exactness(record: Sweep) -> tuple[list[str], list[list[str]]]:
    """Table of the outputs outside the tolerance of float64: a row for each shape and kind of data."""
    found = record.get("exactness", {})
    names = list(dict.fromkeys(name for entry in found.values() for name in entry if name != "elements"))
    header = ["M N K", "data", "outputs", *names]
    table = []
    for of, entry in found.items():
        shape, _, kind = of.partition(" ")
        counts = [f"{entry[name]:,}" if name in entry else "-" for name in ("elements", *names)]
        table.append([shape.replace("x", " "), kind, *counts])
    return header, table
