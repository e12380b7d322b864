"""Writes the tables of results in PAGES from the measurements in shark_tank/.

A table stands between <!-- generated:NAME --> and <!-- /generated:NAME --> in one of the pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

from eval.cases import read_cases
from eval.hardware import chip
from reference.problems import PROBLEMS
from scripts.bench import sweep_report
from scripts.common.measured import read
from scripts.rounds.pages.words import BASELINES
from simulator.calibration.calls.board_times import alone_text, board_text, clock_errors, means, of_published, span
from simulator.calibration.calls.experts import floor_us
from simulator.python.markdown import table

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "shark_tank/RESULTS.md", "scripts/release/README.md")
GROUP_BASELINES = {
    "cublas_groups": "cuBLAS fp16, one GEMM a group on dequantized operands",
    "grouped_mm": "`torch._grouped_mm`, bf16, on dequantized operands",
}


def hopper(data: dict[str, Any], baselines: dict[str, str] = BASELINES) -> str:
    """The final comparison on a Hopper GPU: medians in us and the geometric mean of our time over each baseline's."""
    ours = data["median_us"]["auto"]
    shapes = list(ours)
    rows = []
    for name, label in {"auto": "**this package**", **baselines}.items():
        times = data["median_us"].get(name)
        if times:
            ratio = geometric_mean(ours[shape] / times[shape] for shape in shapes)
            figures = [f"{times[shape]:.1f}" for shape in shapes]
            rows.append([label, *figures, f"{geometric_mean(times.values()):.1f}", f"{ratio:.2f}"])
    header = ["us a call", *(shape.replace("x", " ") for shape in shapes), "geomean", "our time / its time"]
    return f"{data['chip']}, driver {data['driver']}, commit {data['commit'][:7]}:\n\n" + table(header, rows)


# Of each problem: its heading, the recorded comparison (compare.py), the peer in it, and the peer's description.
SERIES = {
    "dual_gemm": ("dual GEMM", "hopper_comparison.json", "cublas_one_gemm", "cuBLAS fp16 without SiLU"),
    "group_gemm": ("grouped GEMM", "group_gemm_comparison.json", "cublas_groups", "cuBLAS fp16, a call a group"),
    "gemm": ("GEMM", "h200_gemm.json", "cublas_product", "cuBLAS fp16"),
    "gemv": ("GEMV", "h200_gemv.json", "copy", "a copy of as many bytes"),
}


class Benchmarks(NamedTuple):
    """A problem's benchmarks on a card, in the case file's order: ours, the peer's, the floor of the data sheet; us."""

    ours: list[float]
    peers: list[float]
    floors: list[float]

    def ratio(self, other: list[float]) -> float:
        """Ours over the other, in geometric mean."""
        return geometric_mean(self.ours) / geometric_mean(other)


def benchmarks(name: str) -> Benchmarks:
    """The recorded comparison of a problem."""
    _, file, peer, _ = SERIES[name]
    record = read(ROOT / "shark_tank/data" / file)
    ours, theirs = record["median_us"]["auto"], record["median_us"][peer]
    shapes = [case.shape for case in read_cases(ROOT / PROBLEMS[name].cases / "benchmark.txt")]
    floors = [chip.speed_of_light(shape, record["chip"]) for shape in shapes]
    if len(ours) != len(shapes) or list(ours) != list(theirs) or None in floors:
        raise ValueError(f"{file} has other shapes than the benchmarks of {name}, or of an unknown chip")
    return Benchmarks([*ours.values()], [*theirs.values()], [floor.us for floor in floors if floor is not None])


def values(times: Iterable[float]) -> str:
    """Times of the benchmarks in their order."""
    return ", ".join(f"{us:.1f}" for us in times)


def series(data: dict[str, Any]) -> str:
    """All problems on a card by shape, each beside its peer and its floor."""
    head = ["us a call", "this package", "peer", "its times", "floor", "our time / its", "our time / floor"]
    rows = []
    for name, (heading, _, _, described) in SERIES.items():
        found = benchmarks(name)
        cells = [heading, f"**{values(found.ours)}**", described, values(found.peers), values(found.floors)]
        rows.append([*cells, f"{found.ratio(found.peers):.3f}", f"{found.ratio(found.floors):.2f}"])
    floor = chip.peak(data["chip"])
    said = f"{data['chip']}, driver {data['driver']}; floor: {floor.source}" if floor else data["chip"]
    return f"{said}; ratios in geometric mean:\n\n" + table(head, rows)


