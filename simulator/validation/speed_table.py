"""Times the backends' kernels on the simulator on the leaderboard's fourteen shapes, with all checks on.

Writes simulator/results/SPEED.md; the machine should have nothing else to do.

usage: ./nvfp4 validate speed_table [MODE ...]  (default: eager late random:1; BUILD: the folder of the library)
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from simulator.python.toolchain import BUILD

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = ("hopper", "blackwell")
DRIVER = """
import json, resource, sys, time
import torch
torch.set_num_threads(1)
from reference.reference import generate_input
from submission.submission import custom_kernel
for m, n, k in json.loads(sys.argv[1]):
    data = generate_input(m=m, n=n, k=k, l=1, seed=1111, device="cpu")
    user, begin = resource.getrusage(resource.RUSAGE_SELF).ru_utime, time.perf_counter()
    custom_kernel(data)
    took = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_utime - user
    print(json.dumps(took), flush=True)
"""


def shapes() -> list[tuple[int, int, int]]:
    """M, N, K of the ten tests and the four benchmarks."""
    found = []
    for name in ("test", "benchmark"):
        for line in (ROOT / f"reference/problems/dual_gemm/{name}.txt").read_text().splitlines():
            sizes = {key: int(value) for key, value in re.findall(r"(\w+):\s*(\d+)", line)}
            if sizes:
                found.append((sizes["m"], sizes["n"], sizes["k"]))
    return found


def measure(backend: str, mode: str) -> list[tuple[float, float]]:
    """Seconds and user CPU seconds of the call of each shape."""
    environment = dict(
        os.environ,
        NVFP4_LIBRARY=str(BUILD / "libcustom_kernel_sim.so"),
        NVFP4_BACKEND=backend,
        NVFP4_SIMULATE="1",
        NVFP4_SIMULATE_MODE=mode,
        PYTHONPATH=str(ROOT),
    )
    command = [sys.executable, "-c", DRIVER, json.dumps(shapes())]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def cpu() -> str:
    """The processor's vendor, number of cores and widest vectors, from /proc."""
    text = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.*)", text)
    widest = "AVX-512" if "avx512f" in text else "AVX2" if "avx2" in text else "no AVX2"
    name = model.group(1) if model else "a processor"
    vendor = "AMD EPYC" if "EPYC" in name else "Intel Xeon" if "Xeon" in name else name
    return f"{vendor}, {os.cpu_count()} cores, {widest}"


def main() -> None:
    """Measures, and writes the table."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 validate speed_table", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modes", nargs="*", metavar="MODE", help="eager, late, reverse, random:SEED, poison")
    modes = parser.parse_args().modes or ["eager", "late", "random:1"]
    columns = [(backend, mode) for backend in BACKENDS for mode in modes]
    times = {column: measure(*column) for column in columns}
    lines = [
        "# Speed on the leaderboard's shapes",
        "",
        f"Seconds of the host ({cpu()}) for one call of `custom_kernel` with all checks on, and in",
        "brackets user CPU seconds, which other work on the machine changes less (evidence class `simulated`).",
        f"`./nvfp4 validate speed_table {' '.join(modes)}` writes this page.",
        "",
        "| M N K | " + " | ".join(" ".join(column) for column in columns) + " |",
        "| --- |" + " ---: |" * len(columns),
    ]
    cell = "{:.1f} ({:.1f})".format
    for row, shape in enumerate(shapes()):
        lines.append(f"| {' '.join(map(str, shape))} | " + " | ".join(cell(*times[c][row]) for c in columns) + " |")
    sums = [cell(*(sum(value) for value in zip(*times[column], strict=True))) for column in columns]
    lines.append("| all fourteen | " + " | ".join(sums) + " |")
    (ROOT / "simulator/results/SPEED.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
