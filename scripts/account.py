"""What the GPU kernels move and compute per benchmark shape, by the simulator's counters; and what that may take.

    make simulator && python scripts/account.py [--json FILE]

Counts are `simulated`, rates are published, times are `predicted`.  The model: a call takes a fixed time and the time
of the busiest resource.  The fixed time, and the share of the published rate that kernels reach, are fitted to times of
others' Blackwell kernels with the same tiles (`judged`), and for Hopper to our own (`measured:H200`): the residuals say
what the account is worth.  Dependent launch is taken to gain on a B200 what a launch gains by it on an H200.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SHAPES = ((256, 4096, 7168), (512, 4096, 7168), (256, 3072, 4096), (512, 3072, 7168))
# Best public time for each shape, by kernels of CTA pairs with 256 x 64 and 256 x 128 tiles.
PUBLISHED_US = (12.4, 15.3, 9.43, 14.4)
MEASURED = ROOT / "shark_tank" / "hopper_comparison.json"
HOPPER_LAUNCHES = 2  # a call: the expansion of A, the GEMM

DRIVER = """
import sys
from reference.reference import generate_input
from submission.submission import custom_kernel
m, n, k = map(int, sys.argv[1:])
custom_kernel(generate_input(m=m, n=n, k=k, l=1, seed=1111))
"""


class Chip(NamedTuple):
    """Published rates; bytes and cycles are an SM's, but for device memory."""

    sms: int
    clock_ghz: float
    memory_tb_s: float
    l2_to_sm_bytes: int = 64  # a cycle
    shared_bytes: int = 128
    special_functions: int = 16


CHIPS = {"blackwell": Chip(148, 1.85, 7.68), "hopper": Chip(132, 1.755, 4.8)}


class Account(NamedTuple):
    """One shape on one back end: counts, and the microseconds that each resource alone would take."""

    shape: tuple[int, int, int]
    config: str
    ctas: int
    memory_mb: float  # compulsory: operands, scale factors, C
    l2_mb: float  # through TMA, a multicast once
    sm_kb: float  # into the busiest SM
    bounds_us: dict[str, float]

    @property
    def binding(self) -> str:
        return max(self.bounds_us, key=lambda name: self.bounds_us[name])


def configs(backend: str) -> dict[str, list[int]]:
    """The table of submission/*/config.h."""
    text = (ROOT / "submission" / backend / "config.h").read_text()
    return {
        row[0]: [int(value) for value in row[1].split(",")]
        for row in re.findall(r"^ +X\((\w+), ([\d, ]+)\)", text, re.M)
    }


def counters(backend: str, shape: tuple[int, int, int], config: str = "") -> dict[str, float]:
    """The simulator's counters of one call; RuntimeError with its messages where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        environment = dict(os.environ, NVFP4_SIMULATE="1", NVFP4_BACKEND=backend, NVFP4_SIMULATE_CHECKS="0")
        environment |= {"NVFP4_SIMULATE_JSON": str(report), f"NVFP4_{backend.upper()}_CONFIG": config}
        command = [sys.executable, "-c", DRIVER, *map(str, shape)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        return json.loads(report.read_text())["counters"]


def memory_bytes(m: int, n: int, k: int) -> int:
    return (m + 2 * n) * (k // 2 + k // 16) + 2 * m * n


def blackwell_config(m: int, n: int, ctas: int) -> str:
    """Which configuration launches so many CTAs."""
    for name, (features, _, group, *_) in configs("blackwell").items():
        if -(-m // (128 * group)) * group * -(-n // features) == ctas:
            return name
    raise RuntimeError(f"no configuration makes {ctas} CTAs of {m} x {n}")


def account_blackwell(shape: tuple[int, int, int]) -> Account:
    m, n, k = shape
    chip, counted = CHIPS["blackwell"], counters("blackwell", shape)
    ctas = int(counted["ctas"])
    config = blackwell_config(m, n, ctas)
    features, _, group, *_ = configs("blackwell")[config]
    waves, stages = -(-ctas // (chip.sms // group * group)), -(-k // 256)
    codes_a, codes_b, scales = 128 * 128, features // group * 128, 2048
    sm_bytes = waves * stages * (codes_a + 2 * codes_b + 3 * scales)
    # The tensor cores read A once for both products (the collector), B, and copy the scale factors.
    shared_bytes = 2 * sm_bytes
    cycle_us = 1e-3 / chip.clock_ghz
    bounds = {
        "memory": memory_bytes(m, n, k) / chip.memory_tb_s * 1e-6,
        "L2 to SM": sm_bytes / chip.l2_to_sm_bytes * cycle_us,
        "shared": shared_bytes / chip.shared_bytes * cycle_us,
        "tensor": waves * counted["tensor_cycles"] / ctas * cycle_us,
        "epilogue": waves * 128 * features * 1.5 / chip.special_functions * cycle_us,
    }
    return Account(
        shape, config, ctas, memory_bytes(m, n, k) / 1e6, counted["tma_load_bytes"] / 1e6, sm_bytes / 1e3, bounds
    )


def account_hopper(shape: tuple[int, int, int]) -> Account:
    m, n, k = shape
    chip, counted = CHIPS["hopper"], counters("hopper", shape)
    # The expansion's CTAs have no tensor work: those of the GEMM are told by its tiles.
    cycles, cycle_us = counted["tensor_cycles"], 1e-3 / chip.clock_ghz
    busy = 128  # one wave of 128 CTAs at each of the four shapes (tests/test_hopper.py)
    sm_bytes = counted["tma_load_bytes"] / busy
    bounds = {
        "memory": memory_bytes(m, n, k) / chip.memory_tb_s * 1e-6,
        "L2 to SM": sm_bytes / chip.l2_to_sm_bytes * cycle_us,
        "tensor": cycles / busy * cycle_us,
    }
    return Account(
        shape, "", busy, memory_bytes(m, n, k) / 1e6, counted["tma_load_bytes"] / 1e6, sm_bytes / 1e3, bounds
    )


def fit(x: list[float], y: list[float]) -> tuple[float, float]:
    """Least squares: y = fixed + slope * x."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)
    return mean_y - slope * mean_x, slope