ON_THE_BOARDS_CLOCK = {"dual_gemm": "dual", "group_gemm": "grouped", "gemm": "gemm"}  # problems in board_times.py


def front(data: dict[str, Any]) -> str:
    """A row a problem: geometric means of the benchmarks, measured on a card and simulated for the leaderboard's."""
    card = data["chip"].removeprefix("NVIDIA ")
    head = ["us, geometric mean of the benchmarks", f"{card}, **measured**", "its peer there", "ours / peer"]
    head += ["B200, **simulated**", "best published, B200", "ours / published"]
    rows = []
    for name, (heading, _, _, described) in SERIES.items():
        found = benchmarks(name)
        measured = [f"**{geometric_mean(found.ours):.1f}**", f"{geometric_mean(found.peers):.1f}, {described}"]
        simulated = ["not simulated", "", ""]
        if name in ON_THE_BOARDS_CLOCK:
            on_board = means(ON_THE_BOARDS_CLOCK[name])
            simulated = [span(on_board.ours), f"{on_board.published:.1f}", of_published(on_board)]
        rows.append([heading, *measured, f"{found.ratio(found.peers):.2f}", *simulated])
    said = f"A ratio below 1: ours is faster. The clock that simulated is, on public kernels, {clock_errors()}"
    said += " ([more](#results)). Simulating the GEMV takes most of an hour: it has no time here."
    return f"{table(head, rows)}\n\n{said}"


def sweep(data: dict[str, Any]) -> str:
    """Ours at every M with its ratio to cuBLAS, at the sizes of weights swept; outputs that are not exact enough."""
    said = f"{data['chip']}, driver {data['driver']}, commit {data['commit'][:7]}; us a call (ours / cuBLAS):\n\n"
    inexact = "\n\nOutputs outside rtol = atol = 1e-3 of float64, several draws together:\n\n"
    return said + table(*sweep_report.summary(data)) + inexact + table(*sweep_report.exactness(data))


def group_hopper(data: dict[str, Any]) -> str:
    """The table of hopper() for the grouped GEMM."""
    return hopper(data, GROUP_BASELINES)


def cpu(data: dict[str, Any], columns: str = "M N K", one: str = "two matmuls") -> str:
    """The CPU backend against torch: medians in ms and ratios repeat by repeat."""
    names = ("same job", "matmuls alone")
    rows = [
        [
            row.get("text") or f"{row['m']} {row['n']} {row['k']}",
            *(f"{row[f'{name}, ms']:.1f}" for name in ("ours", *names)),
            *(f"{row[f'ratio, {name}']:.2f}" for name in names),
        ]
        for row in data["shapes"]
    ]
    rows.append(["geometric mean", "", "", "", *(f"{data['geomean'][name]:.2f}" for name in names)])
    header = [columns, "ours, ms", "torch, same job, ms", f"torch, {one}, ms", "same job / ours", "matmuls / ours"]
    return f"{data['environment']}:\n\n" + table(header, rows)


AMX_LEAST_ROWS = 8  # submission/cpu/kernels/tiles.h: BF16_LEAST_ROWS


def cpu_rows(data: dict[str, Any]) -> str:
    """The set that the library takes where there is AMX, over M, with its ratio to torch's bf16, round by round."""
    record = data["rows_of_b_as_they_lie"]
    shapes = [tuple(map(int, shape.split("x"))) for shape in record["ms"]]
    weights = list(dict.fromkeys(shape[1:] for shape in shapes))
    rows = []
    for m in dict.fromkeys(shape[0] for shape in shapes):
        name = "amx" if m >= AMX_LEAST_ROWS else "avx512"
        cells = []
        for n, k in weights:
            ms, ratio = (record[what].get(f"{m}x{n}x{k}", {}).get(name) for what in ("ms", "paired"))
            cells.append("" if ms is None else f"{ms:.1f} ({ratio:.2f})")
        rows.append([str(m), {"amx": "AMX", "avx512": "AVX-512"}[name], *cells])
    return f"{data['chip']}, 2 threads; torch {data['versions']['torch']}; ms a call (ours / torch bf16):\n\n" + table(
        ["M", "set", *(f"{n} x {k}" for n, k in weights)], rows
    )


def group_cpu(data: dict[str, Any]) -> str:
    """The table of cpu() for the grouped GEMM."""
    return cpu(data, "M; N; K of the groups", "matmuls")


