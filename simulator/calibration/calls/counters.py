"""Counts what variants of the Blackwell kernels do at the benchmark shapes, on the simulator, for `scripts.rounds`.

    python -m simulator.calibration.calls.counters --variant base=m256n64 \\
        --variant wide=m256n64@FILE.so --json FILE.json

A variant is a configuration (or `auto`) of a library.  Its results are checked, and it is checked for hazards in two
modes.  Counts are exact and the same on every machine; they are not times.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from scripts.common.toolchain import BUILD
from scripts.rounds.model import benchmark_shapes, write_json

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = BUILD / "libcustom_kernel_sim.so"
MODES = ("late", "random:1")
KEPT = (
    "ctas",
    "instructions",
    "tma_load_bytes",
    "tma_store_bytes",
    "global_store_sectors",
    "global_store_bytes",
    "shared_load_bytes",
    "shared_store_bytes",
    "shared_wavefronts",
    "shared_ideal_wavefronts",
    "tensor_instructions",
    "tensor_cycles",
    "async_operations",
    "barrier_waits",
    "barrier_waits_blocked",
)
ROLES = {"load": (0,), "mma": (1,), "epilogue": tuple(range(2, 10))}  # the warps of a Blackwell CTA

CALL = """
import hashlib, sys
from reference.reference import generate_input
from submission.submission import custom_kernel
m, n, k = map(int, sys.argv[1].split("x"))
output = custom_kernel(generate_input(m=m, n=n, k=k, l=1, seed=1111))
print(hashlib.sha256(output.contiguous().numpy().tobytes()).hexdigest())
"""
CHECK = ("-m", "scripts.bench.check_gpu", "--device", "cpu", "--only", "rings")


def simulate(
    command: list[str], backend: str, config: str, library: Path, **environment: str
) -> tuple[dict[str, Any], str]:
    """The simulator's report on a process, and the process's output; RuntimeError with that output if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        settings = {
            "NVFP4_SIMULATE": "1",
            "NVFP4_BACKEND": backend,
            "NVFP4_LIBRARY": str(library),
            "NVFP4_SIMULATE_JSON": str(report),
            f"NVFP4_{backend.upper()}_CONFIG": "" if config == "auto" else config,
            "PYTHONPATH": str(ROOT),
            **environment,
        }
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=os.environ | settings, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{backend} {config}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return json.loads(report.read_text()), done.stdout


@cache
def counters(shape: str, backend: str, config: str, library: Path = LIBRARY) -> tuple[dict[str, int], str]:
    """Counts of one call, a Blackwell kernel's instructions also by role, and a digest of its output.

    Copies complete as late as they may, so that every wait that can block does.
    """
    settings = {"NVFP4_SIMULATE_CHECKS": "0", "NVFP4_SIMULATE_MODE": "late"}
    report, printed = simulate(["-c", CALL, shape], backend, config, library, **settings)
    found = report["counters"]
    kept = {name: found[name] for name in KEPT}
    warps = {warp["index"]: warp for warp in found["instructions_by_warp"]}
    if backend == "blackwell" and len(warps) == sum(map(len, ROLES.values())):
        for role, places in ROLES.items():
            kept[f"{role}_instructions"] = sum(warps[place]["instructions"] for place in places)
    return kept, printed.strip()


@cache
def checked(config: str, library: Path) -> dict[str, dict[str, Any]]:
    """Whether results are right and the simulator's verdict, in each mode: full inputs, several lengths of K."""
    found = {}
    for mode in MODES:
        words = [*CHECK, "--configs", "" if config == "auto" else config]
        try:
            report, _ = simulate(words, "blackwell", config, library, NVFP4_SIMULATE_MODE=mode)
            found[mode] = {"right": True, "verdict": report["verdict"]}
        except RuntimeError as error:
            found[mode] = {"right": False, "verdict": str(error)[-500:]}
    return found


def for_rounds(variants: dict[str, tuple[str, Path]], command: str) -> dict[str, Any]:
    """Counts and checks of the variants."""
    counted = {
        name: {shape: counters(shape, "blackwell", config, library) for shape in benchmark_shapes(ROOT)}
        for name, (config, library) in variants.items()
    }
    return {
        "command": command,
        "correct": {name: checked(config, library) for name, (config, library) in variants.items()},
        "counters": {name: {shape: found[0] for shape, found in of.items()} for name, of in counted.items()},
        "outputs_sha256": {name: {shape: found[1] for shape, found in of.items()} for name, of in counted.items()},
    }


def main(arguments: list[str]) -> int:
    """Writes the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", action="append", required=True, metavar="NAME=CONFIG[@LIBRARY]")
    parser.add_argument("--command", default="", help="how to build the libraries; kept with the counts")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args(arguments)
    variants = {}
    for entry in options.variant:
        name, _, rest = entry.partition("=")
        config, _, library = rest.partition("@")
        variants[name] = config, Path(library) if library else LIBRARY
    data = for_rounds(variants, options.command)
    for name, modes in data["correct"].items():
        print(f"{name}: " + "; ".join(f"{mode}: {found['verdict']}" for mode, found in modes.items()))
    write_json(options.json, data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