def geomean(values: list[float]) -> float:
    return math.exp(sum(math.log(value) for value in values) / len(values))


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def bounds_table(accounts: list[Account]) -> str:
    names = list(accounts[0].bounds_us)
    header = ["M N K", "tile", "CTAs", "device memory MB", "L2 MB", "one SM KB", *(f"{name} us" for name in names)]
    rows = [
        [
            " ".join(map(str, a.shape)),
            a.config or "-",
            str(a.ctas),
            f"{a.memory_mb:.1f}",
            f"{a.l2_mb:.1f}",
            f"{a.sm_kb:.0f}",
            *(f"**{us:.2f}**" if name == a.binding else f"{us:.2f}" for name, us in a.bounds_us.items()),
        ]
        for a in accounts
    ]
    return table(header, rows)


def times_table(
    accounts: list[Account], known: list[float], source: str, gain_us: float
) -> tuple[str, dict[str, object]]:
    """Known times against the fit, and (Blackwell) what dependent launch would leave of it."""
    x = [max(a.bounds_us.values()) for a in accounts]
    fixed, slope = fit(x, known)
    fitted = [fixed + slope * value for value in x]
    header = ["M N K", f"known us ({source})", "fitted us", "error"]
    rows = [
        [" ".join(map(str, a.shape)), f"{us:.2f}", f"{f:.2f}", f"{f / us - 1:+.1%}"]
        for a, us, f in zip(accounts, known, fitted, strict=True)
    ]
    rows.append(["geomean", f"{geomean(known):.2f}", f"{geomean(fitted):.2f}", ""])
    found: dict[str, object] = {"fixed_us": fixed, "slope": slope, "fitted_us": fitted}
    if gain_us:
        predicted = [value - gain_us for value in fitted]
        header.append("predicted with dependent launch")
        for row, us in zip(rows, [*predicted, geomean(predicted)], strict=True):
            row.append(f"{us:.2f}")
        found["predicted_us"] = predicted
    return table(header, rows), found


def explanations(accounts: list[Account], known: list[float]) -> str:
    """How well each resource alone explains the known times: the worst error of its fit."""
    rows = []
    for name in accounts[0].bounds_us:
        x = [a.bounds_us[name] for a in accounts]
        fixed, slope = fit(x, known)
        worst = max(abs(fixed + slope * value - us) / us for value, us in zip(x, known, strict=True))
        rows.append([name, f"{fixed:.2f}", f"{slope:.2f}", f"{worst:.1%}"])
    return table(["if this resource binds", "fixed us", "times its bound", "worst error"], rows)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="write every figure there")
    options = parser.parse_args(arguments)
    measured = json.loads(MEASURED.read_text())["median_us"]
    keys = ["x".join(map(str, shape)) for shape in SHAPES]
    hopper_us, plain_us = ([measured[name][key] for key in keys] for name in ("auto", "auto+plain"))
    gain = sum(b - a for a, b in zip(hopper_us, plain_us, strict=True)) / len(keys) / HOPPER_LAUNCHES
    result: dict[str, object] = {"dependent_launch_gain_us": gain}
    for backend, build, known, source in (
        ("blackwell", account_blackwell, list(PUBLISHED_US), "judged, best public"),
        ("hopper", account_hopper, hopper_us, "measured:H200, ours"),
    ):
        accounts = [build(shape) for shape in SHAPES]
        text, found = times_table(accounts, known, source, gain if backend == "blackwell" else 0.0)
        print(f"{backend}: counts (simulated) and what each resource alone takes (published rates)\n")
        print(bounds_table(accounts))
        print(f"\n{text}\n\nfixed {found['fixed_us']:.2f} us, then {found['slope']:.2f} times the bold bound\n")
        print(f"{explanations(accounts, known)}\n")
        result[backend] = {"accounts": [a._asdict() for a in accounts], **found}
    print(f"dependent launch gains {gain:.2f} us a launch (measured:H200)")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