def group_host(data: dict[str, Any]) -> str:
    """The table of host() for the grouped GEMM's shim."""
    return (
        f"A call of the shim costs {data['shim_us']:.1f} us of host time with 8 groups, without the work itself\n"
        f"({data['processor']}), {data['package_us']:.1f} us in the package and {data['packing_us']:.1f} us "
        f"where the\nlibrary cannot read torch's tensors itself (it can with torch {data['torch'].split('+')[0]})."
    )


def host(data: dict[str, Any]) -> str:
    """The shim's host cost of a call."""
    return (
        f"A call of the shim costs {data['shim_us']:.1f} us of host time without the work itself "
        "(minimal CPU problem,\n"
        f"{data['processor']}), {data['ctypes_us']:.1f} us of them for the ctypes call. In the package, which checks "
        f"the\nmemory of all tensors, it costs {data['package_us']:.1f} us."
    )


def first_import(data: dict[str, Any]) -> str:
    """Times of a bundle's first import, which compiles it, and of a later one."""
    rows = [
        [f"`{target}`", *(f"{figures[when][what]:.1f}" for when in ("first", "later") for what in ("wall_s", "cpu_s"))]
        for target, figures in data["targets"].items()
    ]
    header = ["target", "first import, s", "of processors", "a later one, s", "of processors"]
    return f"{data['processor']}; torch {data['torch']}; medians of {data['repeats']}:\n\n" + table(header, rows)


def blackwell(data: dict[str, Any]) -> str:
    """The simulated B200: ours beside the best published times and the best kernels simulated beside."""
    del data  # board_times reads the document
    return f"{board_text()}\n\n{alone_text()}"


def blackwell_summary(data: dict[str, Any]) -> str:
    """The same table with the dual GEMM's shapes and each problem's means."""
    del data
    return board_text(("dual",))


def modules(data: dict[str, Any]) -> str:
    """A whole MLP's time over bf16's, by size and number of tokens."""
    times: dict[str, dict[str, dict[str, float]]] = {}
    for row, us in data["us_a_layer"].items():
        size, tokens = row.split(", ")
        times.setdefault(size, {})[tokens] = us
    tokens = list(next(iter(times.values())))
    rows = [
        [size.replace("x", " x "), kind, *(f"{of[t][kind] / of[t]['bf16']:.2f}" for t in tokens)]
        for size, of in times.items()
        for kind in ("4-bit", "16-bit")
    ]
    return f"{data['chip']}, torch {data['torch']}:\n\n" + table(
        ["MLP: time / bf16's", "activations", *(f"{t} tokens" for t in tokens)], rows
    )


def between(data: dict[str, Any]) -> str:
    """Products at a model's sizes over cuBLAS in bf16: the geometric mean over sizes, and the worst one."""
    columns = {"plain": "plain", "gated": "gated", "bf16 A plain": "plain, 16-bit A", "bf16 A": "gated, 16-bit A"}
    sizes = list(data["us"].values())
    rows = []
    for m in sizes[0]:
        over = [[of[m][name] / of[m]["torch bf16"] for of in sizes] for name in columns]
        rows.append([m, *(f"{geometric_mean(one):.2f} ({max(one):.2f})" for one in over)])
    return f"{data['device']}:\n\n" + table(["rows: time / bf16's (worst size)", *columns.values()], rows)


def experts(data: dict[str, Any]) -> str:
    """Both products of a mixture of experts, over torch's grouped product in bf16."""
    ratios: dict[str, dict[int, float]] = {}
    for row in data["rows"]:
        ratios.setdefault(row["product"], {})[row["tokens"]] = row["ratio"]
    tokens = list(next(iter(ratios.values())))
    rows = [[product, *(f"{of[t]:.2f}" for t in tokens)] for product, of in ratios.items()]
    return table(["128 experts: time / bf16's", *(f"{t} tokens" for t in tokens)], rows)


def experts_layer(data: dict[str, Any]) -> str:
    """A whole layer of experts beside torch's in bf16: us, and the host's part of an eager call."""
    rows = [
        [str(row["tokens"]), *(f"{row[name]:.0f}" for name in ("us", "16-bit", "bf16", "host", "bf16 host"))]
        for row in data["rows"]
    ]
    head = ["tokens", "4-bit, us", "16-bit, us", "bf16, us", "host, us", "bf16's host, us"]
    return f"{data['device']}, torch {data['torch']}:\n\n" + table(head, rows)


def model(data: dict[str, Any]) -> str:
    """A step and a prefill of a Llama, as times over bf16's, and memory."""
    rows = [
        [f"{name}{', compiled' if how == 'compiled' else ''}", f"{bf16:.2f}", *(
            f"{data[how][kind][name] / bf16:.2f}" if kind in data[how] else "" for kind in ("W4A16", "W4A4", "token")
        )]
        for how in ("graph", "compiled")
        for name, bf16 in data[how]["bf16"].items()
        if how == "graph" or name.startswith("decode")
    ]  # fmt: skip
    head = [f"Llama {data['size']}", "bf16", "16-bit / bf16", "4-bit / bf16", "4-bit, a scale a token / bf16"]
    return f"{data['chip']}, torch {data['torch']}:\n\n" + table(head, rows)


def simulated_experts(data: dict[str, Any]) -> str:
    """The same products on the clocks of two chips, and the time of reading the weights once."""
    chips = {"blackwell": "B200", "geforce": "RTX 5090"}
    rows = []
    for row in data["rows"]:
        backend, product = row["backend"], row["product"]
        times = [f"{us:.1f} ({floor_us(backend, product, int(tokens)):.1f})" for tokens, us in row["us"].items()]
        rows.append([f"{chips[backend]}, {product}", *times])
    tokens = data["rows"][0]["us"]
    return table(["**simulated** us (weights read once)", *(f"{one} tokens" for one in tokens)], rows)


def experts_peers(data: dict[str, Any]) -> str:
    """The same products beside a public library's kernels: one run, then ours of a later one."""
    described = {
        "ours": "this package then, A in 4 bits", "humming": f"humming {data['humming']}, A in 16 bits",
        "bf16": "`torch._grouped_mm`, bf16", "now": "**this package now**, another run",
    }  # fmt: skip
    tokens = list(dict.fromkeys(row["tokens"] for row in data["rows"]))
    rows = [
        [f"{product}: {text}", *(f"{row[name]:.1f}" for row in data["rows"] if row["product"] == product)]
        for product in dict.fromkeys(row["product"] for row in data["rows"])
        for name, text in described.items()
    ]
    return table(["us a call", *(f"{t} tokens" for t in tokens)], rows)


# Name -> the measurements, and the function that writes the block.
BLOCKS: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "blackwell-summary": ("simulator/calibration/data/public_kernels.json", blackwell_summary),
    "front": ("shark_tank/data/hopper_comparison.json", front),
    "series": ("shark_tank/data/hopper_comparison.json", series),
    "hopper": ("shark_tank/data/hopper_comparison.json", hopper),
    "sweep": ("shark_tank/data/h200_sweep_now.json", sweep),
    "blackwell": ("simulator/calibration/data/public_kernels.json", blackwell),
    "cpu": ("shark_tank/data/cpu_comparison.json", cpu),
    "cpu-rows": ("shark_tank/data/cpu_amx.json", cpu_rows),
    "group-hopper": ("shark_tank/data/group_gemm_comparison.json", group_hopper),
    "group-cpu": ("shark_tank/data/group_gemm_cpu.json", group_cpu),
    "group-host": ("shark_tank/data/group_gemm_host.json", group_host),
    "between": ("shark_tank/data/h200_between.json", between),
    "modules": ("shark_tank/data/h200_modules.json", modules),
    "experts": ("shark_tank/data/h200_experts.json", experts),
    "experts-layer": ("shark_tank/data/h200_experts_layer.json", experts_layer),
    "model": ("shark_tank/data/h200_model.json", model),
    "simulated-experts": ("simulator/calibration/data/experts_calls.json", simulated_experts),
    "experts-peers": ("shark_tank/data/h200_experts_peers.json", experts_peers),
    "host": ("shark_tank/data/host_cost.json", host),
    "first-import": ("shark_tank/data/first_import.json", first_import),
}


def render(text: str, root: Path = ROOT) -> str:
    """A page with each of its blocks written anew. Raises ValueError for a block that no one writes."""

    def block(found: re.Match[str]) -> str:
        name = found[1]
        if name not in BLOCKS:
            raise ValueError(f"<!-- generated:{name} -->: no such block")
        path, write = BLOCKS[name]
        return f"<!-- generated:{name} -->\n{write(read(root / path))}\n<!-- /generated:{name} -->"

    return re.sub(r"<!-- generated:([\w-]+) -->.*?<!-- /generated:\1 -->", block, text, flags=re.S)


def write(check: bool) -> list[str]:
    """The pages that are not current; writes them unless `check`."""
    stale = {page: new for page in PAGES if (new := render(old := (ROOT / page).read_text())) != old}
    if not check:
        for page, new in stale.items():
            (ROOT / page).write_text(new)
    return list(stale)
